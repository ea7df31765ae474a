"""Memory of many sources: `headrace produce` with 300 of them and 16 strands, beside a DataLoader whose 8 workers open them all.

    .venv/bin/python bench/bench_sources.py [--sources 300] [--strands 16] [--workers 8] [--memory 1GB] [--most 1500]

Every source is a folder of Parquet files of token lists. The DataLoader does what training scripts do: each worker has an
iterator over each source and draws from them by weight (torch, batches by pyarrow). Both are watched as a whole, all processes
together: peak of the proportional set size (/proc/PID/smaps_rollup), so that pages which processes share count once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LIMIT = 8e9
ROOT = Path(__file__).resolve().parent.parent


def make_sources(folder: Path, sources: int, rows: int) -> None:
    """Files as large in memory as it takes to matter: a row group of each source is some megabytes."""
    rng = np.random.default_rng(5)
    for i in range(sources):
        lengths = np.clip(rng.lognormal(6.5, 1, rows), 8, 65_536).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        tokens = pa.array(rng.integers(0, 32_000, offsets[-1], dtype=np.int32))
        (folder / f"s{i:03}").mkdir(parents=True)
        table = pa.table({"tokens": pa.ListArray.from_arrays(pa.array(offsets), tokens)})
        pq.write_table(table, folder / f"s{i:03}" / "part.parquet", row_group_size=max(1, rows // 2))


def recipe(sources: int, strands: int) -> dict:
    return {
        "seed": 3,
        "lanes": 8,
        "strands": strands,
        "step": {"sequences": 64},
        "until": {"epochs": 1},
        "sources": {
            f"s{i:03}": {"format": "parquet", "files": f"lake/s{i:03}/*.parquet", "weight": 1 / (i + 1)} for i in range(sources)
        },
        "pack": {"length": 8192},
        "cost": {"attention": {"hidden": 2048, "layers": 24}},
    }


def family(root: int) -> list[int]:
    """The process and all that it has started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def memory_of(root: int) -> int:
    total = 0
    for process in family(root):
        try:
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
        except OSError:
            continue
    return total


def peak_of(process: subprocess.Popen | multiprocessing.Process, limit: float) -> tuple[int, float]:
    """Peak memory of a process and all that it starts, and its seconds; it is ended above `limit`, before the machine is."""
    peak, begin = 0, time.perf_counter()
    alive = (lambda: process.poll() is None) if isinstance(process, subprocess.Popen) else process.is_alive
    while alive():
        peak = max(peak, memory_of(process.pid))
        if peak > limit:
            for one in reversed(family(process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
        time.sleep(0.02)
    return peak, time.perf_counter() - begin


def load_with_torch(lake: str, workers: int, documents: int) -> None:
    import torch.utils.data

    class Mixed(torch.utils.data.IterableDataset):
        def __iter__(self) -> Iterator[np.ndarray]:
            worker = torch.utils.data.get_worker_info()
            chance = random.Random(worker.id)
            folders = sorted(Path(lake).iterdir())

            def rows(folder: Path) -> Iterator[np.ndarray]:
                while True:
                    for batch in pq.ParquetFile(folder / "part.parquet").iter_batches(batch_size=64):
                        lists = batch["tokens"]
                        for i in range(worker.id, len(lists), worker.num_workers):
                            yield lists[i].values.to_numpy().copy()

            sources = [rows(folder) for folder in folders]
            weights = [1 / (i + 1) for i in range(len(sources))]
            for source in sources:  # all of them are open from the beginning
                yield next(source)
            for source in chance.choices(sources, weights, k=documents // worker.num_workers):
                yield next(source)

    loader = torch.utils.data.DataLoader(
        Mixed(), batch_size=None, num_workers=workers, prefetch_factor=64, multiprocessing_context="fork"
    )
    for _ in loader:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=int, default=300)
    parser.add_argument("--strands", type=int, default=16)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rows", type=int, default=300, help="of a source")
    parser.add_argument("--memory", default="1GB", help="what `headrace produce` is given")
    parser.add_argument("--most", type=float, help="fail above so many megabytes")
    options = parser.parse_args()
    headrace = Path(os.environ.get("HEADRACE_COMMAND", ROOT / "build/release/src/cli/headrace"))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        make_sources(folder / "lake", options.sources, options.rows)
        (folder / "recipe.yaml").write_text(json.dumps(recipe(options.sources, options.strands)))
        words = ["produce", folder / "recipe.yaml", "--stream", folder / "out", "--no-probe", "--json"]
        with (folder / "answer").open("w") as answer:
            process = subprocess.Popen(
                [headrace, *words, "--memory", options.memory], stdout=answer, env={**os.environ, "HEADRACE_PROGRESS": "0"}
            )
            ours, seconds = peak_of(process, LIMIT)
        if process.returncode != 0:
            sys.exit("headrace produce failed")
        made = json.loads((folder / "answer").read_text())
        print(f"{options.sources} sources of {options.rows} rows, {options.strands} strands: {made['steps']} steps")
        print(f"headrace produce --memory {options.memory}   peak {ours / 1e6:6.0f} MB   {seconds:.1f} s")
        theirs = multiprocessing.get_context("spawn").Process(
            target=load_with_torch, args=(str(folder / "lake"), options.workers, options.sources * options.rows // 20)
        )
        theirs.start()
        peak, seconds = peak_of(theirs, LIMIT)
        print(f"DataLoader, {options.workers} workers          peak {peak / 1e6:6.0f} MB   {seconds:.1f} s, a twentieth of it")
        if options.most and ours > options.most * 1e6:
            sys.exit(f"above {options.most:.0f} MB")


if __name__ == "__main__":
    main()
