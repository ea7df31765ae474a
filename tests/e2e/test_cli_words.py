"""Right words, wrong words, and words whose time has not come yet."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from calls import ROOT, Headrace

LATER = {
    "blame": None, "node": None, "top": None, "dashboard": None, "copy": None,
}  # fmt: skip

STREAM_COMMANDS = ("create", "append", "inspect", "digest", "verify", "cat", "pin", "unpin", "pins", "gc", "feedback")


def test_version_is_the_projects(headrace: Headrace) -> None:
    declared = re.search(r"project\(headrace VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert declared
    done = headrace("--version")
    assert (done.status, done.out, done.err) == (0, f"headrace {declared[1]}\n", "")


def test_help_names_every_command_and_the_exit_statuses(headrace: Headrace) -> None:
    for words in (["--help"], ["-h"], ["help"]):
        done = headrace(*words)
        assert done.status == 0
        assert done.err == ""
        for word in ("probe", "bench", *STREAM_COMMANDS, "--json", "s3://bucket/prefix", "Exit status"):
            assert word in done.out
    for command in ("probe", "bench"):
        for words in ([command, "--help"], ["help", command]):
            done = headrace(*words)
            assert done.status == 0
            assert "URI" in done.out
            assert "--json" in headrace("--help").out
    for command in STREAM_COMMANDS:
        done = headrace(command, "--help")
        assert done.status == 0
        for word in (f"usage: headrace {command} STREAM", "--json", f"  headrace {command} "):
            assert word in done.out


def test_help_fits_a_terminal(headrace: Headrace) -> None:
    for words in (["--help"], *([command, "--help"] for command in ("probe", "bench", *STREAM_COMMANDS))):
        assert max(len(line) for line in headrace(*words).out.splitlines()) <= 132


def test_help_shows_only_options_that_have_a_name(headrace: Headrace) -> None:
    for command in ("produce", "plan", "mix", "lineage", *STREAM_COMMANDS):
        out = headrace(command, "--help").out
        assert "usage:" in out
        assert not re.search(r"^   +[A-Z]+ ", out, re.MULTILINE)


def test_no_words_at_all_show_the_help(headrace: Headrace) -> None:
    done = headrace()
    assert done.status == 2
    assert done.out == ""
    assert "usage: headrace" in done.err


@pytest.mark.parametrize(("command", "version"), LATER.items())
def test_commands_of_later_versions_say_when(headrace: Headrace, command: str, version: str | None) -> None:
    done = headrace(command, "s3://bucket/x", "--step", "7", "--whatever")
    assert done.status == 1
    assert done.err.startswith(f"headrace {command}: Unsupported: ")
    assert (f"version {version}" if version else "a later version") in done.err
    assert done.out == ""
    answer = headrace("--json", command).json
    assert answer["error"]["code"] == "Unsupported"


def test_a_slip_gets_a_suggestion(headrace: Headrace) -> None:
    done = headrace("prob", "/tmp")
    assert done.status == 2
    assert 'no command "prob"; did you mean probe?' in done.err
    assert "usage: headrace" in done.err
    done = headrace("bench", "/tmp", "--sizee", "3MB")
    assert done.status == 2
    assert done.err.startswith("headrace bench: there is no option --sizee; did you mean --size?")
    assert "`headrace bench --help`" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["probe"], "URI is missing"),
        (["bench"], "URI is missing"),
        (["probe", "a", "b"], '"b" is one word too many'),
        (["probe", "a", "--rounds", "none"], "--rounds"),
        (["probe", "a", "--rounds", "0"], "--rounds"),
        (["probe", "a", "--timeout", "soon"], "not a length of time"),
        (["bench", "a", "--size", "lots"], '"lots" is not a size'),
        (["bench", "a", "--size", "10"], "--size: 1MB is the least"),
        (["bench", "a", "--seconds", "0.5"], "--seconds"),
        (["bench", "a", "--gpu-rate", "0"], "--gpu-rate"),
        (["bench", "a", "--seconds"], "--seconds"),
        (["--frobnicate"], "no option --frobnicate"),
    ],
)
def test_wrong_words_are_told_before_anything_is_touched(headrace: Headrace, tmp_path: Path, words: list[str], says: str) -> None:
    done = headrace(*words, cwd=tmp_path)
    assert done.status == 2, done
    assert done.out == ""
    assert done.err.startswith("headrace")
    assert says in done.err
    assert "--help` says what it takes" in done.err
    assert list(tmp_path.iterdir()) == []
    answer = headrace(*words, "--json", cwd=tmp_path)
    assert answer.status == 2
    assert answer.json["error"]["code"] == "InvalidArgument"


def test_json_may_stand_anywhere(headrace: Headrace, tmp_path: Path) -> None:
    for words in (["--json", "probe", tmp_path / "a", "--rounds", "1"], ["probe", "--json", tmp_path / "a", "--rounds", "1"]):
        assert headrace(*words).json["safe"] is True


def test_starts_at_once_and_needs_no_python(headrace: Headrace) -> None:
    linked = subprocess.run(["ldd", headrace.binary], capture_output=True, text=True, check=True).stdout
    assert "python" not in linked
    assert "arrow" not in linked
    # Of its own, whatever else the machine has to do; the best of some.
    assert min(processor_seconds(headrace, "--version") for _ in range(5)) < 0.5


def processor_seconds(headrace: Headrace, *words: str) -> float:
    process = headrace.start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def test_an_answer_that_nobody_can_read_is_a_failure(headrace: Headrace, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        process = headrace.start("probe", "--rounds", "1", tmp_path / "a", stdout=full)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "could not be written to stdout" in err


def test_errors_with_json_are_one_document(headrace: Headrace) -> None:
    done = headrace("probe", "nope://x", "--json")
    assert done.status == 1
    assert set(json.loads(done.out)["error"]) == {"code", "message"}
    assert done.err.startswith("headrace probe: ")
