"""Sources of a recipe against what other people's libraries write and read."""

from __future__ import annotations

import collections
import gzip
import json
import math
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
import servers
from calls import Bucket

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent.parent


def source_tool() -> Path:
    """The program under test; HEADRACE_SOURCE_TOOL says where it is if not in a build folder."""
    if named := os.environ.get("HEADRACE_SOURCE_TOOL"):
        return Path(named)
    found = sorted(ROOT.glob("build/*/tests/source_tool"), key=lambda path: path.stat().st_mtime)
    if not found:
        pytest.fail("source_tool is not built: cmake -DHEADRACE_TESTS=ON, target source_tool")
    return found[-1]


class Read:
    """What came of a source: its inventory, and its rows in the order of the strands."""

    def __init__(self, about: dict[str, Any], table: pa.Table | None) -> None:
        self.about = about
        self.table = table

    @property
    def rows(self) -> list[dict[str, Any]]:
        assert self.table is not None
        return self.table.to_pylist()

    def in_file_order(self) -> list[dict[str, Any]]:
        """The rows as the files have them, without their places."""
        rows = sorted(self.rows, key=lambda row: (row["__file"], row["__row"]))
        return [{name: value for name, value in row.items() if not name.startswith("__") or name == "__key__"} for row in rows]


def run(words: dict[str, Any], env: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [source_tool(), json.dumps(words)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **(env or {})},
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def read(tmp_path: Path, env: dict[str, str] | None = None, **words: object) -> Read:
    out = tmp_path / f"out-{random.getrandbits(64)}.arrow"
    status, about = run({"out": str(out), **words}, env)
    assert status == 0, about
    with pa.OSFile(str(out)) as file:
        table = pa.ipc.open_stream(file).read_all() if out.stat().st_size else None
    return Read(about, table)


def refused(env: dict[str, str] | None = None, **words: object) -> str:
    status, about = run({"out": "/dev/null", **words}, env)
    assert status == 1, about
    return f"{about['error']}: {about['message']}"


def documents(count: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    words = ["mill", "wheel", "Wasser", "日本", "🜁", "ünï", '"quoted"', "line\nbreak", "\\", "tab\t"]
    return [
        {
            "id": f"doc-{i:05}",
            "text": " ".join(rng.choice(words) for _ in range(rng.randint(0, 60))),
            "number": rng.randint(-(2**40), 2**40),
            "score": None if rng.random() < 0.1 else rng.random(),
            "good": rng.random() < 0.5,
            "tokens": [rng.randint(0, 50000) for _ in range(rng.randint(0, 40))],
        }
        for i in range(count)
    ]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def once_each(rows: list[dict[str, Any]], expected: int) -> None:
    places = collections.Counter((row["__file"], row["__row"]) for row in rows)
    assert len(places) == expected
    assert set(places.values()) == {1}


# --- Parquet -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
@pytest.mark.parametrize("strands", [1, 5])
def test_parquet_written_by_pyarrow(tmp_path: Path, compression: str, strands: int) -> None:
    rows = documents(3000)
    for part in range(3):
        table = pa.Table.from_pylist(rows[part * 1000 : (part + 1) * 1000])
        pq.write_table(table, tmp_path / f"part-{part}.parquet", compression=compression, row_group_size=[1000, 150, 77][part])
    got = read(tmp_path, format="parquet", files=[f"{tmp_path}/part-*.parquet"], strands=strands, seed=3)
    once_each(got.rows, 3000)
    assert got.in_file_order() == rows
    assert got.about["rows"] == 3000
    assert got.about["exact"]
    shares = collections.Counter(row["__strand"] for row in got.rows)
    assert len(shares) == strands
    assert max(shares.values()) < 2 * min(shares.values())
    assert [row["id"] for row in got.rows] != [row["id"] for row in rows], "it is shuffled"


def test_parquet_written_by_pandas_with_categories_and_lists(tmp_path: Path) -> None:
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame(
        {
            "text": pd.array([f"row {i}" if i % 7 else None for i in range(500)], dtype="string"),
            "kind": pd.Categorical([["a", "b", "c"][i % 3] for i in range(500)]),
            "small": np.arange(500, dtype=np.int16),
            "vector": [np.arange(i % 5, dtype=np.float32) for i in range(500)],
            "when": pd.date_range("2020-01-01", periods=500, freq="h"),
        }
    )
    frame.to_parquet(tmp_path / "frame.parquet", row_group_size=100)
    got = read(tmp_path, format="parquet", files=[str(tmp_path / "frame.parquet")], strands=2)
    expected = pq.read_table(tmp_path / "frame.parquet").to_pylist()
    assert got.in_file_order() == expected


def test_parquet_reads_only_the_columns_that_are_wanted_and_joins_types(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"], "c": [0.5, 1.5]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": pa.array(["z"], pa.large_string()), "a": pa.array([3], pa.int64())}), tmp_path / "2.parquet")
    words: dict[str, Any] = {"format": "parquet", "files": [f"{tmp_path}/?.parquet"]}
    got = read(tmp_path, **words, columns=["b", "a"])
    assert got.in_file_order() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3, "b": "z"}]
    assert read(tmp_path, **words).in_file_order()[2] == {"a": 3, "b": "z", "c": None}
    assert "no column" in refused(**words, columns=["d"])


