"""The examples do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from calls import ROOT, Headrace


def gate(headrace: Headrace, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "examples" / "store_gate.py", *words, "--headrace", str(headrace.binary)],
        env=headrace.environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_gate_opens_for_a_good_store_and_no_other(headrace: Headrace, tmp_path: Path) -> None:
    folder = str(tmp_path / "a")
    for seconds in ("2", "20", "100"):  # enough to measure everything, on a slow machine too
        opened = gate(headrace, folder, "--gpus", "1", "--gpu-rate", "1KB/s", "--commits", "0.001", "--seconds", seconds)
        if opened.returncode == 0:
            break
    assert (opened.returncode, opened.stdout.splitlines()[-1]) == (0, "yes"), opened
    slow = gate(headrace, folder, "--gpus", "1000000", "--seconds", "2")
    assert slow.returncode == 1
    assert slow.stdout.splitlines()[-1].startswith("no: 1000000 GPUs")
    wrong = gate(headrace, "nope://x")
    assert wrong.returncode == 1
    assert wrong.stdout.startswith("no: ")


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """The language and text of each fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def test_the_tutorial_runs_as_it_is_printed(headrace: Headrace, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("headrace._core", reason="THE EXTENSION IS NOT BUILT: `make build`")
    # `python` and `headrace` are what they are for a reader who has activated the environment.
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tools / "python").chmod(0o755)
    (tools / "headrace").symlink_to(headrace.binary)
    place = tmp_path / "place"
    place.mkdir()
    environment = headrace.environment | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HEADRACE_BIN": str(headrace.binary),
        "HEADRACE_PYTHON": sys.executable,
    }
    said = []
    for language, text in blocks_of(ROOT / "docs" / "guide" / "first-steps.md"):
        if language == "sh":
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", text],
                cwd=place,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, text + done.stdout + done.stderr
            said.append(done.stdout)
        else:
            name = re.match(r"# (\S+\.(?:py|yaml))\n", text)
            assert name, f"a block of {language} does not say which file it is"
            (place / name.group(1)).write_text(text)
    training = next(text for text in said if "loss" in text)
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", training)]
    assert losses[-1] < 0.75 * losses[0], training
    assert re.findall(r"^step (\d+):", training, re.MULTILINE)[:4] == ["0", "10", "20", "30"], "it went on where it stopped"
    assert "the next step is 20\n" in training
    again = subprocess.run(
        [tools / "python", "train.py"], cwd=place, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert again.returncode == 0, again.stderr
    assert again.stdout == training.splitlines(keepends=True)[-1], "nothing is left to train on, and that is no error"
    assert "river" in "".join(said), "cat shows the text"
    assert said[-1].startswith("0 (16, 64) {'web':")


def run(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compiled(example: str, scratch: Path) -> Path:
    """The folder with the program of an example, compiled against nothing but what is installed."""
    installed, build = scratch / "installed", scratch / "build"
    run("cmake", "--install", ROOT / "build" / "release", "--prefix", installed, "--component", "development")
    run("cmake", "-S", ROOT / "examples" / example, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={installed}")
    run("ninja", "-C", build)
    return build


@pytest.mark.slow
def test_the_store_example_builds_and_runs(tmp_path: Path) -> None:
    build = compiled("store", tmp_path)
    folder = tmp_path / "store"
    assert run(build / "store_example", folder).splitlines() == [
        "the first writer created it",
        "the second writer found it taken",
        "of its 20 bytes, from the 11th on: the first",
        f"file://{folder}/example/greeting has 20 bytes",
    ]
    assert not folder.exists()


@pytest.mark.slow
def test_the_stream_example_builds_and_runs(headrace: Headrace, tmp_path: Path) -> None:
    build = compiled("cpp", tmp_path)
    folder = str(tmp_path / "stream")

    def tokens(rank: int) -> int:
        return sum((step * 4 + lane) * 8 + i for step in range(20, 48) for lane in (2 * rank, 2 * rank + 1) for i in range(8))

    assert run(build / "stream_example", folder).splitlines() == [
        "gave back 3 chunks before step 20",
        "steps 20 to 47, sealed",
        f"rank 0 read steps 20 to 47; its tokens sum to {tokens(0)}",
        f"rank 1 read steps 20 to 47; its tokens sum to {tokens(1)}",
    ]
    assert headrace("verify", folder).status == 0
