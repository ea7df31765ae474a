"""What the benchmarks in Python share: the programs that were built, and a real server."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import servers  # noqa: E402


def stop(why: str) -> None:
    sys.exit(f"{Path(sys.argv[0]).stem}: {why}")


def built(name: str) -> Path:
    """What was built under that name (bench/stream_bench, src/cli/headrace): optimised where it is, else the newest."""
    found = sorted(ROOT.glob(f"build/*/{name}"), key=lambda path: ("release" in path.parts, path.stat().st_mtime))
    if not found:
        stop(f"{name} is not built: cmake --preset release -DHEADRACE_BENCH=ON, target {Path(name).name}")
    return found[-1]


def answer(name: str, *words: object) -> dict[str, Any]:
    """What a program says in JSON; nothing where it says nothing."""
    run = subprocess.run([str(built(name)), *map(str, words)], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        stop(f"{name} {' '.join(map(str, words))}: {run.stderr.strip()}")
    return json.loads(run.stdout) if run.stdout else {}


@contextlib.contextmanager
def versitygw() -> Iterator[str]:
    """The endpoint of the versitygw that is there already, or of one of our own."""
    if endpoint := os.environ.get("HEADRACE_TEST_VERSITYGW"):
        yield endpoint
        return
    with servers.running(only=["versitygw"], require=["versitygw"]) as environment:
        os.environ.update(environment)
        yield environment["HEADRACE_TEST_VERSITYGW"]