def test_nested_columns_of_a_chat(tmp_path: Path) -> None:
    rows = [
        {"messages": [{"role": r, "content": f"{i} {r}"} for r in ["system", "user", "assistant"][: i % 4]], "meta": {"n": i}}
        for i in range(50)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "chat.parquet", row_group_size=7)
    assert read(tmp_path, format="parquet", files=[f"{tmp_path}/chat.parquet"], strands=3).in_file_order() == rows
    write_lines(tmp_path / "chat.jsonl", rows)
    lines = read(tmp_path, format="jsonl", files=[f"{tmp_path}/chat.jsonl"], strands=3).in_file_order()
    assert [row["messages"] for row in lines] == [row["messages"] for row in rows]
    assert [json.loads(row["meta"]) for row in lines] == [row["meta"] for row in rows]


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 but not really")
    assert "x.parquet" in refused(format="parquet", files=[f"{tmp_path}/*.parquet"])


# --- JSON lines --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strands", [1, 4])
@pytest.mark.parametrize("kind", ["plain", "gz", "zst", "crlf"])
def test_json_lines(tmp_path: Path, kind: str, strands: int) -> None:
    rows = documents(2000, seed=1)
    for part in range(2):
        path = tmp_path / f"part-{part}.jsonl"
        write_lines(path, rows[part * 1000 : (part + 1) * 1000])
        if kind == "gz":
            subprocess.run(["gzip", path], check=True)
        elif kind == "zst":
            subprocess.run(["zstd", "-q", "--rm", path], check=True)
        elif kind == "crlf":
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    got = read(tmp_path, format="jsonl", files=[f"{tmp_path}/part-*"], strands=strands)
    once_each(got.rows, 2000)
    assert got.in_file_order() == rows
    assert len({row["__strand"] for row in got.rows}) == strands


def test_compressed_files_of_several_frames(tmp_path: Path) -> None:
    rows = documents(300)
    texts = [json.dumps(row) + "\n" for row in rows]
    (tmp_path / "a.jsonl.gz").write_bytes(
        gzip.compress("".join(texts[:100]).encode()) + gzip.compress("".join(texts[100:]).encode())
    )
    assert read(tmp_path, format="jsonl", files=[f"{tmp_path}/a.jsonl.gz"]).in_file_order() == rows
    (tmp_path / "cut.jsonl.gz").write_bytes((tmp_path / "a.jsonl.gz").read_bytes()[:-500])
    assert "cut.jsonl.gz" in refused(format="jsonl", files=[f"{tmp_path}/cut.jsonl.gz"])


