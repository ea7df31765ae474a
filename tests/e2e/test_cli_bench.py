"""`headrace bench`: numbers that add up, within the time and bytes that were given, and nothing left behind."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import liar_server
import pytest
from calls import Bucket, Done, Headrace, Json
from flaky_proxy import FlakyProxy

pytestmark = pytest.mark.slow

PHASES = {"commits", "small_writes", "small_reads", "lists", "large_writes", "object_reads", "range_reads"}
SECONDS = (4, 20, 100)  # the least that is enough for every phase to be measured, on the machine of the day


def bench(headrace: Headrace, *words: str | Path, env: dict[str, str] | None = None) -> tuple[Done, int]:
    """What it answered with enough time to measure everything, and how many seconds that was."""
    for seconds in SECONDS:
        done = headrace("bench", *words, "--seconds", str(seconds), "--size", "32MB", "--json", env=env)
        assert done.status == 0, done.err
        if all(phase["levels"] for phase in done.json["phases"].values()):
            break
    return done, seconds


def check_numbers(answer: Json) -> None:
    assert set(answer["phases"]) == PHASES
    for name, phase in answer["phases"].items():
        levels = phase["levels"]
        assert levels, f"{name} was not measured: {phase}"
        assert [level["concurrency"] for level in levels] == [2**i for i in range(len(levels))]
        for level in levels:
            assert level["requests"] >= 1
            assert level["requests_per_second"] == pytest.approx(level["requests"] / level["seconds"])
            latency = level["latency_ms"]
            assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
            if name not in {"lists"}:
                assert level["bytes"] == level["requests"] * phase["request_bytes"]
    assert set(answer["latency_ms"]) == {"get", "put", "create", "list"}
    best = max(level["bytes_per_second"] for level in answer["phases"]["range_reads"]["levels"])
    assert answer["range_read_bytes_per_second"] == best
    assert answer["gpus"] == int(best // answer["gpu_bytes_per_second"])
    assert answer["commits_per_second"] == answer["phases"]["commits"]["levels"][0]["requests_per_second"]
    assert answer["damaged_reads"] == 0
    assert answer["left_behind"] == []


def test_a_folder_is_measured_and_left_as_it_was(headrace: Headrace, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "store"
    done, seconds = bench(headrace, folder, "--gpu-rate", "100MB/s")
    assert done.err == ""
    answer = done.json
    check_numbers(answer)
    assert answer["store"] == str(folder)
    assert answer["gpu_bytes_per_second"] == 100_000_000
    assert answer["written_bytes"] <= 32_000_000
    assert answer["seconds"] <= seconds + 30  # reading goes on for ever where nobody looks at the time
    assert any("page cache" in remark for remark in answer["remarks"])
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_is_measured_and_left_as_it_was(headrace: Headrace, bucket: Bucket) -> None:
    done, _ = bench(headrace, bucket.uri, env=bucket.env)
    answer = done.json
    check_numbers(answer)
    assert any("this machine" in remark for remark in answer["remarks"])
    assert bucket.keys() == []
    assert bucket.uploads() == []


def test_people_get_a_table_and_a_sentence(headrace: Headrace, tmp_path: Path) -> None:
    for seconds in ("2", *map(str, SECONDS)):
        done = headrace("bench", tmp_path / "a", "--seconds", seconds, "--size", "8MB")
        assert done.status == 0, done.err
        if "not measured" not in done.out:
            break
    lines = done.out.splitlines()
    for row in (
        "commit (create 16KiB)",
        "put 16KiB",
        "get 16KiB",
        "list a page",
        "write objects of",
        "read objects of",
        "read ranges of",
    ):
        assert sum(line.startswith(row) for line in lines) == 1
    assert lines[-1].startswith("this store feeds ")
    assert lines[-1].endswith(" commits a second")
    assert "\033" not in done.out


def test_a_terminal_without_utf8_gets_ascii(headrace: Headrace, tmp_path: Path) -> None:
    done = headrace("bench", tmp_path / "a", "--seconds", "2", "--size", "8MB", env={"LANG": "C"})
    assert done.status == 0
    assert done.out.isascii()


def test_wrong_bytes_are_found(headrace: Headrace) -> None:
    with liar_server.running("flipped-bytes") as server:
        words = ["bench", f"s3://headrace-test/x?endpoint={server.endpoint}&unsigned=true", "--seconds", "3", "--size", "4MB"]
        done = headrace(*words)
        assert done.status == 1
        assert done.out.splitlines()[-1].startswith("do not train from this store: ")
        assert "brought other bytes than were written" in done.err
        answer = headrace(*words, "--json")
        assert answer.status == 1
        assert answer.json["damaged_reads"] > 0


def test_what_could_not_be_removed_is_named(headrace: Headrace) -> None:
    with liar_server.running("undead") as server:
        words = ["bench", f"s3://headrace-test/x?endpoint={server.endpoint}&unsigned=true", "--seconds", "2", "--size", "2MB"]
        done = headrace(*words, "--json")
        assert done.status == 1
        left = done.json["left_behind"]
        assert left
        assert all(name.startswith("s3://headrace-test/x/headrace-bench-") for name in left)
        assert f"could not remove {left[0]} and {len(left) - 1} more" in done.err


def objects_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def wait_until(condition: object, process: subprocess.Popen[str], seconds: float = 240) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("objects", [1, 100, 500])
def test_interrupted_it_removes_what_it_wrote(headrace: Headrace, tmp_path: Path, number: signal.Signals, objects: int) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    process = headrace.start("bench", folder, "--seconds", "1000", "--json")  # a slow disk gets as far, too
    wait_until(lambda: len(objects_below(folder)) >= objects, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert err.startswith("headrace bench: interrupted")
    assert '"Cancelled"' in out
    assert list(folder.iterdir()) == []


def test_interrupted_it_empties_the_bucket(headrace: Headrace, reference: Bucket) -> None:
    process = headrace.start("bench", reference.uri, "--seconds", "1000", env=reference.env)
    wait_until(lambda: len(reference.keys()) > 20, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert reference.keys() == []
    assert reference.uploads() == []


def test_the_second_signal_ends_it_on_the_spot(headrace: Headrace, reference: Bucket) -> None:
    with FlakyProxy(reference.endpoint) as proxy:
        uri = reference.uri.replace(reference.endpoint, proxy.endpoint)
        process = headrace.start("bench", uri, "--seconds", "1000", env=reference.env)
        wait_until(lambda: len(reference.keys()) > 10, process)
        # From here on no request is answered: after the first signal it tries to clean up, in vain.
        proxy.mode = "hang"
        wait_until(lambda: proxy.struck > 0, process)
        before = proxy.struck
        process.send_signal(signal.SIGINT)
        wait_until(lambda: proxy.struck > before, process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
        assert process.returncode == 128 + signal.SIGTERM, "by the second signal itself: who cleans up first ends with 130"


def test_a_reader_that_goes_away_does_not_keep_it_from_cleaning_up(headrace: Headrace, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    process = headrace.start("bench", folder, "--seconds", "2", "--size", "8MB")
    assert process.stdout is not None
    process.stdout.close()
    process.wait(timeout=120)
    assert process.returncode == 1
    assert objects_below(tmp_path) == []


def progress_of(headrace: Headrace, folder: Path, env: dict[str, str]) -> str:
    """What the command writes to a stderr that is a terminal."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [headrace.binary, "bench", folder, "--seconds", "4", "--size", "8MB"],
        env={**headrace.environment, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=slave,
    ) as process:
        os.close(slave)
        seen = b""
        try:
            while piece := os.read(master, 4096):
                seen += piece
        except OSError:  # the other side of a terminal has gone
            pass
        os.close(master)
        assert process.wait() == 0
    return seen.decode()


