"""From a lake to the ranks of a training job, with a producer killed on the way; a part of `make demo`.

Makes a small lake of three formats in FOLDER, has three producers turn it into a stream, kills one of them with SIGKILL, adds
another, reads the stream with 4 and then 8 readers, and shows that it is byte for byte what an undisturbed run makes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HEADRACE = os.environ.get("HEADRACE_BIN", str(Path(sys.executable).parent / "headrace"))
QUIET = {**os.environ, "HEADRACE_PROGRESS": "0", "HEADRACE_PYTHON": sys.executable}

RECIPE = """\
seed: 17
lanes: 8
strands: 8
step: {sequences: 32}
chunk: {lane_bytes: 64KB}
until: {epochs: 1}
shuffle: {window: 4000}
pack: {length: 512}
cost: {attention: {hidden: 1024, layers: 16}}
sources:
  web:   {format: parquet, files: "web/*.parquet", weight: 0.5}
  code:  {format: jsonl, files: "code/*.jsonl.gz", weight: 0.3}
  books: {format: arrow, files: "books/*.arrow", weight: 0.2}
"""


def documents(chance: random.Random, count: int) -> list[list[int]]:
    lengths = [min(4000, max(8, int(chance.lognormvariate(4.5, 1.0)))) for _ in range(count)]
    return [[chance.randrange(50_000) for _ in range(length)] for length in lengths]


def make_lake(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = random.Random(1)
    for name in ("web", "code", "books"):
        (folder / name).mkdir(parents=True)
    tokens = pa.list_(pa.int32())
    for i in range(4):
        pq.write_table(
            pa.table({"tokens": pa.array(documents(chance, 2000), tokens)}), folder / f"web/{i}.parquet", row_group_size=500
        )
    for i in range(3):
        with gzip.open(folder / f"code/{i}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps({"tokens": document}) + "\n" for document in documents(chance, 1500))
    table = pa.table({"tokens": pa.array(documents(chance, 3000), tokens)})
    with pa.ipc.new_file(folder / "books/all.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=500)
    (folder / "recipe.yaml").write_text(RECIPE)


def headrace(*words: str | Path) -> dict[str, Any]:
    done = subprocess.run([HEADRACE, *map(str, words), "--json"], env=QUIET, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"headrace {words[0]} failed: {done.stderr}")
    return json.loads(done.stdout)


def start(folder: Path, stream: Path) -> subprocess.Popen[bytes]:
    words = [HEADRACE, "produce", str(folder / "recipe.yaml"), "--stream", str(stream), "--take-over-after", "2s", "--no-probe"]
    return subprocess.Popen(words, env=QUIET, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read(job: tuple[str, int, int]) -> list[str]:
    """What one rank gets of every step: a hash for each lane."""
    import headrace as hr

    stream, rank, size = job
    hashes = []
    with hr.Loader(stream, dp=(rank, size), role="eval") as loader:
        for step in loader:
            hashes += [f"{step.number}:" + hashlib.sha256(lane["tokens"].tobytes()).hexdigest() for lane in step.lanes()]
    return hashes


def main() -> None:
    folder = Path(sys.argv[1])
    make_lake(folder)
    print("A lake of three sources: Parquet, gzipped JSON lines, Arrow. What would the recipe make of it?\n")
    subprocess.run(
        [HEADRACE, "plan", str(folder / "recipe.yaml"), "--steps", "40"], env=QUIET, check=True, stderr=subprocess.DEVNULL
    )

    headrace("produce", folder / "recipe.yaml", "--stream", folder / "undisturbed", "--no-probe")
    wanted = headrace("digest", folder / "undisturbed")["all"]

    stream = folder / "stream"
    print("\nThree producers on one stream …", flush=True)
    producers = [start(folder, stream) for _ in range(3)]
    while not (stream / "stream.json").exists() or headrace("inspect", stream)["steps"] < 3:
        time.sleep(0.02)
    producers[0].kill()
    producers.append(start(folder, stream))
    at = headrace("inspect", stream)["steps"]
    print(f"… one of them killed with SIGKILL at step {at}, another one started …", flush=True)
    for producer in producers[1:]:
        producer.wait()
    state = headrace("inspect", stream)
    print(f"… and the stream has {state['steps']} steps, {'sealed' if state['sealed'] else 'NOT sealed'}.")

    digest = headrace("digest", stream)["all"]
    verdict = "the same as" if digest == wanted else "NOT"
    print(f"digest {digest[:16]}…: {verdict} that of an undisturbed run")
    seen = {}
    with ProcessPoolExecutor(max_workers=4, mp_context=get_context("spawn")) as pool:
        for size in (4, 8):
            parts = pool.map(read, [(str(stream), rank, size) for rank in range(size)])
            seen[size] = sorted(line for part in parts for line in part)
    same = "the same samples in the same steps" if seen[4] == seen[8] else "NOT the same"
    print(f"read by 4 ranks, then by 8: {same}, {len(seen[4])} lanes each")
    if digest != wanted or seen[4] != seen[8] or not state["sealed"]:
        sys.exit("the demo did not show what it should")


if __name__ == "__main__":
    main()