def test_long_lines_and_no_newline_at_the_end(tmp_path: Path) -> None:
    rows = [{"text": "x" * (10 << 20)}, {"text": "short"}, {"text": "é" * (5 << 20)}, {"text": ""}]
    (tmp_path / "long.jsonl").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    got = read(tmp_path, format="jsonl", files=[f"{tmp_path}/long.jsonl"], strands=2)
    assert got.in_file_order() == rows


def test_a_bad_line_is_named_or_left_out(tmp_path: Path) -> None:
    good = [{"text": f"row {i}", "n": i} for i in range(100)]
    lines = [json.dumps(row).encode() for row in good]
    lines[10] = b'{"text": "broken'
    lines[20] = b'{"text": "\xff\xfe invalid", "n": 20}'
    lines[30] = b'{"text": "the n is text", "n": "thirty"}'
    lines[40] = b"[1, 2]"
    lines[50] = b'{"text": "a float", "n": 1.5}'
    (tmp_path / "bad.jsonl").write_bytes(b"\n".join(lines))
    # The first rows decide the types, and line 50 is one of them: n is a double.
    words: dict[str, Any] = {"format": "jsonl", "files": [f"{tmp_path}/bad.jsonl"], "window": 1}
    message = refused(**words)
    assert "row 10 of" in message
    assert "bad.jsonl" in message
    assert "bad_samples" in message
    got = read(tmp_path, **words, skip_bad=True)
    assert got.about["skipped"] >= 3
    kept = {row["__row"] for row in got.rows}
    assert kept.isdisjoint({10, 20, 40})
    assert kept >= set(range(100)) - {10, 20, 30, 40, 50}


def test_a_later_row_of_another_type_is_bad(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"n": i, "x": i / 2} for i in range(3000)]
    rows[2500] = {"n": "text", "x": 1}
    write_lines(tmp_path / "a.jsonl", rows)
    message = refused(format="jsonl", files=[f"{tmp_path}/a.jsonl"])
    assert "row 2500" in message
    assert "n: it is a string" in message


# --- WebDataset ---------------------------------------------------------------------------------------------------------------


def webdataset_samples(count: int) -> list[dict[str, Any]]:
    rng = random.Random(5)
    samples = []
    for i in range(count):
        sample: dict[str, Any] = {"__key__": f"deep/folder/{i:06}", "txt": f"caption {i} é", "json": {"n": i}, "cls": i % 10}
        sample["seg.bin"] = rng.randbytes(rng.randint(0, 3000))
        if i % 3 == 0:
            sample["npy.bytes"] = rng.randbytes(600)
        samples.append(sample)
    return samples


@pytest.mark.parametrize("kind", ["tar", "tar.gz"])
@pytest.mark.parametrize("strands", [1, 3])
def test_webdataset_shards(tmp_path: Path, kind: str, strands: int) -> None:
    wds = pytest.importorskip("webdataset")
    samples = webdataset_samples(200)
    for shard in range(2):
        with wds.TarWriter(str(tmp_path / f"shard-{shard:06}.{kind}")) as out:
            for sample in samples[shard * 100 : (shard + 1) * 100]:
                out.write(sample)
    got = read(tmp_path, format="webdataset", files=[f"{tmp_path}/shard-{{000000..000001}}.{kind}"], strands=strands)
    once_each(got.rows, 200)
    theirs = []
    for shard in range(2):
        theirs += list(wds.WebDataset(str(tmp_path / f"shard-{shard:06}.{kind}"), shardshuffle=False, nodesplitter=lambda it: it))
    ours = got.in_file_order()
    assert len(theirs) == len(ours) == 200
    for one, other in zip(ours, theirs, strict=True):
        assert one["__key__"] == other["__key__"]
        assert one["txt"].encode() == other["txt"]
        assert json.loads(one["json"]) == json.loads(other["json"])
        assert str(one["cls"]).encode() == other["cls"]
        assert one["seg.bin"] == other["seg.bin"]
        assert one["npy.bytes"] == other.get("npy.bytes")
    only = read(tmp_path, format="webdataset", files=[f"{tmp_path}/*.{kind}"], columns=["txt"]).in_file_order()
    assert [row["txt"] for row in only] == [sample["txt"] for sample in samples]


