"""`headrace demo` shows what it says, and cleans up after itself."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from calls import Headrace


def test_nothing_is_lost_when_a_producer_is_killed(headrace: Headrace, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = headrace("demo", folder, "--json", timeout=300)
    assert done.status == 0, done.err
    shown = done.json
    assert (shown["steps"], shown["samples"], shown["lost"], shown["repeated"], shown["damaged"]) == (1200, 9600, 0, 0, 0)
    assert shown["digest"] == shown["undisturbed_digest"]
    assert shown["same_with_other_ranks"]
    # The victim is given half of its 400 steps before it is killed, however fast it is: the others cannot go on without it.
    assert 400 <= shown["killed_at_step"] < 1200
    assert 0 < shown["skipped_after_restart"] <= 200
    # What is kept can be looked at.
    assert headrace("verify", folder / "live").status == 0
    assert headrace("digest", folder / "live", "--json").json["all"] == shown["digest"]
    again = headrace("demo", folder, "--json")
    assert again.status == 1
    assert again.json["error"]["code"] == "Conflict"


def test_interrupted_it_leaves_nothing_behind(headrace: Headrace, tmp_path: Path) -> None:
    for _ in range(20):  # until the signal comes before its end
        process = headrace.start("demo", env={"TMPDIR": str(tmp_path)})
        end = time.monotonic() + 120
        while process.poll() is None and not list(tmp_path.glob("headrace-demo.*/live/data/1/*")):
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
        if process.returncode != 0:
            break
    assert process.returncode == 130, err
    assert list(tmp_path.iterdir()) == []
    in_use = [link for link in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in read(link)]
    assert not in_use


def read(path: Path) -> bytes:
    try:
        return path.read_bytes() if os.access(path, os.R_OK) else b""
    except OSError:
        return b""