def test_a_terminal_gets_a_live_line_that_is_gone_at_the_end(headrace: Headrace, tmp_path: Path) -> None:
    shown = progress_of(headrace, tmp_path / "a", {"HEADRACE_PROGRESS": "1", "TERM": "xterm"})
    frames = shown.split("\r\033[K")
    assert len(frames) > 3  # it is drawn ten times a second, by a machine that has nothing better to do
    assert any("at once: " in frame for frame in frames)
    assert all(len(frame) < 80 for frame in frames)
    assert "\n" not in shown
    assert frames[-1] == ""
    assert progress_of(headrace, tmp_path / "a", {"HEADRACE_PROGRESS": "0", "TERM": "xterm"}) == ""


@pytest.mark.slow
def test_elsewhere_progress_is_a_line_now_and_then(headrace: Headrace, tmp_path: Path) -> None:
    begin = time.monotonic()
    done = headrace("bench", tmp_path / "a", "--seconds", "15", "--size", "256MB", env={"HEADRACE_PROGRESS": "1"})
    most = (time.monotonic() - begin) / 5 + 1  # one every five seconds
    assert done.status == 0
    lines = done.err.splitlines()
    assert 1 <= len(lines) <= most, done.err
    assert all("% done" in line for line in lines)
    assert "\033" not in done.err
