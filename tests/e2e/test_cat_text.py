"""`headrace cat` shows what tokens mean, by the tokenizer of the stream's recipe, and says why where it cannot."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from calls import Headrace
from lakes import make_lake, write_recipe

tokenizers = pytest.importorskip("tokenizers", reason="TOKENIZERS IS NOT INSTALLED: what needs it is left out")

TEXTS = [f"Der Fluss fließt zur Mühle, zum {n}. Mal 🌊; le {n}e moulin tourne." for n in range(200)]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(TEXTS, vocab_size=600, special_tokens=["<eos>"])
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


@pytest.fixture
def stream(headrace: Headrace, tmp_path: Path, tokenizer: Path) -> Path:
    headrace.environment["HEADRACE_PYTHON"] = sys.executable
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    recipe = write_recipe(
        tmp_path,
        "transform:\n  - tokenize: {tokenizer: tokenizer.json, from: text}\npack: {length: 256}",
        'sources:\n  docs: {format: jsonl, files: "lake/*.jsonl"}\n',
    )
    done = headrace("produce", recipe, "--stream", tmp_path / "out", "--no-probe", "--json")
    assert done.status == 0, done.err
    return tmp_path / "out"


def test_the_text_of_every_document_is_shown(headrace: Headrace, stream: Path) -> None:
    seen: dict[str, int] = {}
    steps = headrace("inspect", stream, "--json").json["steps"]
    for step in range(steps):
        shown = headrace("cat", stream, "--step", str(step), "--values", "1000", "--json")
        assert shown.status == 0, shown.err
        samples = headrace("lineage", stream, "--step", str(step), "--json").json["samples"]
        places = {(s["lane"], s["sequence"], s["position"]): s for s in samples}
        for lane in shown.json["lanes"]:
            for document in lane["documents"]:
                sample = places.pop((lane["lane"], document["sequence"], document["position"]))
                assert sample["length"] == document["length"]
                if sample["start"] == 0 and document["text"] in TEXTS:
                    assert document["text"] == TEXTS[sample["row"]]
                seen[document["text"]] = seen.get(document["text"], 0) + 1
        assert not places, "documents that are not shown"
    assert sum(seen.get(text, 0) == 1 for text in TEXTS) > 150  # the rest was split between sequences
    people = headrace("cat", stream, "--step", "0", "--lane", "0")
    assert people.status == 0, people.err
    assert "Der Fluss fließt zur Mühle" in people.out
    assert "shown as numbers" not in people.out


def test_without_its_tokenizer_the_numbers_are_shown(headrace: Headrace, stream: Path, tokenizer: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    tokenizer.rename(elsewhere)
    shown = headrace("cat", stream, "--step", "0")
    assert shown.status == 0, shown.err
    [line] = [line for line in shown.out.splitlines() if "shown as numbers" in line]
    assert "tokenizer.json" in line
    assert "--tokenizer" in line
    answer = headrace("cat", stream, "--step", "0", "--json").json
    assert "tokenizer.json" in answer["no_text"]
    assert "documents" not in answer["lanes"][0]
    named = headrace("cat", stream, "--step", "0", "--tokenizer", elsewhere)
    assert "Der Fluss" in named.out
    refused = headrace("cat", stream, "--step", "0", "--tokenizer", tmp_path / "nowhere.json")
    assert refused.status == 1
    assert "nowhere.json" in refused.err


def test_another_tokenizer_in_its_place_is_not_believed(headrace: Headrace, stream: Path, tokenizer: Path) -> None:
    other = tokenizers.ByteLevelBPETokenizer()
    other.train_from_iterator(["something else entirely"] * 3, vocab_size=300)
    other.save(str(tokenizer))
    shown = headrace("cat", stream, "--step", "0")
    assert shown.status == 0, shown.err
    assert "not the tokenizer that the stream was made with" in shown.out


def test_a_recipe_without_a_tokenizer_says_so(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path, (60, 40, 30))
    assert headrace("produce", write_recipe(tmp_path), "--stream", tmp_path / "out", "--no-probe").status == 0
    shown = headrace("cat", tmp_path / "out", "--step", "0")
    assert shown.status == 0, shown.err
    assert "has no tokenizer" in shown.out


def test_a_program_without_a_lake_shows_numbers(headrace: Headrace, stream: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone" / "headrace"
    alone.parent.mkdir()
    shutil.copy(headrace.binary, alone)
    headrace.binary = alone
    shown = headrace("cat", stream, "--step", "0")
    assert shown.status == 0, shown.err
    assert "headrace-lake" in shown.out
    assert '"Der Fluss' not in shown.out
