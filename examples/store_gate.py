#!/usr/bin/env python3
"""Stops a job before it starts if its store is not safe to commit to, or too slow for its GPUs.

python examples/store_gate.py s3://bucket/runs --gpus 8 --gpu-rate 250MB/s

Exit status 0: go ahead. 1: do not, and why.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from typing import Any


def ask(headrace: str, *words: str) -> dict[str, Any]:
    """One command's answer. With --json there is one in any case: a result, or an error that says what is wrong."""
    done = subprocess.run([headrace, *words, "--json"], stdout=subprocess.PIPE, text=True, check=False)
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description="Is this store good enough for a job?")
    parser.add_argument("uri")
    parser.add_argument("--gpus", type=int, default=8, help="GPUs of this machine")
    parser.add_argument("--gpu-rate", default="250MB/s", help="what each of them eats")
    parser.add_argument("--commits", type=float, default=2, help="commits a second that the producers need")
    parser.add_argument("--seconds", default="20", help="how long to measure")
    parser.add_argument("--headrace", default=shutil.which("headrace") or "headrace", help="the command")
    wanted = parser.parse_args()

    probe = ask(wanted.headrace, "probe", wanted.uri)
    if not probe.get("safe"):
        why = probe.get("reason") or probe["error"]["message"]
        print(f"no: {why}")
        return 1
    bench = ask(wanted.headrace, "bench", wanted.uri, "--gpu-rate", wanted.gpu_rate, "--seconds", wanted.seconds)
    if "error" in bench:
        print(f"no: {bench['error']['message']}")
        return 1
    print(bench["sentence"])
    # What there was no time to measure is not in the answer.
    enough = bench.get("gpus", 0) >= wanted.gpus and bench.get("commits_per_second", 0) >= wanted.commits
    print("yes" if enough else f"no: {wanted.gpus} GPUs and {wanted.commits:g} commits a second are needed")
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
