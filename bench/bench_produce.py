"""From Parquet files of token lists to a stream, against pyarrow's own scan of the same files on the same cores.

    .venv/bin/python bench/bench_produce.py [--megabytes 800] [--rounds 5] [--aim 0.6]

The lake and the stream lie in memory (/dev/shm). The baseline is `pyarrow.dataset`'s scan of the column, which reads, unpacks
and decodes with all cores and throws the result away. `headrace produce` does the same reading and decoding, and then shuffles,
packs, balances, checksums and writes every token, with lineage. Rounds alternate; a ratio is the median over rounds of one scan
to one production: of wall-clock time of the work itself, of the same with the program's start and the inventory, and of processor
time, which others on the machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent


def make_lake(folder: Path, megabytes: int, files: int, compression: str, row_group: int, dtype: str) -> int:
    """Documents of lognormal length; tokens as frequent as tokens are, 32,000 different ones."""
    rng = np.random.default_rng(11)
    total = 0
    for i in range(files):
        lengths = np.clip(rng.lognormal(6.5, 1, megabytes * 250_000 // files // 1096), 8, 65_536).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        tokens = np.minimum(rng.pareto(0.6, offsets[-1]) * 20, 31_999).astype(dtype)
        lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(tokens))
        ids = pa.array([f"{i}-{row}" for row in range(len(lengths))])
        pq.write_table(
            pa.table({"id": ids, "tokens": lists}),
            folder / f"part-{i:03}.parquet",
            row_group_size=row_group,
            compression=compression,
        )
        total += int(offsets[-1])
    return total


def recipe(length: int) -> dict:
    return {
        "seed": 3,
        "lanes": 8,
        "strands": 4,
        "step": {"sequences": 64},
        "until": {"epochs": 1},
        "sources": {"web": {"format": "parquet", "files": "lake/*.parquet"}},
        "transform": [{"select": ["tokens"]}],
        "pack": {"length": length},
        "cost": {"attention": {"hidden": 2048, "layers": 24}},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=800, help="of tokens, four bytes each")
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compression", default="snappy", help="snappy (what pyarrow writes), zstd, none")
    parser.add_argument("--row-group", type=int, default=4096, help="rows of a row group")
    parser.add_argument("--dtype", default="int32", help="of the tokens in the lake")
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--aim", type=float, help="fail below this ratio")
    parser.add_argument("--keep", type=Path, help="make the lake here, or use the one that is here")
    options = parser.parse_args()
    headrace = Path(os.environ.get("HEADRACE_COMMAND", ROOT / "build/release/src/cli/headrace"))
    threads = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = options.keep or Path(name)
        lake = folder / "lake"
        if not lake.exists():
            lake.mkdir(parents=True)
            make_lake(lake, options.megabytes, options.files, options.compression, options.row_group, options.dtype)
        (folder / "recipe.yaml").write_text(json.dumps(recipe(options.length)))
        stored = sum(file.stat().st_size for file in lake.iterdir())

        def cpu(who: int) -> float:
            used = resource.getrusage(who)
            return used.ru_utime + used.ru_stime

        def scan() -> tuple[float, float, int]:
            begin, before = time.perf_counter(), cpu(resource.RUSAGE_SELF)
            size = 0
            for batch in ds.dataset(lake, format="parquet").scanner(columns=["tokens"], use_threads=True).to_batches():
                size += len(batch["tokens"].values)
            return time.perf_counter() - begin, cpu(resource.RUSAGE_SELF) - before, size

        def produce() -> tuple[float, float, float, dict]:
            stream = Path(name) / "stream"
            shutil.rmtree(stream, ignore_errors=True)
            words = ["produce", str(folder / "recipe.yaml"), "--stream", str(stream), "--no-probe", "--json"]
            begin, before = time.perf_counter(), cpu(resource.RUSAGE_CHILDREN)
            done = subprocess.run([headrace, *words, "--memory", options.memory], capture_output=True, text=True)
            whole = time.perf_counter() - begin
            if done.returncode != 0:
                sys.exit(done.stderr)
            answer = json.loads(done.stdout)
            return answer["seconds"], whole, cpu(resource.RUSAGE_CHILDREN) - before, answer

        scan()
        scans, made, ratios, with_start, of_cpu = [], [], [], [], []
        for _ in range(options.rounds):
            scanned, scan_cpu, tokens = scan()
            seconds, whole, made_cpu, answer = produce()
            scans.append(scanned)
            made.append(seconds)
            ratios.append(scanned / seconds)
            with_start.append(scanned / whole)
            of_cpu.append(scan_cpu / made_cpu)
        ratio = statistics.median(ratios)
        size = tokens * np.dtype(options.dtype).itemsize / 1e6
        print(
            f"{tokens:,} tokens, {size:.0f} MB decoded, {stored / 1e6:.0f} MB of files, {threads} cores; {answer['steps']} steps"
        )
        print(f"pyarrow scan      {size / statistics.median(scans):7.0f} MB/s   {statistics.median(scans):.3f} s")
        print(f"headrace produce  {size / statistics.median(made):7.0f} MB/s   {statistics.median(made):.3f} s")
        print(f"ratio {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        print(f"with the program's start {statistics.median(with_start):.2f}; of processor time {statistics.median(of_cpu):.2f}")
        if options.aim and ratio < options.aim:
            sys.exit(f"below {options.aim}")


if __name__ == "__main__":
    main()
