"""Every row of a lake exactly once: a million rows, five formats, sources that end early, documents longer than a sequence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from calls import Headrace
from lakes import write_recipe

LENGTH = 256
ROWS = {"web": 420_000, "books": 300_000, "raw": 200_000, "old": 60_000, "code": 20_000}
RAW_LENGTH = 5


def lengths_of(source: int, count: int) -> np.ndarray:
    """Short ones, and now and then one that fills several sequences."""
    chance = np.random.default_rng(source)
    lengths = chance.integers(1, 9, count)
    lengths[chance.integers(0, count, 40)] = chance.integers(LENGTH, 3 * LENGTH, 40)
    return lengths


def lists(lengths: np.ndarray) -> pa.ListArray:
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(np.arange(ends[-1], dtype=np.int32) % 30_000))


def make_lake(folder: Path) -> dict[str, np.ndarray]:
    """The length of every row, by source."""
    lake = {name: lengths_of(i, count) for i, (name, count) in enumerate(ROWS.items())}
    lake["raw"] = np.full(ROWS["raw"], RAW_LENGTH)
    for name in ROWS:
        (folder / name).mkdir()
    for i, part in enumerate(np.array_split(lake["web"], 6)):
        pq.write_table(pa.table({"tokens": lists(part)}), folder / "web" / f"{i}.parquet", row_group_size=8000)
    table = pa.table({"tokens": lists(lake["books"])})
    with pa.ipc.new_file(folder / "books" / "all.arrow", table.schema) as writer:
        for batch in table.to_batches(max_chunksize=5000):
            writer.write_batch(batch)
    (np.arange(ROWS["raw"] * RAW_LENGTH) % 30_000).astype("<u2").tofile(folder / "raw" / "all.bin")
    sizes = lake["old"].astype("<i4")
    pointers = (np.concatenate([[0], np.cumsum(sizes)[:-1]]) * 2).astype("<i8")
    ends = np.arange(len(sizes) + 1, dtype="<i8")
    (np.arange(sizes.sum()) % 30_000).astype("<u2").tofile(folder / "old" / "all.bin")
    head = b"MMIDIDX\x00\x00" + np.array([1], "<u8").tobytes() + bytes([8]) + np.array([len(sizes), len(ends)], "<u8").tobytes()
    (folder / "old" / "all.idx").write_bytes(head + sizes.tobytes() + pointers.tobytes() + ends.tobytes())
    for i, part in enumerate(np.array_split(lake["code"], 2)):
        lines = (json.dumps({"tokens": list(range(n))}) for n in part)
        (folder / "code" / f"{i}.jsonl").write_text("\n".join(lines) + "\n")
    return lake


SOURCES = f"""
sources:
  web:   {{format: parquet, files: "web/*.parquet", weight: 0.3}}
  books: {{format: arrow, files: "books/*.arrow", weight: 0.3}}
  raw:   {{format: tokens, files: "raw/*.bin", dtype: uint16, document_length: {RAW_LENGTH}, weight: 0.1}}
  old:   {{format: megatron, files: "old/*.bin", weight: 0.2}}
  code:  {{format: jsonl, files: "code/*.jsonl", weight: 0.1}}
"""


@pytest.mark.slow
def test_every_row_of_a_million_is_there_once(headrace: Headrace, tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    assert sum(map(len, lake.values())) == 1_000_000
    words = f"pack: {{length: {LENGTH}}}\nstep: {{sequences: 128}}\nchunk: {{lane_bytes: 200KB}}\nshuffle: {{window: 20000}}"
    recipe = write_recipe(tmp_path, words, SOURCES)
    done = headrace("produce", recipe, "--stream", tmp_path / "out", "--no-probe", "--json", timeout=300)
    assert done.status == 0, done.err
    assert done.json["sealed"]
    files = [file for file in (tmp_path / "out" / "lineage").rglob("*") if file.is_file()]
    columns = ["source", "file", "row", "start", "length"]
    lineage = pa.concat_tables(pq.read_table(file, columns=columns) for file in files)
    for name, lengths in lake.items():
        here = lineage.filter(pc.equal(lineage["source"], name))
        numbers = np.array(
            [int(Path(uri).stem) if Path(uri).stem.isdecimal() else 0 for uri in here["file"].unique().to_pylist()]
        )
        part = numbers[here["file"].combine_chunks().dictionary_encode().indices.to_numpy()]
        counts = [len(p) for p in np.array_split(lengths, {"web": 6, "code": 2}.get(name, 1))]
        rows = np.concatenate([[0], np.cumsum(counts)])[part] + here["row"].to_numpy()
        starts, pieces = here["start"].to_numpy().astype(np.int64), here["length"].to_numpy().astype(np.int64)
        order = np.lexsort((starts, rows))
        rows, starts, pieces = rows[order], starts[order], pieces[order]
        # Every row is there, its pieces begin at 0, each where the one before ends, and the last at its end.
        first = np.concatenate([[True], rows[1:] != rows[:-1]])
        assert np.array_equal(rows[first], np.arange(len(lengths))), name
        assert not starts[first].any(), name
        assert np.array_equal(starts[1:][~first[1:]], (starts + pieces)[:-1][~first[1:]]), name
        assert np.array_equal(np.add.reduceat(pieces, np.flatnonzero(first)), lengths), name
        assert pieces.max() <= LENGTH
    assert done.json["samples"] == ROWS
