#!/usr/bin/env python3
"""What the loader costs, each figure beside a baseline of the same run.

    .venv/bin/python bench/bench_loader.py [--json] [--megabytes N]

1. One rank from a folder in the page cache, against mmap and CRC32C of the same files on one thread: bytes a second and CPU time.
2. From the start of the process to the first batch, without the imports; importing the package.
3. What delivery adds to a step that is ready: the median of next(), and of next() with a column.
4. A store with S3's latency (60 ms, 100 MB/s per connection): how long the trainer waits after the first step.
"""

from __future__ import annotations

import argparse
import json
import mmap
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import headrace as hr
from headrace import _core


def write(folder: Path, steps: int, lanes: int, lane_bytes: int, block_steps: int) -> str:
    data = np.random.default_rng(1).integers(0, 50000, (lanes, lane_bytes // 4), np.int32)
    with hr.Writer(
        str(folder),
        lanes=lanes,
        columns={"x": "int32"},
        probe=False,
        strands=1,
        block_steps=block_steps,
        storage_options={"sync": "false"},
    ) as writer:
        for s in range(steps):
            data[:, 0] = s
            writer.append({"x": data})
        writer.seal()
    return str(folder)


def timed_files(folder: Path) -> tuple[float, float, int]:
    """mmap and CRC32C over every chunk: wall seconds, CPU seconds, bytes."""
    files = sorted((folder / "data").rglob("*-*"))
    wall, cpu, total = time.perf_counter(), time.process_time(), 0
    for file in files:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            bytes_ = np.frombuffer(mapped, np.uint8)
            _core.crc32c(bytes_)
            total += len(bytes_)
            del bytes_
    return time.perf_counter() - wall, time.process_time() - cpu, total


def timed_loader(uri: str, joined: bool) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    with hr.Loader(uri, role="eval") as loader:
        for step in loader:
            if joined:
                step["x"]
            else:
                for lane in step.lanes():
                    lane["x"]
    return time.perf_counter() - wall, time.process_time() - cpu


def folder(work: Path, megabytes: int) -> dict[str, float]:
    place = work / "folder"
    lanes, lane_bytes, block_steps = 8, 512 * 1024, 4
    steps = max(block_steps, megabytes * 1_000_000 // (lanes * lane_bytes) // block_steps * block_steps)
    uri = write(place, steps, lanes, lane_bytes, block_steps)
    timed_files(place)
    base, views, joined = [], [], []
    for _ in range(9):  # in turn, so that a busy moment strikes all of them
        base.append(timed_files(place))
        views.append(timed_loader(uri, joined=False))
        joined.append(timed_loader(uri, joined=True))
    total = base[0][2]
    best = min(b[0] for b in base)
    return {
        "folder_mmap_crc_gb_per_second": total / best / 1e9,
        "folder_views_gb_per_second": total / min(v[0] for v in views) / 1e9,
        "folder_joined_gb_per_second": total / min(j[0] for j in joined) / 1e9,
        "folder_views_ratio": best / min(v[0] for v in views),
        "folder_joined_ratio": best / min(j[0] for j in joined),
        "folder_views_cpu_ratio": min(v[1] for v in views) / min(b[1] for b in base),
        "folder_joined_cpu_ratio": min(j[1] for j in joined) / min(b[1] for b in base),
    }


START = """
import time
begin = time.perf_counter()
import headrace
light = time.perf_counter() - begin
import numpy, headrace.loader
begin = time.perf_counter()
loader = headrace.Loader(__import__("sys").argv[1])
loader.seek(int(__import__("sys").argv[2]))
next(iter(loader))["x"]
print(light, time.perf_counter() - begin)
"""


def start(work: Path) -> dict[str, float]:
    uri = write(work / "start", 400, 8, 64 * 1024, 2)
    figures = {}
    for name, step in (("start", 0), ("resume", 311)):
        times = []
        for _ in range(5):
            out = subprocess.run([sys.executable, "-c", START, uri, str(step)], check=True, capture_output=True, text=True)
            times.append([float(t) for t in out.stdout.split()])
        figures[f"{name}_to_first_batch_ms"] = statistics.median(t[1] for t in times) * 1e3
        figures["import_ms"] = statistics.median(t[0] for t in times) * 1e3
    return figures


def delivery(work: Path) -> dict[str, float]:
    uri = write(work / "delivery", 4000, 1, 4096, 100)
    bare, column = [], []
    with hr.Loader(uri, role="eval") as loader:
        steps = iter(loader)
        next(steps)
        while loader.stats()["ready_steps"] < 1000:
            time.sleep(0.01)
        for i in range(3900):
            if i % 500 == 0:
                time.sleep(0.1)
            begin = time.perf_counter()
            step = next(steps)
            middle = time.perf_counter()
            step["x"]
            bare.append(middle - begin)
            column.append(time.perf_counter() - begin)
    return {
        "delivery_next_us_median": statistics.median(bare) * 1e6,
        "delivery_next_and_column_us_median": statistics.median(column) * 1e6,
        "delivery_next_us_p99": statistics.quantiles(bare, n=100)[98] * 1e6,
    }


class FarLoader(hr.Loader):
    _slow = (0.06, 100e6)


def latency(work: Path) -> dict[str, float]:
    uri = write(work / "latency", 120, 4, 1_000_000, 1)
    waits = []
    with FarLoader(uri, dp=(1, 4), role="eval") as loader:
        steps = iter(loader)
        begin = time.perf_counter()
        next(steps)
        first = time.perf_counter() - begin
        while True:
            time.sleep(0.03)  # the training step: 1 MB every 30 ms, a third of one connection
            begin = time.perf_counter()
            if next(steps, None) is None:
                break
            waits.append(time.perf_counter() - begin)
        stats = loader.stats()
    return {
        "far_first_batch_ms": first * 1e3,
        "far_wait_after_first_ms_total": sum(waits) * 1e3,
        "far_wait_after_first_ms_max": max(waits) * 1e3,
        "far_steps_waited_for": sum(wait > 0.002 for wait in waits),
        "far_depth_blocks": stats["depth_blocks"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--megabytes", type=int, default=2000, help="size of the folder's stream (2000)")
    wanted = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    try:
        figures = {**folder(work, wanted.megabytes), **start(work), **delivery(work), **latency(work)}
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if wanted.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:40} {value:10.3f}")


if __name__ == "__main__":
    main()
