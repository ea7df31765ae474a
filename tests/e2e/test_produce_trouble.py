"""Producers in trouble: interrupted, out of space, of one name, with a transform that is not deterministic; long documents."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from calls import Headrace
from lakes import QUICK, documents, eventually, make_lake, write_parquet, write_recipe


def digest(headrace: Headrace, stream: Path) -> dict:
    done = headrace("digest", stream, "--json")
    assert done.status == 0, done.err
    return done.json


def test_a_transform_that_is_not_deterministic_is_named_at_a_take_over(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path)
    (tmp_path / "fixes.py").write_text(
        "import os, pyarrow as pa\n"
        "def fix(batch, rng):\n"
        "    salt = int.from_bytes(os.urandom(2), 'little')\n"
        "    tokens = [[*row, salt % 30000] for row in batch.column('tokens').to_pylist()]\n"
        "    at = batch.schema.get_field_index('tokens')\n"
        "    return batch.set_column(at, 'tokens', pa.array(tokens, pa.list_(pa.int32())))\n"
    )
    recipe = write_recipe(tmp_path, 'transform:\n  - python: {call: "fixes:fix"}')
    first = headrace("produce", recipe, "--stream", tmp_path / "out", "--steps", "8", *QUICK)
    assert first.status == 0, first.err
    # The next one reads again what the first had drawn and not placed.
    second = headrace("produce", recipe, "--stream", tmp_path / "out", *QUICK)
    assert second.status == 1
    assert "not deterministic" in second.err
    assert "a sample that strand" in second.err
    assert any(f"source {name}" in second.err for name in ("web", "code", "books"))


@pytest.mark.parametrize("overflow", ["truncate", "drop", "split"])
def test_documents_that_are_too_long(headrace: Headrace, tmp_path: Path, overflow: str) -> None:
    docs = documents(0, 600, longest=150)
    assert sum(len(doc) > 32 for doc in docs) > 20
    write_parquet(tmp_path / "lake", docs, files=2)
    recipe = write_recipe(
        tmp_path,
        f"pack: {{length: 32, overflow: {overflow}}}",
        'sources:\n  docs: {format: parquet, files: "lake/*.parquet"}\n',
    )
    done = headrace("produce", recipe, "--stream", tmp_path / "out", "--json", *QUICK)
    assert done.status == 0, done.err
    seen: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for file in (tmp_path / "out" / "lineage").rglob("*"):
        if file.is_file():
            for sample in pq.read_table(file).to_pylist():
                key = (int(Path(sample["file"]).stem.split("-")[1]), sample["row"])
                seen.setdefault(key, []).append((sample["start"], sample["length"]))
    for part in range(2):
        for row, doc in enumerate(docs[part::2]):
            pieces = sorted(seen.pop((part, row), []))
            wanted = {"split": len(doc), "truncate": min(32, len(doc)), "drop": len(doc) if len(doc) <= 32 else 0}[overflow]
            assert sum(length for _, length in pieces) == wanted
            assert [start for start, _ in pieces] == [sum(n for _, n in pieces[:i]) for i in range(len(pieces))]
            assert all(length <= 32 for _, length in pieces)
    assert not seen


def test_ctrl_c_ends_it_in_order_and_the_next_start_goes_on(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path, (900, 700, 400))
    recipe = write_recipe(tmp_path)
    stream = tmp_path / "out"
    with headrace.start("produce", recipe, "--stream", stream, "--json", "--threads", "1", *QUICK) as producer:
        assert eventually(lambda: any((stream / "data").rglob("*-*-*")))
        producer.send_signal(signal.SIGINT)
        out, err = producer.communicate(timeout=120)
    assert producer.returncode == 0, err
    assert '"stream"' in out
    assert not [file for file in (stream / "pending").glob("*")]
    assert headrace("verify", stream).status == 0
    assert headrace("produce", recipe, "--stream", stream, *QUICK).status == 0
    assert headrace("produce", recipe, "--stream", tmp_path / "calm", *QUICK).status == 0
    assert digest(headrace, stream) == digest(headrace, tmp_path / "calm")


def test_a_full_disk_is_waited_for(headrace: Headrace, small_disk: Path, tmp_path: Path) -> None:
    make_lake(tmp_path, (900, 700, 400))
    recipe = write_recipe(tmp_path)
    ballast = small_disk / "ballast"
    stream = small_disk / "out"
    assert headrace("produce", recipe, "--stream", stream, "--steps", "6", *QUICK).status == 0
    with ballast.open("wb") as file:
        try:
            while True:
                os.write(file.fileno(), b"x" * 4096)
        except OSError:
            pass
    said = tmp_path / "said"
    words = ["produce", recipe, "--stream", stream, *QUICK]
    with said.open("w") as file, headrace.start(*words, stderr=file) as producer:
        try:
            assert eventually(lambda: producer.poll() is not None or "space" in said.read_text() or "full" in said.read_text())
            time.sleep(1)
            assert producer.poll() is None, said.read_text()  # it waits
            ballast.unlink()
            producer.communicate(timeout=240)
        finally:
            producer.kill()
    assert producer.returncode == 0, said.read_text()
    assert headrace("verify", stream).status == 0
    assert headrace("produce", recipe, "--stream", tmp_path / "calm", *QUICK).status == 0
    assert digest(headrace, stream) == digest(headrace, tmp_path / "calm")


def test_two_producers_of_one_name_are_two(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path, (900, 700, 400))
    recipe = write_recipe(tmp_path)
    words = ["produce", recipe, "--stream", tmp_path / "out", "--owner", "twin", *QUICK]
    producers = [headrace.start(*words) for _ in range(2)]
    for producer in producers:
        _, err = producer.communicate(timeout=300)
        assert producer.returncode == 0, err
    assert headrace("produce", recipe, "--stream", tmp_path / "calm", *QUICK).status == 0
    assert digest(headrace, tmp_path / "out") == digest(headrace, tmp_path / "calm")
