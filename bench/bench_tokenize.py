"""Tokenizing through a recipe against the library `tokenizers` itself, on the same texts, cores and tokenizer.

    .venv/bin/python bench/bench_tokenize.py [--megabytes 40] [--threads 2] [--tokenizer tokenizer.json]

The library's figure is its own batch encoding (`Tokenizer.encode_batch`, and `encode_batch_fast`, which leaves out offsets) from
Python strings that are in memory already; ours is `TransformChain::Apply` from an Arrow column to an Arrow column. Rounds
alternate, and the best of each counts. The aim is 0.95 of the library or more.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent
BATCH = 2048
# GPT-2's words, more or less.
WORD = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def transform_tool() -> Path:
    if named := os.environ.get("HEADRACE_TRANSFORM_TOOL"):
        return Path(named)
    found = ROOT / "build/release/tests/transform_tool"
    if not found.exists():
        sys.exit(
            "transform_tool is not built: cmake --preset release -DHEADRACE_TESTS=ON && ninja -C build/release transform_tool"
        )
    return found


def make_texts(megabytes: float) -> list[str]:
    """Documents of the length of web pages, in words as frequent as words are: Zipf over a made-up language with real letters."""
    rng = random.Random(7)
    syllables = [a + b for a in "bcdfghklmnprstvwz" for b in ("a", "e", "i", "o", "u", "ä", "ou", "en", "er")]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(50_000)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    texts, size = [], 0
    while size < megabytes * 1e6:
        drawn = rng.choices(words, weights, k=max(5, int(rng.lognormvariate(5.5, 1))))
        text = " ".join(w + rng.choice([",", ".", "", "", "", "", "\n"]) for w in drawn)
        texts.append(text)
        size += len(text.encode())
    return texts


def train(texts: list[str], path: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(WORD), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=32_000, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=40)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json; else one is trained on the texts")
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    texts = make_texts(options.megabytes)
    size = sum(len(text.encode()) for text in texts) / 1e6
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = options.tokenizer or folder / "tokenizer.json"
        if not options.tokenizer:
            train(texts[: len(texts) // 8], file)
        tokenizer = Tokenizer.from_file(str(file))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        recipe = {
            "lanes": 1,
            "step": {"samples": 1},
            "sources": {"x": {"format": "arrow", "files": "*"}},
            "transform": [{"tokenize": str(file)}],
        }
        (folder / "recipe.yaml").write_text(json.dumps(recipe))
        column = pa.array(texts)
        table = pa.table(
            {"text": column, "__file": pa.array([0] * len(texts), pa.int32()), "__row": pa.array(range(len(texts)), pa.int64())}
        )
        with pa.ipc.new_stream(str(folder / "input"), table.schema) as writer:
            for batch in table.to_batches(max_chunksize=BATCH):
                writer.write_batch(batch)

        def ours(*words: str) -> float:
            command = [
                str(transform_tool()),
                *(str(folder / n) for n in ("recipe.yaml", "input", "output")),
                "--python",
                sys.executable,
            ]
            return json.loads(subprocess.run([*command, *words], check=True, capture_output=True).stdout)["seconds"]

        def library(fast: bool) -> float:
            encode = tokenizer.encode_batch_fast if fast else tokenizer.encode_batch
            begin = time.perf_counter()
            for first in range(0, len(texts), BATCH):
                encode(texts[first : first + BATCH], add_special_tokens=False)
            return time.perf_counter() - begin

        threads = str(options.threads)
        runs = {
            "tokenizers encode_batch": lambda: library(False),
            "tokenizers encode_batch_fast": lambda: library(True),
            "headrace, one caller": lambda: ours("--threads", threads),
            "headrace, a caller per core": lambda: ours("--threads", "1", "--callers", threads),
            "headrace, worker processes": lambda: ours("--threads", threads, "--worker-tokenizer"),
        }
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(options.rounds):
            for what, run in runs.items():
                best[what] = min(best[what], run())
        print(f"{size:.0f} MB in {len(texts)} documents, {options.threads} threads, best of {options.rounds} rounds")
        baseline = best["tokenizers encode_batch"]
        for what, seconds in best.items():
            print(f"{what:32} {size / seconds:8.2f} MB/s   {baseline / seconds:5.2f} of encode_batch")
        result = pa.ipc.open_stream((folder / "output").read_bytes()).read_all()["tokens"]
        first = tokenizer.encode_batch(texts[:100], add_special_tokens=False)
        assert result.slice(0, 100).to_pylist() == [e.ids for e in first], "the tokens differ"


if __name__ == "__main__":
    main()
