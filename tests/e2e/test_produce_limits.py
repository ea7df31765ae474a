"""What a producer promises about itself: memory within its budget, and a first step at once."""

from __future__ import annotations

import re
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
    waits: list[float] = []
    plans: list[float] = []
    # On a machine that has nothing else to do. Elsewhere it takes no longer than a few times what it takes to plan it.
    while len(waits) < 3 or (len(waits) < 10 and min(waits) > max(1, 4 * min(plans))):
        run = len(waits)
        begin = time.perf_counter()
        assert headrace("plan", tmp_path / "recipe.yaml", "--steps", "1").status == 0
        plans.append(time.perf_counter() - begin)
        stream = tmp_path / f"out-{run}"
        begin = time.perf_counter()
        process = headrace.start("produce", tmp_path / "recipe.yaml", "--stream", stream, "--no-probe")
        try:
            # A step is visible when a manifest names it: the first one does not, the first commit of a chunk does.
            while not any((stream / "data").rglob("*-*")) or headrace("inspect", stream, "--json").json["steps"] == 0:
                assert process.poll() is None
                assert time.perf_counter() - begin < 120
                time.sleep(0.005)
            waits.append(time.perf_counter() - begin)
        finally:
            process.kill()
            process.wait()
    assert min(waits) < max(1, 4 * min(plans)), (waits, plans)


def many_sources(folder: Path, sources: int) -> Path:
    rng = np.random.default_rng(7)
    for i in range(sources):
        lengths = rng.integers(200, 2000, 300)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        tokens = pa.array(rng.integers(0, 60_000, offsets[-1], dtype=np.int32))
        (folder / f"s{i}").mkdir()
        table = pa.table({"tokens": pa.ListArray.from_arrays(pa.array(offsets), tokens)})
        pq.write_table(table, folder / f"s{i}" / "part.parquet", row_group_size=150)
    words = "".join(f'  s{i}: {{format: parquet, files: "s{i}/*.parquet"}}\n' for i in range(sources))
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        "seed: 1\nlanes: 8\nstrands: 16\nstep: {sequences: 32}\nuntil: {epochs: 1}\nchunk: {lane_bytes: 256KB}\n"
        f"pack: {{length: 8192}}\nsources:\n{words}"
    )
    return recipe


def test_too_little_memory_is_refused_and_what_it_asks_for_is_enough(headrace: Headrace, tmp_path: Path) -> None:
    recipe = many_sources(tmp_path, 30)
    refused = headrace("produce", recipe, "--stream", tmp_path / "out", "--no-probe", "--memory", "64MB")
    assert refused.status == 1
    assert "--memory 64MB is too little" in refused.err
    assert "30 sources × 16 strands" in refused.err
    assert not (tmp_path / "out" / "stream.json").exists(), "nothing is created by what is refused"
    least = re.search(r"Give it --memory (\d+)MB", refused.err)
    assert least, refused.err
    # Of its own memory: the libraries, which count too, are some 40 MB more.
    assert peak_of(headrace, recipe, tmp_path / "out", f"{least[1]}MB") < (int(least[1]) - 30) * 1e6
    assert headrace("verify", tmp_path / "out").status == 0


def test_without_a_wish_the_memory_is_what_the_recipe_needs(headrace: Headrace, tmp_path: Path) -> None:
    """A block of 3 GB is more than the default: nobody asked for less, so nothing is refused."""
    write_parquet(tmp_path / "web", documents(0, 400), files=1, row_group=200)
    (tmp_path / "recipe.yaml").write_text(
        "seed: 1\nlanes: 32\nstrands: 2\nstep: {sequences: 32}\nuntil: {epochs: 1}\nchunk: {lane_bytes: 64MB}\n"
        'pack: {length: 64}\nsources:\n  web: {format: parquet, files: "web/*.parquet"}\n'
    )
    made = headrace("produce", tmp_path / "recipe.yaml", "--stream", tmp_path / "out", "--no-probe", "--producers", "2")
    assert made.status == 0, made.err
    refused = headrace("produce", tmp_path / "recipe.yaml", "--stream", tmp_path / "out", "--no-probe", "--memory", "2GB")
    assert refused.status == 1
    assert "is too little" in refused.err
