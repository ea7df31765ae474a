"""Machines whose calendars are wrong, and jump while they work: nothing is lost, repeated or deleted too early."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from calls import Bucket, Headrace
from test_cli_stream import append, create, numbers, values_of

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("CLOCKS THAT JUMP ARE NOT TESTED: there is no C compiler")
    library = tmp_path_factory.mktemp("clock") / "jumping_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "jumping_clock.c"], check=True)
    return library


def wrong(clock: Path, how: str) -> dict[str, str]:
    # A sanitizer wants to be loaded first, unless it is told that it need not be.
    sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return {"LD_PRELOAD": str(clock), "JUMPING_CLOCK": how, "ASAN_OPTIONS": sanitizer}


def test_the_clock_of_these_tests_does_jump(clock: Path) -> None:
    years: set[str] = set()
    until = time.monotonic() + 60
    while len(years) < 2:
        assert time.monotonic() < until, years
        environment = wrong(clock, "jump") | {"PATH": "/usr/bin:/bin"}
        years.add(subprocess.run(["date", "+%Y"], env=environment, capture_output=True, text=True, check=True).stdout)
        time.sleep(0.01)


def test_appending_reading_and_collecting_while_calendars_jump(headrace: Headrace, tmp_path: Path, clock: Path) -> None:
    stream, count = tmp_path / "s", 100
    create(headrace, stream, "--lanes", "1", "--strands", "4", "--order", "arrival")
    files = [numbers(tmp_path / f"{n}.jsonl", [n * 1000 + i for i in range(count)]) for n in range(3)]
    environment = headrace.environment | wrong(clock, "jump")

    def start(n: int) -> subprocess.Popen[bytes]:
        words = [headrace.binary, "append", stream, files[n], "--source", f"source-{n}", "--json"]
        return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    running = [start(n) for n in range(3)]
    kills = 0
    until = time.monotonic() + 300
    while any(process.poll() is None for process in running):
        assert time.monotonic() < until
        # Nothing is pinned, so nothing may go but what crashes left.
        done = headrace("gc", stream, "--grace", "0", "--json", env=wrong(clock, "jump"))
        assert done.status == 0, done.err
        assert done.json["trim"] == 0
        assert headrace("inspect", stream, "--json", env=wrong(clock, "-900000")).status == 0
        if kills < 2 and running[0].poll() is None:
            kills += 1
            running[0].kill()
            running[0].communicate()
            running[0] = start(0)
    for process in running:
        _, err = process.communicate()
        assert process.returncode == 0, err
    assert headrace("verify", stream, env=wrong(clock, "jump")).status == 0
    steps = headrace("inspect", stream, "--json").json["steps"]
    # All values differ, so each is there once.
    hashes = headrace("digest", stream, "--json").json["steps"]
    assert len(set(hashes)) == len(hashes) == steps == 3 * count
    # A pin from a machine in the past holds as well as any other.
    assert headrace("pin", stream, "ckpt", "--step", str(steps - 5), env=wrong(clock, "-31536000")).status == 0
    assert headrace("gc", stream, "--grace", "0", "--json", env=wrong(clock, "31536000")).json["trim"] == steps - 5
    assert [pin["name"] for pin in headrace("pins", stream, "--json").json["pins"]] == ["ckpt"]
    assert headrace("digest", stream, "--from", str(steps - 5), env=wrong(clock, "jump")).status == 0


def test_each_step_once_and_in_its_sources_order(headrace: Headrace, tmp_path: Path, clock: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream)
    few, many = numbers(tmp_path / "few.jsonl", list(range(3))), numbers(tmp_path / "many.jsonl", list(range(9)))
    append(headrace, stream, few, "--source", "a", env=wrong(clock, "8640000"))
    assert append(headrace, stream, many, "--source", "a", env=wrong(clock, "-8640000"))["appended"] == 6
    assert append(headrace, stream, many, "--source", "a", env=wrong(clock, "jump"))["appended"] == 0
    assert values_of(headrace, stream) == list(range(9))


@pytest.mark.parametrize("seconds", ["7300", "-864000"])
def test_a_server_that_refuses_a_wrong_calendar_is_told_of_and_nothing_is_lost(
    headrace: Headrace, reference: Bucket, tmp_path: Path, clock: Path, seconds: str
) -> None:
    create(headrace, reference.uri, env=reference.env)
    path = numbers(tmp_path / "a.jsonl", list(range(20)))
    words = ["append", reference.uri, path, "--source", "a", "--json"]
    refused = headrace(*words, env=reference.env | wrong(clock, seconds))
    assert refused.status == 1
    assert refused.json["error"]["code"] == "Denied"
    assert "The clock of this machine is wrong" in refused.json["error"]["message"]
    assert "The store's clock says" in refused.json["error"]["message"]
    # Some requests are let in, some are not: wherever that stops it, it goes on from there.
    for _ in range(3):
        done = headrace(*words, env=reference.env | wrong(clock, "jump"))
        assert done.status == 0 or done.json["error"]["code"] in ("Denied", "OutcomeUnknown"), done.out
    append(headrace, reference.uri, path, "--source", "a", env=reference.env)
    hashes = headrace("digest", reference.uri, "--json", env=reference.env).json["steps"]
    assert len(set(hashes)) == len(hashes) == 20
    assert headrace("verify", reference.uri, env=reference.env).status == 0
