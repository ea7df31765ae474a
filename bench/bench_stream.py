#!/usr/bin/env python3
"""Appending to a stream and reading it: through a folder against bare calls, through S3 against what `headrace bench` measures.

    python bench/bench_stream.py [--rounds 5] [--bytes 512MB] [--folder /dev/shm] [--json]

Three questions:
  folder       append and read, against writev and read of the same sizes with CRC32C, in the page cache (target: 0.7)
  S3           append and read through versitygw on loopback, against the best level of `headrace bench` (target: 0.85)
  lanes        bytes fetched for bytes wanted, for every divisor of the lanes, with chunks of 8 MB (target: 1.02)

Whatever else runs on the machine disturbs. So the sides take turns, and a figure is the median over the rounds of the ratio
inside a round. Exit status 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from common import answer, servers, versitygw

Json = dict  # of whatever a program answers

FOLDER_TARGET, S3_TARGET, LANES_TARGET = 0.7, 0.85, 1.02


def through_s3(options: argparse.Namespace, endpoint: str) -> Json:
    """Chunks of the size that `headrace bench` writes, as many at once as were best there."""
    rounds = []
    for number in range(options.rounds):
        uri = f"s3://{servers.BUCKET}/bench-stream-{os.getpid()}-{number}?endpoint={endpoint}"
        phases = answer("src/cli/headrace", "bench", uri, "--seconds", options.seconds, "--json")["phases"]
        best = {
            name: max(phases[name]["levels"], key=lambda level: level["bytes_per_second"])
            for name in ("large_writes", "object_reads")
        }
        lanes, steps = 8, 4
        shape = ["--lanes", lanes, "--steps", steps, "--cell", phases["large_writes"]["request_bytes"] // (lanes * steps)]
        append = answer(
            "bench/stream_bench",
            "append",
            uri,
            "--bytes",
            options.bytes,
            *shape,
            "--callers",
            best["large_writes"]["concurrency"],
        )
        read = answer("bench/stream_bench", "read", uri, "--callers", best["object_reads"]["concurrency"])
        rounds.append((append, best["large_writes"], read, best["object_reads"]))

    def rate(column: int) -> float:
        return statistics.median(one[column]["bytes_per_second"] for one in rounds)

    def ratio(column: int) -> float:
        return statistics.median(one[column]["bytes_per_second"] / one[column + 1]["bytes_per_second"] for one in rounds)

    return {
        "chunk_bytes": rounds[0][0]["chunk_bytes"],
        "append": {"bytes_per_second": rate(0), "headrace bench": rate(1), "ratio": ratio(0)},
        "read": {"bytes_per_second": rate(2), "headrace bench": rate(3), "ratio": ratio(2)},
    }


def by_lanes(folder: str) -> list[dict[str, float]]:
    """64 lanes in chunks of 8 MB: one step of 128 KB a lane, the worst for headers."""
    uri = f"file://{folder}/lanes?sync=false"
    answer(
        "bench/stream_bench", "append", uri, "--bytes", "32MiB", "--lanes", 64, "--steps", 4, "--cell", "32KiB", "--callers", 1
    )
    return answer("bench/stream_bench", "lanes", uri)


def report(result: Json) -> bool:
    good = True

    def line(what: str, figures: Json, other: str, target: float | None) -> None:
        nonlocal good
        missed = target is not None and figures["ratio"] < target
        good = good and not missed
        rates = f"{figures['bytes_per_second'] / 1e6:6.0f} MB/s, {other} {figures[other] / 1e6:6.0f} MB/s"
        goal = "" if target is None else f" (target {target})"
        print(f"  {what}: {rates}: {figures['ratio']:.2f} of it{goal}{'   MISSED' if missed else ''}")

    print(f"folder, chunks of {result['folder']['chunk_bytes'] / 1e6:.0f} MB")
    line("append", result["folder"]["append"], "bare", FOLDER_TARGET)
    line("read  ", result["folder"]["read"], "bare", FOLDER_TARGET)
    line("read  ", result["folder"]["mapped"], "mapped", None)
    if s3 := result.get("s3"):
        print(f"versitygw, chunks of {s3['chunk_bytes'] / 1e6:.0f} MB")
        line("append", s3["append"], "headrace bench", S3_TARGET)
        line("read  ", s3["read"], "headrace bench", S3_TARGET)
    worst = max(row["amplification"] for row in result["lanes"])
    good = good and worst <= LANES_TARGET
    print("bytes fetched for bytes wanted, 64 lanes in chunks of 8 MB")
    print("  " + ", ".join(f"{row['ranks']} ranks {row['amplification']:.4f}" for row in result["lanes"]))
    print(f"  at most {worst:.4f} (target {LANES_TARGET}){'' if worst <= LANES_TARGET else '   MISSED'}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bytes", default="512MB", help="appended in each round")
    parser.add_argument("--seconds", type=int, default=10, help="of each `headrace bench`")
    parser.add_argument("--folder", default="/dev/shm" if Path("/dev/shm").is_dir() else None, help="where files stay in memory")
    parser.add_argument("--no-s3", action="store_true", help="leave versitygw out")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON document")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="headrace-bench-") as folder:
        result = {
            "folder": answer("bench/stream_bench", "folder", folder, "--rounds", options.rounds, "--bytes", options.bytes),
            "lanes": by_lanes(folder),
        }
    if not options.no_s3:
        with versitygw() as endpoint:
            result["s3"] = through_s3(options, endpoint)
    if options.json:
        print(json.dumps(result, indent=2))
        return 0
    return 0 if report(result) else 1


if __name__ == "__main__":
    sys.exit(main())
