"""Small lakes of several formats, whose every row is known."""

from __future__ import annotations

import gzip
import json
import random
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

QUICK = ("--take-over-after", "1s", "--no-probe")  # for `headrace produce`


def eventually(what: Callable[[], bool], seconds: float = 120) -> bool:
    """Whether it comes about; the time is for what never does, however busy the machine is."""
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def documents(source: int, count: int, longest: int = 60) -> list[list[int]]:
    """Documents of random length; the first two tokens say which document it is."""
    chance = random.Random(1000 + source)
    made = []
    for row in range(count):
        length = min(longest, max(3, int(chance.lognormvariate(2.5, 0.8))))
        made.append([source, row, *(chance.randrange(30_000) for _ in range(length - 2))])
    return made


def write_parquet(folder: Path, docs: list[list[int]], files: int = 3, row_group: int = 40) -> None:
    folder.mkdir(parents=True)
    for i in range(files):
        part = docs[i::files]
        table = pa.table({"tokens": pa.array(part, pa.list_(pa.int32())), "id": [f"{d[0]}-{d[1]}" for d in part]})
        pq.write_table(table, folder / f"part-{i:03}.parquet", row_group_size=row_group)


def write_jsonl(folder: Path, docs: list[list[int]], files: int = 2, packed: bool = False) -> None:
    folder.mkdir(parents=True)
    for i in range(files):
        lines = "".join(json.dumps({"tokens": d, "id": f"{d[0]}-{d[1]}"}) + "\n" for d in docs[i::files])
        if packed:
            with gzip.open(folder / f"part-{i}.jsonl.gz", "wt") as file:
                file.write(lines)
        else:
            (folder / f"part-{i}.jsonl").write_text(lines)


def write_arrow(folder: Path, docs: list[list[int]]) -> None:
    folder.mkdir(parents=True)
    table = pa.table({"tokens": pa.array(docs, pa.list_(pa.int32())), "id": [f"{d[0]}-{d[1]}" for d in docs]})
    with pa.ipc.new_file(folder / "all.arrow", table.schema) as writer:
        for batch in table.to_batches(max_chunksize=30):
            writer.write_batch(batch)


def make_lake(folder: Path, counts: tuple[int, ...] = (400, 300, 200)) -> dict[str, list[list[int]]]:
    """Three sources: Parquet, JSON lines, Arrow. By name, all documents of each."""
    lake = {name: documents(i, count) for i, (name, count) in enumerate(zip(("web", "code", "books"), counts, strict=True))}
    write_parquet(folder / "web", lake["web"])
    write_jsonl(folder / "code", lake["code"])
    write_arrow(folder / "books", lake["books"])
    return lake


SOURCES = """
sources:
  web:   {format: parquet, files: "web/*.parquet", weight: 0.5}
  code:  {format: jsonl, files: "code/*.jsonl", weight: 0.3}
  books: {format: arrow, files: "books/*.arrow", weight: 0.2}
"""


def write_recipe(folder: Path, more: str = "", sources: str = SOURCES, name: str = "recipe.yaml") -> Path:
    """A recipe of 4 lanes and 4 strands, one epoch, packed to 64 tokens; `more` adds or replaces keys."""
    base = {
        "seed": "17",
        "lanes": "4",
        "strands": "4",
        "step": "{sequences: 8}",
        "chunk": "{lane_bytes: 2KB}",
        "until": "{epochs: 1}",
        "drop_last": "false",
        "shuffle": "{window: 64}",
        "pack": "{length: 64}",
    }
    extra = textwrap.dedent(more)
    for line in extra.splitlines():
        key = line.split(":")[0]
        if line and not line[0].isspace() and key in base:
            del base[key]
    path = folder / name
    path.write_text("".join(f"{key}: {value}\n" for key, value in base.items()) + extra + "\n" + textwrap.dedent(sources))
    return path
