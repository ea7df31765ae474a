#!/usr/bin/env python3
"""The S3 store against the fastest clients there are, in turns in one run, from a real server (versitygw) on loopback.

    python bench/bench_s3.py [--seconds 3] [--rounds 5] [--callers 16] [--stream 10GB] [--json]

Three questions:
  throughput   range reads of 1, 4 and 16 MiB, against `wrk` with as many kept connections as we have callers (target: 0.9 of it)
  CPU          seconds per GB of our process, against a loop of libcurl that copies the same bytes into memory (target: 1.3 times)
  memory       the most that a process has while it streams 10 GB through a budget of 64 MB (target: the budget and 32 MB)

Server and clients share the machine, and so does whatever else runs on it. So contestants take turns, round by round, and
a figure is the median over the rounds of the ratio inside a round. Exit status 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import boto3
from botocore.config import Config
from common import answer, servers, stop, versitygw

OBJECT_BYTES = 128 << 20
KEY = "bench/object"
SIZES = {"1 MiB": 1 << 20, "4 MiB": 4 << 20, "16 MiB": 16 << 20}
THROUGHPUT_TARGET, CPU_TARGET, MEMORY_TARGET = 0.9, 1.3, 32_000_000
BUDGET = 64_000_000


def load(*words: object) -> dict[str, float]:
    return answer("bench/s3_load", *words)


def wrk(url: str, size: int, callers: int, seconds: float) -> float:
    """Bytes a second. Every connection walks through the object as our callers do."""
    script = f"""
        local at = 0
        request = function()
          at = (at + 1) % {OBJECT_BYTES // size}
          wrk.headers["Range"] = string.format("bytes=%.0f-%.0f", at * {size}, at * {size} + {size} - 1)
          return wrk.format("GET")
        end
        done = function(summary)
          io.stderr:write(string.format("%.0f %.0f %d\\n", summary.bytes, summary.duration,
            summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status + summary.errors.timeout))
        end
    """
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        shape = ["-t", min(2, callers), "-c", callers, "-d", f"{max(1, round(seconds))}s", "--timeout", "30s"]
        run = subprocess.run(list(map(str, ["wrk", *shape, "-s", file.name, url])), capture_output=True, text=True)
    numbers = re.search(r"(\d+) (\d+) (\d+)\s*$", run.stderr)
    if run.returncode != 0 or numbers is None or numbers[3] != "0":
        stop(f"wrk did not read properly: {run.stdout}{run.stderr}")
    return int(numbers[1]) / (int(numbers[2]) * 1e-6)


def measure(options: argparse.Namespace, endpoint: str) -> dict[str, object]:
    uri = f"s3://{servers.BUCKET}?endpoint={endpoint}"
    load("fill", uri, KEY, OBJECT_BYTES)
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=servers.REGION,
        aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    url = client.generate_presigned_url("get_object", Params={"Bucket": servers.BUCKET, "Key": KEY}, ExpiresIn=86400)
    result: dict[str, object] = {"callers": options.callers, "reads": {}}
    for name, size in SIZES.items():
        rounds = []
        for _ in range(options.rounds):
            ours = load("store", uri, KEY, size, options.callers, options.seconds)
            theirs = wrk(url, size, options.callers, options.seconds)
            bare = load("curl", url, OBJECT_BYTES, size, options.callers, options.seconds)
            rounds.append({"ours": ours, "wrk": theirs, "curl": bare})
        rate = [one["ours"]["bytes"] / one["ours"]["seconds"] for one in rounds]
        bare_rate = [one["curl"]["bytes"] / one["curl"]["seconds"] for one in rounds]
        cpu = [one["ours"]["cpu_seconds"] / one["ours"]["bytes"] * 1e9 for one in rounds]
        bare_cpu = [one["curl"]["cpu_seconds"] / one["curl"]["bytes"] * 1e9 for one in rounds]
        result["reads"][name] = {
            "mb_per_second": statistics.median(rate) / 1e6,
            "wrk_mb_per_second": statistics.median(one["wrk"] for one in rounds) / 1e6,
            "curl_mb_per_second": statistics.median(bare_rate) / 1e6,
            "of_wrk": statistics.median(a / one["wrk"] for a, one in zip(rate, rounds, strict=True)),
            "cpu_seconds_per_gb": statistics.median(cpu),
            "curl_cpu_seconds_per_gb": statistics.median(bare_cpu),
            "cpu_of_curl": statistics.median(a / b for a, b in zip(cpu, bare_cpu, strict=True)),
        }
    stream = load("stream", uri, KEY, 1 << 20, options.callers, options.stream, BUDGET)
    result["stream"] = {
        "bytes": stream["bytes"],
        "mb_per_second": stream["bytes"] / stream["seconds"] / 1e6,
        "peak_bytes": stream["peak_bytes"],
        "above_budget_bytes": stream["peak_bytes"] - BUDGET,
    }
    return result


def report(result: dict[str, object]) -> bool:
    def mark(fine: bool) -> str:
        return "" if fine else "   MISSED"

    good = True
    print(f"range reads from versitygw, {result['callers']} at a time (medians of paired rounds)")
    for name, read in result["reads"].items():
        fast, lean = read["of_wrk"] >= THROUGHPUT_TARGET, read["cpu_of_curl"] <= CPU_TARGET
        good = good and fast and lean
        print(
            f"  {name:>6}: {read['mb_per_second']:6.0f} MB/s, wrk {read['wrk_mb_per_second']:6.0f} MB/s: "
            f"{read['of_wrk']:.2f} of it (target {THROUGHPUT_TARGET}){mark(fast)}"
        )
        print(
            f"          {read['cpu_seconds_per_gb']:6.3f} CPU s/GB, libcurl {read['curl_cpu_seconds_per_gb']:6.3f}: "
            f"{read['cpu_of_curl']:.2f} of it (target {CPU_TARGET}){mark(lean)}"
        )
    stream = result["stream"]
    small = stream["above_budget_bytes"] <= MEMORY_TARGET
    print(
        f"  {stream['bytes'] / 1e9:.0f} GB through a budget of {BUDGET / 1e6:.0f} MB at {stream['mb_per_second']:.0f} MB/s: "
        f"at most {stream['peak_bytes'] / 1e6:.0f} MB resident, {stream['above_budget_bytes'] / 1e6:.0f} MB above the budget "
        f"(target {MEMORY_TARGET / 1e6:.0f}){mark(small)}"
    )
    return good and small


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3, help="of each contestant in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--callers", type=int, default=16, help="requests under way at a time")
    parser.add_argument("--stream", default="10GB", help="how much to stream for the measure of memory")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON document")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        stop("wrk is not installed (apt install wrk), and is what we compare with")
    with versitygw() as endpoint:
        result = measure(options, endpoint)
    if options.json:
        print(json.dumps(result, indent=2))
        return 0
    return 0 if report(result) else 1


if __name__ == "__main__":
    sys.exit(main())