@pytest.mark.parametrize("layout", ["gnu", "pax", "ustar"])
def test_archives_of_the_command_tar(tmp_path: Path, layout: str) -> None:
    folder = tmp_path / "files"
    long = "x" * (60 if layout == "ustar" else 140)
    expected = {}
    for i in range(30):
        (folder / f"d{i % 2}" / long).mkdir(parents=True, exist_ok=True)
        for extension in ["txt", "bin"]:
            path = folder / f"d{i % 2}" / long / f"{i:03}.{extension}"
            path.write_bytes(f"content {i} of {extension}".encode() * i)
        expected[f"files/d{i % 2}/{long}/{i:03}"] = f"content {i} of txt" * i
    subprocess.run(["tar", "-C", tmp_path, f"--format={layout}", "--sort=name", "-cf", tmp_path / "a.tar", "files"], check=True)
    got = read(tmp_path, format="webdataset", files=[str(tmp_path / "a.tar")], strands=2)
    assert {row["__key__"]: row["txt"] for row in got.rows} == expected
    (tmp_path / "cut.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:9000])
    assert "cut.tar" in refused(format="webdataset", files=[str(tmp_path / "cut.tar")])


# --- MDS ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [None, "zstd", "gz"])
def test_mds_shards(tmp_path: Path, compression: str | None) -> None:
    streaming = pytest.importorskip("streaming")
    import numpy as np

    rng = np.random.default_rng(3)
    columns = {
        "text": "str",
        "raw": "bytes",
        "n": "int",
        "small": "uint16",
        "x": "float32",
        "y": "float64",
        "meta": "json",
        "tokens": "ndarray:uint16",
        "fixed": "ndarray:int32:2,3",
        "free": "ndarray",
        "big": "str_int",
        "price": "str_float",
    }
    with streaming.MDSWriter(out=str(tmp_path / "mds"), columns=columns, compression=compression, size_limit=1 << 15) as out:
        for i in range(300):
            out.write(
                {
                    "text": f"text {i} é" * (i % 5),
                    "raw": rng.bytes(i % 17),
                    "n": i - 150,
                    "small": np.uint16(i),
                    "x": np.float32(i / 3),
                    "y": np.float64(i / 7),
                    "meta": {"i": i, "list": [1, "zwei", None]},
                    "tokens": rng.integers(0, 60000, 1 + i % 40, dtype=np.uint16),
                    "fixed": rng.integers(-5, 5, (2, 3), dtype=np.int32),
                    "free": rng.integers(-(2**40), 2**40, (1 + i % 3, 2), dtype=np.int64),
                    "big": i * 10**12,
                    "price": i / 9,
                }
            )
    # With decompressing, the library leaves the raw shard beside the compressed one; we read before.
    got = read(tmp_path, format="mds", files=[str(tmp_path / "mds")], strands=3)
    once_each(got.rows, 300)
    theirs = streaming.StreamingDataset(local=str(tmp_path / "mds"), shuffle=False, batch_size=1)
    ours = got.in_file_order()
    assert len(theirs) == len(ours) == 300
    for i in range(300):
        one, other = ours[i], theirs[i]
        for name in ["text", "raw", "n", "big", "price"]:
            assert one[name] == other[name], (i, name)
        assert one["small"] == int(other["small"])
        assert one["x"] == float(other["x"])
        assert one["y"] == float(other["y"])
        assert json.loads(one["meta"]) == other["meta"]
        for name in ["tokens", "fixed", "free"]:
            assert one[name] == other[name].flatten().tolist(), (i, name)
    same = read(tmp_path, format="mds", files=[f"{tmp_path}/mds/index.json"], columns=["tokens"])
    assert len(same.rows) == 300


# --- Arrow IPC ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_arrow_ipc(tmp_path: Path, kind: str, compression: str | None) -> None:
    rows = documents(1000, seed=2)
    table = pa.Table.from_pylist(rows)
    table = table.append_column("kind", pa.array(["a", "b"] * 500).dictionary_encode())
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with make(str(tmp_path / "a.arrow"), table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as out:
        out.write_table(table, max_chunksize=130)
    got = read(tmp_path, format="arrow", files=[str(tmp_path / "a.arrow")], strands=3)
    once_each(got.rows, 1000)
    assert got.in_file_order() == table.to_pylist()
    only = read(tmp_path, format="arrow", files=[str(tmp_path / "a.arrow")], columns=["id"], limit=500)
    assert [row["id"] for row in only.in_file_order()] == [row["id"] for row in rows[:500]]
    pairs = read(tmp_path, format="arrow", files=[str(tmp_path / "a.arrow")], columns=["id"], group_size=3)
    assert len(pairs.rows) == 999


# --- Tokens ------------------------------------------------------------------------------------------------------------------


def write_megatron(path: Path, documents: list[list[list[int]]], dtype: str, code: int) -> None:
    """As Megatron-LM's IndexedDatasetBuilder does it: documents of sequences of tokens."""
    import numpy as np

    sequences = [np.array(sequence, dtype=dtype) for document in documents for sequence in document]
    sizes = np.array([len(sequence) for sequence in sequences], dtype=np.int32)
    pointers = np.concatenate([[0], np.cumsum(sizes[:-1], dtype=np.int64) * np.dtype(dtype).itemsize]).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum([len(document) for document in documents])]).astype(np.int64)
    path.with_suffix(".bin").write_bytes(b"".join(sequence.tobytes() for sequence in sequences))
    head = (
        b"MMIDIDX\x00\x00" + np.array([1], "<u8").tobytes() + bytes([code]) + np.array([len(sizes), len(ends)], "<u8").tobytes()
    )
    path.with_suffix(".idx").write_bytes(head + sizes.tobytes() + pointers.tobytes() + ends.tobytes())


