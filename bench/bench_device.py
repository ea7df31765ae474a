"""How fast steps arrive on a GPU, beside the same bytes copied there from pinned memory (the bus's own speed).

Run on a machine with a GPU: python bench/bench_device.py [--steps N] [--megabytes M]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import headrace as hr
from headrace.torch import Loader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--megabytes", type=int, default=32, help="of a step")
    parser.add_argument("--folder", type=Path, help="where the stream is written; a folder in memory is best")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("there is no GPU here")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        uri, size = str(Path(folder) / "s"), options.megabytes * 1_000_000
        lanes = np.random.default_rng(0).integers(0, 1 << 31, (8, size // 32), np.int32)
        with hr.Writer(uri, lanes=8, columns={"x": "int32"}, probe=False) as writer:
            for _ in range(options.steps):
                writer.append({"x": lanes})
            writer.seal()
        pinned = torch.from_numpy(lanes).pin_memory()

        def bus() -> float:
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(options.steps):
                pinned.to("cuda", non_blocking=True)
            torch.cuda.synchronize()
            return time.perf_counter() - began

        def steps(device: str | None) -> float:
            with Loader(uri, role="eval", device=device) as loader:
                for _ in loader:  # the page cache is warm, and so is the pool
                    pass
                torch.cuda.synchronize()
                began = time.perf_counter()
                for step in loader:
                    _ = step["x"]
                torch.cuda.synchronize()
                return time.perf_counter() - began

        bus()
        total = options.steps * lanes.nbytes / 1e9
        straight, host, there = (total / seconds for seconds in (bus(), steps(None), steps("cuda")))
        print(f"pinned copies {straight:6.1f} GB/s\ntensors on the host {host:6.1f} GB/s\ntensors on the GPU {there:6.1f} GB/s")
        print(f"GPU / pinned copies {there / straight:.2f}, GPU / host {there / host:.2f}")


if __name__ == "__main__":
    main()
