"""Rows that cannot be used: left out aloud, or refused with the file, the row and what to do; never changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from calls import Done, Headrace


def produce(headrace: Headrace, folder: Path, source: dict[str, Any], **recipe: object) -> Done:
    """A recipe of one source `a`, all of whose rows make one or more steps of the stream `out`."""
    base = {
        "seed": 1,
        "lanes": 1,
        "strands": 1,
        "shuffle": False,
        "drop_last": False,
        "step": {"sequences": 1} if "pack" in recipe else {"samples": 1},
        "sources": {"a": source},
    } | recipe
    (folder / "recipe.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in base.items()))
    return headrace("produce", folder / "recipe.yaml", "--stream", folder / "out", "--json", "--no-probe")


def tokens(headrace: Headrace, folder: Path) -> list[int]:
    """Those of the first step, without padding."""
    done = headrace("cat", folder / "out", "--step", "0", "--values", "100", "--json")
    assert done.status == 0, done.err
    return [token for token in done.json["lanes"][0]["columns"]["tokens"]["values"] if token]


BAD_LINES = [b'{"id": 1, "text": "x",}', b'{"id": 1, "text": "\xff"}', b'{"id": 1, "te', b'{"id": 1, "text": "\\ud800"}']


@pytest.mark.parametrize("line", BAD_LINES)
def test_lines_that_cannot_be_read_are_counted_and_the_first_is_named(headrace: Headrace, tmp_path: Path, line: bytes) -> None:
    good = b'{"id": %d, "text": "good"}'
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(good % i if i % 2 == 0 else line for i in range(100)) + b"\n")
    done = produce(headrace, tmp_path, {"files": "a.jsonl"}, keep=["id"], bad_samples="skip")
    assert done.status == 0, done.err
    assert done.json["samples"] == {"a": 50}
    assert done.json["skipped"] == {"a": 50}
    warnings = [line for line in done.err.splitlines() if "bad samples are left out" in line]
    assert len(warnings) == 1, done.err
    assert "source=a" in warnings[0]
    assert "row=1 " in warnings[0]
    assert "a.jsonl" in warnings[0]
    assert "it is no valid" in warnings[0]
    (tmp_path / "out").rename(tmp_path / "before")
    done = produce(headrace, tmp_path, {"files": "a.jsonl"}, keep=["id"], bad_samples={"skip": 5})
    assert done.status == 1
    assert "bad rows" in done.err
    assert "5 for this source in one epoch of a strand" in done.err
    assert "The first is row 1 of " in done.err
    assert "bad_samples: {skip: " in done.err


def test_the_summary_says_what_was_left_out(headrace: Headrace, tmp_path: Path) -> None:
    np.array([1, 2, 3, 4, 5, -1, 7, 8], "int32").tofile(tmp_path / "a.bin")
    source = {"files": "a.bin", "format": "tokens", "dtype": "int32", "document_length": 4}
    assert produce(headrace, tmp_path, source, pack={"length": 8}).status == 1
    done = headrace("produce", tmp_path / "recipe.yaml", "--stream", tmp_path / "out", "--no-probe")
    assert "source a: row 1 of " in done.err
    assert "its token -1 is negative" in done.err
    with (tmp_path / "recipe.yaml").open("a") as recipe:
        recipe.write("bad_samples: skip\n")
    done = headrace("produce", tmp_path / "recipe.yaml", "--stream", tmp_path / "out", "--no-probe")
    assert done.status == 0, done.err
    assert "1 bad samples of a were left out" in done.out
    assert tokens(headrace, tmp_path) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
@pytest.mark.parametrize("token", [2**33, 2**31, -5])
def test_numbers_that_are_no_tokens(headrace: Headrace, tmp_path: Path, kind: str, token: int) -> None:
    rows = [[1, 2, 3], [4, token], [5, 6]]
    if kind == "parquet":
        pq.write_table(pa.table({"tokens": pa.array(rows, pa.list_(pa.int64()))}), tmp_path / "a.parquet")
    else:
        (tmp_path / "a.jsonl").write_text("".join(json.dumps({"tokens": row}) + "\n" for row in rows))
    done = produce(headrace, tmp_path, {"files": f"a.{kind}"}, pack={"length": 16})
    assert done.status == 1
    assert "source a: row 1 of " in done.err
    assert f'a.{kind} cannot be used: token 1 of its "tokens" is {token}, and a token is' in done.err
    assert "bad_samples" in done.err
    done = produce(headrace, tmp_path, {"files": f"a.{kind}"}, pack={"length": 16}, bad_samples="skip")
    assert done.status == 0, done.err
    assert done.json["skipped"] == {"a": 1}
    assert tokens(headrace, tmp_path) == [1, 2, 3, 5, 6]