@pytest.mark.parametrize(("dtype", "code"), [("uint16", 8), ("int32", 4), ("int64", 5)])
def test_megatron(tmp_path: Path, dtype: str, code: int) -> None:
    rng = random.Random(1)
    made = [[[rng.randint(0, 60000) for _ in range(rng.randint(0, 50))] for _ in range(rng.randint(1, 3))] for _ in range(400)]
    write_megatron(tmp_path / "part0", made[:250], dtype, code)
    write_megatron(tmp_path / "part1", made[250:], dtype, code)
    got = read(tmp_path, format="megatron", files=[f"{tmp_path}/part*.bin"], strands=4)
    once_each(got.rows, 400)
    assert [row["tokens"] for row in got.in_file_order()] == [
        [token for sequence in document for token in sequence] for document in made
    ]
    assert got.table.schema.field("tokens").type == pa.list_(pa.int32())
    (tmp_path / "part1.idx").unlink()
    assert "part1.idx" in refused(format="megatron", files=[f"{tmp_path}/part*.bin"])


@pytest.mark.parametrize("strands", [1, 3])
def test_raw_tokens(tmp_path: Path, strands: int) -> None:
    import numpy as np

    rng = random.Random(2)
    made = [[rng.randint(1, 50000) for _ in range(rng.randint(0, 80))] + [0] for _ in range(500)]
    made[-1].pop()  # the last one has no end
    if not made[-1]:
        made[-1] = [5]
    flat = np.array([token for document in made for token in document], dtype=np.uint16)
    flat.tofile(tmp_path / "tokens.bin")
    words: dict[str, Any] = {"format": "tokens", "files": [str(tmp_path / "tokens.bin")], "dtype": "uint16", "strands": strands}
    got = read(tmp_path, **words, eos=0)
    once_each(got.rows, 500)
    assert [row["tokens"] for row in got.in_file_order()] == made
    cut = read(tmp_path, **words, document_length=100)
    assert [row["tokens"] for row in cut.in_file_order()] == [flat[i : i + 100].tolist() for i in range(0, len(flat), 100)]
    assert "eos" in refused(**words)
    (tmp_path / "odd.bin").write_bytes(b"123")
    assert "odd.bin" in refused(**{**words, "files": [str(tmp_path / "odd.bin")]}, eos=0)


