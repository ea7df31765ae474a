"""Transforms against the libraries that they have to agree with, token for token; and against user code that misbehaves."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
tokenizers = pytest.importorskip("tokenizers")
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent.parent
WORDS = [
    *re.findall(
        r"\S+", "the quick brown fox jumps over a lazy dog while seven ships sail under grey skies; don't 3.14159 2,000,000"
    ),
    *re.findall(
        r"\S+",
        "naïve façade Übermut Straße año мир привет κόσμος 你好世界 日本語のテキスト 한국어 नमस्ते שלום مرحبا 🙂 👩‍👩‍👧‍👦 🇩🇪",
    ),
    *("e\u0301", "\ufb01", "\u200b", "\t\n\r\n", "", "\u00a0"),
]


def transform_tool() -> Path:
    """The program under test; HEADRACE_TRANSFORM_TOOL says where it is if not in a build folder."""
    if named := os.environ.get("HEADRACE_TRANSFORM_TOOL"):
        return Path(named)
    found = sorted(ROOT.glob("build/*/tests/transform_tool"), key=lambda path: path.stat().st_mtime)
    if not found:
        pytest.fail("transform_tool is not built: cmake -DHEADRACE_TESTS=ON, target transform_tool")
    return found[-1]


class Transforms:
    """A folder with a recipe's files, and the tool that applies the recipe's transforms."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def command(
        self, transform: list[dict[str, Any]], batches: Sequence[pa.RecordBatch], *words: str, **top: object
    ) -> list[str]:
        recipe = {
            "lanes": 1,
            "step": {"samples": 8},
            "sources": {"web": {"format": "arrow", "files": "*.arrow"}},
            "transform": transform,
        } | top
        (self.folder / "recipe.yaml").write_text(json.dumps(recipe))  # JSON is YAML
        with pa.ipc.new_stream(str(self.folder / "input"), batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        files = [str(self.folder / name) for name in ("recipe.yaml", "input", "output")]
        return [str(transform_tool()), *files, "--python", sys.executable, *words]

    def run(
        self, transform: list[dict[str, Any]], batches: Sequence[pa.RecordBatch], *words: str, **top: object
    ) -> tuple[pa.Table, Any]:
        done = subprocess.run(
            self.command(transform, batches, *words, **top), capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        # Its bytes, not a map of the file, which the next run writes anew.
        return pa.ipc.open_stream((self.folder / "output").read_bytes()).read_all(), json.loads(done.stdout)

    def fail(self, transform: list[dict[str, Any]], batches: Sequence[pa.RecordBatch], *words: str) -> str:
        done = subprocess.run(self.command(transform, batches, *words), capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 1, done.stdout
        return done.stderr


@pytest.fixture
def transforms(tmp_path: Path) -> Transforms:
    return Transforms(tmp_path)


def batch_of(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    origins = {"__file": pa.array([0] * rows, pa.int32()), "__row": pa.array(range(rows), pa.int64())}
    return pa.record_batch(columns | origins)


def make_corpus(seed: int, documents: int) -> list[str]:
    rng = random.Random(seed)
    texts = ["", " ", "\n\n\n", "a" * 3000, "🙂" * 200, "\ufeff bom", "tab\tand\0zero", "<s> not special </s>", "<|endoftext|>"]
    while len(texts) < documents:
        texts.append(" ".join(rng.choices(WORDS, k=rng.randint(1, 120))))
    return texts


# What models really use: byte-level BPE (GPT-2, Llama 3, Qwen), BPE with byte fallback (Llama 2), unigram (T5), WordPiece (BERT).
KINDS = ["byte_level", "byte_fallback", "unigram", "word_piece"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    files = {}
    special = ["<s>", "</s>", "<unk>", "<|endoftext|>", "[UNK]"]
    corpus = make_corpus(1, 300)
    for kind in KINDS:
        if kind == "byte_level":
            tokenizer = Tokenizer(models.BPE())
            split = pre_tokenizers.Split(
                tokenizers.Regex(r"'s|'t| ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"), "isolated"
            )
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
            )
            tokenizer.decoder = decoders.ByteLevel()
            tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
            trainer = trainers.BpeTrainer(
                vocab_size=1500, special_tokens=special, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
            )
        elif kind == "byte_fallback":
            tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
            tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
            tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
            special_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
            trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=special + special_bytes, show_progress=False)
        elif kind == "unigram":
            tokenizer = Tokenizer(models.Unigram())
            tokenizer.normalizer = normalizers.NFKC()
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
            tokenizer.decoder = decoders.Metaspace()
            trainer = trainers.UnigramTrainer(vocab_size=800, special_tokens=special, unk_token="<unk>", show_progress=False)
        else:
            tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
            tokenizer.normalizer = normalizers.BertNormalizer()
            tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            trainer = trainers.WordPieceTrainer(vocab_size=1000, special_tokens=special, show_progress=False)
        tokenizer.train_from_iterator(corpus, trainer)
        # Asked for in the file, and not to be done: documents are not cut, and do not depend on their neighbours.
        tokenizer.enable_truncation(512)
        tokenizer.enable_padding()
        files[kind] = tmp_path_factory.mktemp(kind) / "tokenizer.json"
        tokenizer.save(str(files[kind]))
    return files


def expected_tokens(file: Path, texts: list[str]) -> list[list[int]]:
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]


@pytest.mark.parametrize("how", ["native", "workers"])
@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_those_of_the_library(transforms: Transforms, trained: dict[str, Path], kind: str, how: str) -> None:
    texts = make_corpus(2, 400)
    batches = [
        batch_of({"text": pa.array(texts[:250]), "id": pa.array(range(250))}),
        batch_of({"text": pa.array(texts[250:]), "id": pa.array(range(250, 400))}),
    ]
    words = ["--threads", "2", "--callers", "2"] + (["--worker-tokenizer"] if how == "workers" else [])
    table, about = transforms.run([{"tokenize": str(trained[kind])}], batches, *words)
    assert table.schema.field("tokens").type == pa.list_(pa.int32())
    assert table.column_names == ["id", "__file", "__row", "tokens"]
    assert table["tokens"].to_pylist() == expected_tokens(trained[kind], texts)
    assert about["bad"] == []
    if how == "native" and not about["native"]:
        pytest.skip("TOKENIZING IN THE PRODUCER IS NOT TESTED: this build has no tokenizer of its own (cargo was missing)")
    assert about["native"] == (how == "native")
    assert about["vocabulary"] == max(Tokenizer.from_file(str(trained[kind])).get_vocab().values()) + 1
    assert about["reads"] == ["text"]
    assert about["fingerprints"]["tokenizers"] == tokenizers.__version__


def test_both_ways_have_the_same_fingerprints_and_decode_alike(transforms: Transforms, trained: dict[str, Path]) -> None:
    file = trained["byte_level"]
    text = "naïve 你好 🙂</s>"
    tokens = Tokenizer.from_file(str(file)).encode(text, add_special_tokens=False).ids
    batch = [batch_of({"text": pa.array(["x"])})]
    words = ["--decode", ",".join(map(str, tokens))]
    about = [transforms.run([{"tokenize": str(file)}], batch, *words, *more)[1] for more in ([], ["--worker-tokenizer"])]
    assert about[0]["fingerprints"] == about[1]["fingerprints"]
    assert about[0]["text"] == about[1]["text"] == text


def test_ten_megabytes_in_a_line(transforms: Transforms, trained: dict[str, Path]) -> None:
    line = " ".join(random.Random(3).choices(WORDS, k=1_400_000))
    assert len(line.encode()) > 10_000_000
    texts = ["before", line, "after"]
    expected = pa.array(expected_tokens(trained["byte_level"], texts), pa.list_(pa.int32()))
    for words in ([], ["--worker-tokenizer"]):
        table, _ = transforms.run([{"tokenize": str(trained["byte_level"])}], [batch_of({"text": pa.array(texts)})], *words)
        assert table["tokens"].combine_chunks().equals(expected)


@pytest.mark.parametrize("how", ["native", "workers"])
def test_bad_and_empty_texts(transforms: Transforms, trained: dict[str, Path], how: str) -> None:
    raw = [b"good", b"\xff\xfe", "ü".encode()[:1], b"", None, b"ok \xed\xa0\x80 surrogate", "ü".encode()]
    column = pa.array(raw, pa.binary()).view(pa.string())  # as a reader that does not look would hand it over
    spec = {"tokenizer": str(trained["byte_level"]), "add_bos": True, "add_eos": True}
    table, about = transforms.run(
        [{"tokenize": spec}], [batch_of({"text": column})], *(["--worker-tokenizer"] if how == "workers" else [])
    )
    first, last = (Tokenizer.from_file(str(trained["byte_level"])).token_to_id(token) for token in ("<s>", "</s>"))
    good = expected_tokens(trained["byte_level"], ["good", "", "ü"])
    assert table["tokens"].to_pylist() == [[first, *tokens, last] for tokens in good]
    assert table["__row"].to_pylist() == [0, 3, 6]
    assert [row["row"] for row in about["bad"]] == [1, 2, 4, 5]
    assert about["bad"][0]["why"].endswith("recipe.yaml:1: tokenize: 'text': the text is not valid UTF-8 at byte 0")
    assert about["bad"][3]["why"].endswith("recipe.yaml:1: tokenize: 'text': the text is not valid UTF-8 at byte 3")


def test_the_text_stays_where_it_is_asked_for(transforms: Transforms, trained: dict[str, Path]) -> None:
    batch = [batch_of({"text": pa.array(["one two three", "one"])})]
    tokenize = {"tokenize": str(trained["byte_level"])}
    assert "text" in transforms.run([tokenize], batch, keep=["text"])[0].column_names
    table, _ = transforms.run([tokenize, {"filter": "length(text) > 5"}], batch)
    assert table["text"].to_pylist() == ["one two three"]
    assert "text" not in transforms.run([tokenize], batch)[0].column_names


# --- Chat -------------------------------------------------------------------------------------------------------------------

TEMPLATE = """{%- for message in messages %}
{%- if message.role == 'martian' %}{{ raise_exception('unknown role ' + message.role) }}{% endif %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}{% generation %}{{ message.content }}
{%- if message.tool_calls is defined %}{{ message.tool_calls | tojson }}{% endif %}{{ '<|im_end|>' }}{% endgeneration %}
{%- else %}{{ message.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}
{%- endfor %}"""


@pytest.fixture(scope="module")
def chat_folder(trained: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("chat")
    tokenizer = Tokenizer.from_file(str(trained["byte_level"]))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", additional_special_tokens=["<|im_start|>", "<|im_end|>"]
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    return folder


def make_conversations(seed: int, count: int) -> list[list[dict[str, Any]]]:
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        turns: list[dict[str, Any]] = [{"role": "system", "content": "be brief"}] if rng.random() < 0.5 else []
        for _ in range(rng.randint(1, 4)):
            turns.append({"role": "user", "content": " ".join(rng.choices(WORDS, k=rng.randint(0, 20)))})
            turns.append({"role": "assistant", "content": " ".join(rng.choices(WORDS, k=rng.randint(0, 20)))})
            if rng.random() < 0.2:
                turns[-1]["tool_calls"] = [{"name": "look", "arguments": {"at": "🙂"}}]
        found.append(turns)
    return found


def test_chat_equals_apply_chat_template(transforms: Transforms, chat_folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(chat_folder)
    conversations = make_conversations(4, 60)
    expected = [
        tokenizer.apply_chat_template(c, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        for c in conversations
    ]
    assert any(0 < sum(e["assistant_masks"]) < len(e["input_ids"]) for e in expected)
    # As structs, where Arrow gives every message the keys of all, and as JSON.
    for column in (pa.array(conversations), pa.array([json.dumps(c) for c in conversations])):
        table, about = transforms.run([{"chat": str(chat_folder)}], [batch_of({"messages": column})])
        assert table["tokens"].to_pylist() == [e["input_ids"] for e in expected]
        assert table["loss_mask"].to_pylist() == [e["assistant_masks"] for e in expected]
        assert table.schema.field("loss_mask").type == pa.list_(pa.uint8())
        assert about["bad"] == []
        assert "messages" not in table.column_names
        assert {"tokenizers", "transformers"} <= about["fingerprints"].keys()


def test_chat_trains_on_all_or_names_what_it_cannot_use(transforms: Transforms, chat_folder: Path) -> None:
    conversations = make_conversations(5, 3)
    conversations[1] = [{"role": "martian", "content": "zzz"}]
    rows = [json.dumps(c) for c in conversations] + ["not JSON", "[]", "3"]
    spec = {"chat": {"tokenizer": str(chat_folder), "train_on": "all"}}
    table, about = transforms.run([spec], [batch_of({"messages": pa.array(rows)})])
    assert [set(mask) for mask in table["loss_mask"].to_pylist()] == [{1}, {1}]
    assert table["__row"].to_pylist() == [0, 2]
    assert [row["row"] for row in about["bad"]] == [1, 3, 4, 5]
    assert "unknown role martian" in about["bad"][0]["why"]


def test_a_template_without_generation_marks_says_what_to_do(transforms: Transforms, chat_folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(chat_folder)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    tokenizer.save_pretrained(transforms.folder / "plain")
    batch = [batch_of({"messages": pa.array([json.dumps([{"role": "user", "content": "hi"}])])})]
    error = transforms.fail([{"chat": "plain"}], batch)
    assert "has no {% generation %}" in error
    assert "train_on: all" in error
    transforms.run([{"chat": {"tokenizer": "plain", "train_on": "all"}}], batch)


# --- Python -----------------------------------------------------------------------------------------------------------------

FIXES = """
import os, time
import pyarrow as pa
import pyarrow.compute as pc

def shuffle_words(batch: pa.RecordBatch, rng) -> pa.RecordBatch:
    texts = [" ".join(rng.permutation(text.split())) for text in batch.column("text").to_pylist()]
    return batch.set_column(0, "text", pa.array(texts))

def repeat(batch, rng):
    return batch.take(pa.array([row for row in range(batch.num_rows) for _ in range(row % 3)]))

def slow(batch, rng):
    # Each waits until as many others as there may be at once have begun, however long they need to start.
    begin = time.monotonic()
    with open(os.environ["TIMES"] + ".begun", "a") as file:
        file.write(f"{os.getpid()}\\n")
    while len(set(open(os.environ["TIMES"] + ".begun"))) < 2 and time.monotonic() < begin + 60:
        time.sleep(0.02)
    time.sleep(0.1)
    with open(os.environ["TIMES"], "a") as file:
        file.write(f"{os.getpid()} {begin} {time.monotonic()}\\n")
    return batch

def stuck(batch, rng):
    open(os.environ["PID_FILE"], "w").write(str(os.getpid()))
    while True:
        pass

def big(batch, rng):
    return batch.append_column("big", pa.array([b"x" * 50_000_000] * batch.num_rows))

def bad_rows(batch, rng):
    if pc.any(pc.equal(batch.column("text"), "bad")).as_py():
        raise KeyError("this one")
    return batch
"""


@pytest.fixture
def fixes(transforms: Transforms) -> Transforms:
    (transforms.folder / "fixes.py").write_text(FIXES)
    return transforms


def test_python_is_a_function_of_batch_and_seed(fixes: Transforms) -> None:
    batches = [batch_of({"text": pa.array(["one two three four five six seven eight"] * 3)}) for _ in range(4)]
    spec = [{"python": {"call": "fixes:shuffle_words", "workers": 2}}]
    first, about = fixes.run(spec, batches, "--seed", "5", "--callers", "2")
    again, _ = fixes.run(spec, batches, "--seed", "5")
    other, _ = fixes.run(spec, batches, "--seed", "6")
    assert first.equals(again)
    assert not first.equals(other)
    assert "python:fixes" in about["fingerprints"]
    assert about["reads"] == []
    (fixes.folder / "fixes.py").write_text(FIXES + "\n# changed\n")
    assert fixes.run(spec, batches)[1]["fingerprints"] != about["fingerprints"]


def test_python_may_multiply_rows(fixes: Transforms) -> None:
    table, _ = fixes.run([{"python": "fixes:repeat"}], [batch_of({"text": pa.array(["a", "b", "c", "d", "e"])})])
    assert table["__row"].to_pylist() == [1, 2, 2, 4]


def test_large_batches_pass_through_shared_memory(fixes: Transforms) -> None:
    table, _ = fixes.run([{"python": "fixes:big"}], [batch_of({"text": pa.array(["a", "b"])})])
    assert [len(value) for value in table["big"].to_pylist()] == [50_000_000] * 2


def test_a_slow_function_runs_in_as_many_workers_as_the_recipe_says(fixes: Transforms, monkeypatch: pytest.MonkeyPatch) -> None:
    times = fixes.folder / "times"
    monkeypatch.setenv("TIMES", str(times))
    batches = [batch_of({"text": pa.array(["a"])})] * 8
    fixes.run([{"python": {"call": "fixes:slow", "workers": 2}}], batches, "--callers", "4")
    calls = [line.split() for line in times.read_text().splitlines()]
    assert len(calls) == 8
    assert len({pid for pid, _, _ in calls}) == 2
    at_once = [sum(float(b) <= float(begin) < float(e) for _, b, e in calls) for _, begin, _ in calls]
    assert max(at_once) == 2


def test_skipped_samples_are_named_and_the_rest_is_kept(fixes: Transforms) -> None:
    texts = [f"text {i}" for i in range(100)]
    texts[17] = texts[80] = "bad"
    table, about = fixes.run([{"python": {"call": "fixes:bad_rows", "on_error": "skip"}}], [batch_of({"text": pa.array(texts)})])
    assert table["__row"].to_pylist() == [row for row in range(100) if row not in (17, 80)]
    assert [(row["row"], row["skip"]) for row in about["bad"]] == [(17, True), (80, True)]
    assert "KeyError: 'this one'" in about["bad"][0]["why"]
    error = fixes.fail([{"python": "fixes:bad_rows"}], [batch_of({"text": pa.array(texts)})])
    assert "failed: KeyError: 'this one'" in error
    assert 'fixes.py", line' in error


def test_a_worker_that_is_stuck_dies_with_its_producer(fixes: Transforms, monkeypatch: pytest.MonkeyPatch) -> None:
    file = fixes.folder / "pid"
    monkeypatch.setenv("PID_FILE", str(file))
    command = fixes.command([{"python": {"call": "fixes:stuck", "timeout": "10m"}}], [batch_of({"text": pa.array(["a"])})])
    producer = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 120
        while not (file.exists() and file.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        worker = int(file.read_text())
        producer.send_signal(signal.SIGKILL)
        producer.wait()
        deadline = time.monotonic() + 120
        # Gone, or a zombie that nobody has collected: in either case it uses nothing any more.
        while time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError):
                if Path(f"/proc/{worker}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    time.sleep(0.02)
                    continue
            return
        pytest.fail("the worker lives on")
    finally:
        producer.kill()
        producer.wait()
