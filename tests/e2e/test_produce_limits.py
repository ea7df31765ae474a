"""What a producer promises about itself: memory within its budget, and a first step at once."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from calls import Headrace
from lakes import documents, write_parquet


def resident(process: int) -> int:
    """Bytes of its own memory (not of mapped files, which the system takes back when it needs them)."""
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def peak_of(headrace: Headrace, recipe: Path, stream: Path, memory: str) -> int:
    process = headrace.start("produce", recipe, "--stream", stream, "--no-probe", "--memory", memory)
    peak = 0
    while process.poll() is None:
        peak = max(peak, resident(process.pid))
        time.sleep(0.002)
    assert process.returncode == 0
    return peak


def test_memory_stays_within_the_budget_with_many_sources_and_strands(headrace: Headrace, tmp_path: Path) -> None:
    """40 sources × 16 strands: 640 cursors, each with a window of its own; a reader for each of them would be too much."""
    rng = np.random.default_rng(3)
    for i in range(40):
        lengths = rng.integers(200, 3000, 300)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        tokens = pa.array(rng.integers(0, 60_000, offsets[-1], dtype=np.int32))
        (tmp_path / f"s{i}").mkdir()
        table = pa.table({"tokens": pa.ListArray.from_arrays(pa.array(offsets), tokens)})
        pq.write_table(table, tmp_path / f"s{i}" / "part.parquet", row_group_size=100)
    sources = "".join(f'  s{i}: {{format: parquet, files: "s{i}/*.parquet"}}\n' for i in range(40))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "seed: 1\nlanes: 4\nstrands: 16\nstep: {sequences: 16}\nuntil: {epochs: 1}\nchunk: {lane_bytes: 256KB}\n"
        f"pack: {{length: 8192}}\nshuffle: {{window: 2000}}\nsources:\n{sources}"
    )
    assert peak_of(headrace, recipe, tmp_path / "out", "400MB") < 400e6
    assert headrace("verify", tmp_path / "out").status == 0


def test_the_first_step_of_a_cold_stream_is_there_within_a_second(headrace: Headrace, tmp_path: Path) -> None:
    write_parquet(tmp_path / "web", documents(0, 4000), files=4, row_group=200)
    (tmp_path / "recipe.yaml").write_text(
        "seed: 1\nlanes: 4\nstrands: 4\nstep: {sequences: 8}\nuntil: forever\npack: {length: 64}\n"
        'sources:\n  web: {format: parquet, files: "web/*.parquet"}\n'
    )
    waits = []
    for run in range(3):
        stream = tmp_path / f"out-{run}"
        begin = time.perf_counter()
        process = headrace.start("produce", tmp_path / "recipe.yaml", "--stream", stream, "--no-probe")
        try:
            # A step is visible when a manifest names it: the first one does not, the first commit of a chunk does.
            while not any((stream / "data").rglob("*-*")) or headrace("inspect", stream, "--json").json["steps"] == 0:
                assert process.poll() is None
                assert time.perf_counter() - begin < 30
                time.sleep(0.005)
            waits.append(time.perf_counter() - begin)
        finally:
            process.kill()
            process.wait()
    assert min(waits) < 1, waits