# --- Order, hold-out, limits -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lake")
    rows = documents(4000, seed=7)
    write_lines(place / "a.jsonl", rows[:2500])
    write_lines(place / "b.jsonl", rows[2500:])
    pq.write_table(pa.Table.from_pylist(rows), place / "all.parquet", row_group_size=600)
    return place


FORMATS = [("jsonl", "*.jsonl"), ("parquet", "*.parquet")]


@pytest.mark.parametrize(("kind", "files"), FORMATS)
def test_the_order_depends_on_seed_and_epoch_and_on_nothing_else(tmp_path: Path, lake: Path, kind: str, files: str) -> None:
    words: dict[str, Any] = {"format": kind, "files": [str(lake / files)], "strands": 3, "window": 900}
    places = lambda got: [(row["__strand"], row["__file"], row["__row"]) for row in got.rows]  # noqa: E731
    first = places(read(tmp_path, **words))
    assert places(read(tmp_path, **words, budget=1, prefetch=True)) == first
    assert places(read(tmp_path, **words, prefetch=True)) == first
    assert places(read(tmp_path, **words, epoch=1)) != first
    assert places(read(tmp_path, **words, seed=1)) != first
    assert sorted(place[1:] for place in places(read(tmp_path, **words, epoch=1))) == sorted(place[1:] for place in first)
    saved = tmp_path / "inventory"
    read(tmp_path, **words, save_inventory=str(saved))
    assert places(read(tmp_path, **words, inventory=str(saved))) == first


@pytest.mark.parametrize(("kind", "files"), FORMATS)
def test_without_shuffling_rows_come_as_the_files_have_them(tmp_path: Path, lake: Path, kind: str, files: str) -> None:
    got = read(tmp_path, format=kind, files=[str(lake / files)], window=1)
    assert [(row["__file"], row["__row"]) for row in got.rows] == sorted((row["__file"], row["__row"]) for row in got.rows)
    assert len(got.rows) == 4000


@pytest.mark.parametrize(("kind", "files"), FORMATS)
def test_holdout_parts_a_source_in_two(tmp_path: Path, lake: Path, kind: str, files: str) -> None:
    words: dict[str, Any] = {"format": kind, "files": [str(lake / files)], "strands": 2, "holdout": 0.1}
    for by in ["", "id"]:
        kept = {row["id"] for row in read(tmp_path, **words, holdout_by=by).rows}
        held = {row["id"] for row in read(tmp_path, **words, holdout_by=by, split=True, columns=["id"]).rows}
        assert kept.isdisjoint(held)
        assert len(kept) + len(held) == 4000
        assert abs(len(held) - 400) < 4 * math.sqrt(400)
    other = "parquet" if kind == "jsonl" else "jsonl"
    elsewhere = read(tmp_path, **{**words, "format": other, "files": [str(lake / f"*.{other}")]}, holdout_by="id", split=True)
    assert {row["id"] for row in elsewhere.rows} == held, "by a column, the same documents wherever they are"


@pytest.mark.parametrize(("kind", "files"), FORMATS)
def test_a_limit_takes_the_first_rows(tmp_path: Path, lake: Path, kind: str, files: str) -> None:
    got = read(tmp_path, format=kind, files=[str(lake / files)], strands=3, limit=2600)
    assert sorted(row["id"] for row in got.rows) == [f"doc-{i:05}" for i in range(2600)]
    assert got.about["rows"] == 2600


@pytest.mark.parametrize(("kind", "files"), FORMATS)
@pytest.mark.parametrize("size", [2, 3])
def test_groups_stay_together(tmp_path: Path, lake: Path, kind: str, files: str, size: int) -> None:
    got = read(tmp_path, format=kind, files=[str(lake / files)], strands=3, group_size=size, window=900)
    ids = [int(row["id"][4:]) for row in got.rows]
    expected = 4000 // size * size if kind == "parquet" else 2500 // size * size + 1500 // size * size
    assert len(set(ids)) == len(ids) == expected
    assert len(ids) % size == 0
    for at in range(0, len(ids), size):
        rows = got.rows[at : at + size] if at < 300 else []
        assert ids[at : at + size] == list(range(ids[at], ids[at] + size)), rows
    assert ids != sorted(ids)


def test_a_file_that_changed_since_the_inventory_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_lines(path, documents(100))
    words: dict[str, Any] = {"format": "jsonl", "files": [str(path)]}
    saved = str(tmp_path / "inventory")
    read(tmp_path, **words, save_inventory=saved)
    text = path.read_text()
    path.write_text(text.replace("doc-00050", "doc-99950"))
    message = refused(**words, inventory=saved)
    assert message.startswith("Corrupt")
    assert str(path) in message
    path.write_text(text + "\n")
    assert "had" in refused(**words, inventory=saved)
    path.unlink()
    assert "gone" in refused(**words, inventory=saved)


def test_patterns(tmp_path: Path) -> None:
    for name in ["a/0.jsonl", "a/1.jsonl", "b/x/2.jsonl", "b/.hidden/3.jsonl"]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_lines(path, [{"name": name}])
    names = lambda *files, **words: [  # noqa: E731
        os.path.relpath(uri, tmp_path) for uri in run({"format": "jsonl", "files": list(files), **words})[1]["files"]
    ]
    assert names(f"{tmp_path}/**/*.jsonl") == ["a/0.jsonl", "a/1.jsonl", "b/x/2.jsonl"]
    assert names(f"{tmp_path}/a/{{0..1}}.jsonl", f"{tmp_path}/a/*") == ["a/0.jsonl", "a/1.jsonl"]
    assert names("a/1.jsonl", "../" + tmp_path.name + "/b", folder=str(tmp_path)) == ["a/1.jsonl", "b/x/2.jsonl"]
    message = refused(format="jsonl", files=[f"{tmp_path}/a/{{0..3}}.jsonl"])
    assert "2.jsonl" in message
    assert message.startswith("NotFound")
    assert "c/*.jsonl" in refused(format="jsonl", files=[f"{tmp_path}/c/*.jsonl"])


def test_a_source_on_s3(tmp_path: Path, reference: Bucket, lake: Path) -> None:
    def put(name: str, content: bytes) -> None:
        reference.client.put_object(Bucket=servers.BUCKET, Key=f"{reference.prefix}/{name}", Body=content)

    def uri(files: str) -> str:
        return reference.uri.replace("?endpoint", f"/{files}?endpoint")

    for path in sorted(lake.iterdir()):
        put(path.name, path.read_bytes())
    for kind, files in FORMATS:
        got = read(tmp_path, env=reference.env, format=kind, files=[uri(files)], strands=2)
        here = read(tmp_path, format=kind, files=[str(lake / files)], strands=2)
        assert got.in_file_order() == here.in_file_order()
    saved = str(tmp_path / "inventory")
    words: dict[str, Any] = {"env": reference.env, "format": "jsonl", "files": [uri("b.jsonl")]}
    read(tmp_path, **words, save_inventory=saved)
    put("b.jsonl", (lake / "b.jsonl").read_bytes().replace(b"doc-03000", b"doc-99999"))
    assert "b.jsonl has changed" in refused(**words, inventory=saved)
