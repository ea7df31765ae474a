"""One line and a folder is enough to train: producers run beside the loader, start again when they die, and end with it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from calls import binary
from lakes import eventually

hr = pytest.importorskip("headrace")
pytest.importorskip("headrace._core", reason="THE PACKAGE IS NOT BUILT: what needs it is left out")
from headrace import embedded  # noqa: E402

pytestmark = pytest.mark.slow

DOCUMENTS = 600


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_BIN", str(binary()))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """Documents whose first two tokens are their number, in JSON lines."""
    (tmp_path / "lake").mkdir()
    for part in range(3):
        lines = []
        for number in range(part, DOCUMENTS, 3):
            tokens = [number // 200, number % 200, *([7] * (number % 23))]
            lines.append(json.dumps({"tokens": tokens, "id": f"doc-{number}"}))
        (tmp_path / "lake" / f"part-{part}.jsonl").write_text("\n".join(lines) + "\n")
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "stream: out\nseed: 3\nlanes: 4\nstrands: 2\nstep: {sequences: 8}\nuntil: {epochs: 1}\ndrop_last: false\n"
        "chunk: {lane_bytes: 1KB}\nshuffle: {window: 50}\npack: {length: 32, overflow: truncate}\nkeep: [id]\n"
        'sources:\n  docs: {format: jsonl, files: "lake/*.jsonl"}\n'
    )
    return path


def ids(steps: list) -> list[str]:
    return [bytes(name).decode() for step in steps for name in step["id"] if len(name)]


def alive(pid: int) -> bool:
    """Whether it runs; who has ended and was not asked for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_one_line_and_a_folder_is_enough(recipe: Path) -> None:
    with hr.Loader(recipe=recipe, producers=2, timeout=60) as loader:
        pids = loader._producers.pids
        steps = list(loader)
        assert sorted(ids(steps)) == sorted(f"doc-{number}" for number in range(DOCUMENTS))
        assert [step.number for step in steps] == list(range(len(steps)))
        assert loader.uri.endswith("/out")
    assert not any(map(alive, pids))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace-producer")]

    # It is all there: another job reads it, on another share, and from the middle.
    with hr.Loader(recipe=recipe, dp=(1, 2)) as again:
        again.load_state_dict({"version": 1, "stream": loader.uuid, "next_step": 3, "skipped": []})
        assert next(iter(again)).number == 3


def test_a_producer_that_dies_is_started_again(recipe: Path) -> None:
    with hr.Loader(recipe=recipe, timeout=60, role="eval") as calm:
        expected = [step["tokens"].tolist() for step in calm]
    # So that there is somebody to kill: it waits for its reader.
    recipe.write_text(recipe.read_text() + "lead: {steps: 12}\n")
    with hr.Loader(str(recipe.parent / "second"), recipe=recipe, timeout=60) as loader:
        steps = iter(loader)
        seen = [next(steps)["tokens"].tolist()]
        [first] = loader._producers.pids
        os.kill(first, signal.SIGKILL)
        assert eventually(lambda: loader._producers.pids not in ([], [first]))
        seen += [step["tokens"].tolist() for step in steps]
    assert seen == expected


def test_one_that_was_told_to_end_is_started_again_too(recipe: Path) -> None:
    text = recipe.read_text().replace("until: {epochs: 1}", "until: forever\nlead: {steps: 16}")
    recipe.write_text(text.replace('"lake/*.jsonl"}', '"lake/*.jsonl", at_end: repeat}'))
    with hr.Loader(recipe=recipe, timeout=60) as loader:
        steps = iter(loader)
        next(steps)
        [first] = loader._producers.pids
        os.kill(first, signal.SIGTERM)
        assert eventually(lambda: loader._producers.pids not in ([], [first]))
        for _ in range(20):
            next(steps)


def test_producers_end_with_a_trainer_that_is_killed(recipe: Path, tmp_path: Path) -> None:
    text = recipe.read_text().replace("until: {epochs: 1}", "until: forever\nlead: {steps: 16}")
    recipe.write_text(text.replace('"lake/*.jsonl"}', '"lake/*.jsonl", at_end: repeat}'))
    program = (
        "import sys, headrace as hr\n"
        "loader = hr.Loader(recipe=sys.argv[1], producers=2, timeout=60)\n"
        "next(iter(loader))\n"
        "print(*loader._producers.pids, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(recipe)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as trainer:
        pids = [int(word) for word in trainer.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(alive, pids))
        trainer.kill()
    assert eventually(lambda: not any(map(alive, pids)))


def test_a_wrong_recipe_is_said_at_once(recipe: Path) -> None:
    recipe.write_text(recipe.read_text().replace("strands: 2", "strandz: 2"))
    with pytest.raises(hr.InvalidArgument, match="strandz"):
        hr.Loader(recipe=recipe)
    with pytest.raises(hr.InvalidArgument, match="Loader"):
        hr.Loader(str(recipe.parent / "out"), producers=2)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command that fails in its own words whenever it is to produce."""
    command = tmp_path / "headrace"
    command.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"if '--print-stream' in sys.argv: os.execv({str(binary())!r}, [{str(binary())!r}, *sys.argv[1:]])\n"
        f"open({str(tmp_path / 'starts')!r}, 'a').write('.')\n"
        "print(json.dumps({'error': {'code': 'Unavailable', 'message': 'the lake is on fire'}}))\nsys.exit(1)\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("HEADRACE_BIN", str(command))
    monkeypatch.setattr(embedded, "_FIRST_PAUSE_SECONDS", 0.02)
    return tmp_path / "starts"


def test_who_fails_again_and_again_is_given_up_with_its_words(recipe: Path, broken: Path) -> None:
    with pytest.raises(hr.Unavailable, match=r"the lake is on fire \(tried 5 times\)"):
        hr.Loader(recipe=recipe, timeout=60)
    assert broken.read_text() == "....."


def test_steps_that_are_there_come_before_the_failure(recipe: Path, broken: Path, tmp_path: Path) -> None:
    with hr.Writer(str(tmp_path / "out"), lanes=4, columns={"x": "int64"}, probe=False) as writer:
        for number in range(3):
            writer.append({"x": [number] * 4})
    seen = []
    began = time.monotonic()
    with hr.Loader(recipe=recipe, timeout=600) as loader, pytest.raises(hr.Unavailable, match="on fire"):
        seen.extend(step.number for step in loader)
    assert seen == [0, 1, 2]
    assert time.monotonic() - began < 300, "it does not wait for what nobody makes"


def test_other_ranks_wait_for_the_stream(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    opened: list = []
    waits = threading.Event()
    open_when_there = embedded.open_when_there

    def noticed(*words: object) -> object:
        waits.set()
        return open_when_there(*words)

    monkeypatch.setattr(embedded, "open_when_there", noticed)

    def second() -> None:
        with hr.Loader(recipe=recipe, dp=(1, 2), timeout=120) as loader:
            opened.append((loader._producers, [step.number for step in loader]))

    waiting = threading.Thread(target=second)
    waiting.start()
    assert waits.wait(120)
    assert not opened
    monkeypatch.setenv("LOCAL_RANK", "0")
    with hr.Loader(recipe=recipe, dp=(0, 2), timeout=120) as first:
        mine = [step.number for step in first]
        waiting.join(240)
    assert opened == [(None, mine)]


def test_producers_are_told_where_the_job_is(recipe: Path) -> None:
    """Flow control: the first rank writes its position beside the stream, and takes it away when it ends."""
    status = recipe.parent / "out" / "status"
    with hr.Loader(recipe=recipe, timeout=60) as loader:
        steps = iter(loader)
        for _ in range(3):
            next(steps)
        assert eventually(lambda: any(status.glob("loader-*")))
        [file] = status.glob("loader-*")
        assert eventually(lambda: json.loads(file.read_text())["next_step"] >= 3)
        said = json.loads(file.read_text())
        assert (said["role"], said["reader"], "loader-" + said["id"]) == ("loader", "train", file.name)
        assert said["counter"] >= 1
    assert not list(status.glob("loader-*"))


def test_another_recipe_than_the_streams_is_refused_before_the_first_step(recipe: Path, tmp_path: Path) -> None:
    hr.produce(recipe)
    text = recipe.read_text()
    # What does not change the steps may differ.
    recipe.write_text(text.replace("stream: out", "stream: elsewhere") + "lead: {steps: 100}\n")
    with hr.Loader(str(tmp_path / "out"), recipe=recipe, timeout=60) as loader:
        assert next(iter(loader)).number == 0

    changed = text.replace("step: {sequences: 8}", "step: {0: 8, 5: 16}").replace("seed: 3", "seed: 4")
    recipe.write_text(changed.replace('"lake/*.jsonl"', '"lake/part-0.jsonl"') + "transform:\n  - filter: length(tokens) > 3\n")
    with pytest.raises(hr.Conflict) as refused:
        hr.Loader(recipe=recipe, producers=2, timeout=60)
    said = str(refused.value)
    assert "tried" not in said, "nobody tries again what cannot help"
    lines = [line.strip() for line in said.splitlines()]
    assert "seed: 3 in the stream, 4 in the recipe" in lines
    assert "step: 8 in the stream, {0: 8, 5: 16} in the recipe" in lines
    assert 'transform: none in the stream, [{"filter":"length(tokens) > 3"}] in the recipe' in lines
    assert "source docs: jsonl lake/*.jsonl in the stream, jsonl lake/part-0.jsonl in the recipe" in lines
    assert not any(line.startswith(("lanes", "pack", "strands")) for line in lines), said

    recipe.write_text(text.replace('"lake/*.jsonl"', '"lake/part-0.jsonl"'))
    with pytest.raises(hr.Conflict, match=r"jsonl lake/\*\.jsonl in the stream, jsonl lake/part-0\.jsonl in the recipe"):
        hr.Loader(recipe=recipe, timeout=60)


def test_another_recipe_is_refused_on_a_stream_in_the_making(recipe: Path) -> None:
    hr.produce(recipe, steps=4)
    recipe.write_text(recipe.read_text().replace("seed: 3", "seed: 4"))
    with pytest.raises(hr.Conflict, match="seed: 3 in the stream, 4 in the recipe"):
        hr.Loader(recipe=recipe, timeout=60)


def test_another_recipe_is_refused_on_ranks_that_start_no_producers(recipe: Path) -> None:
    hr.produce(recipe, steps=4)
    other = recipe.with_name("other.yaml")
    other.write_text(recipe.read_text().replace("seed: 3", "seed: 4"))
    with pytest.raises(hr.Conflict, match="seed: 3 in the stream, 4 in the recipe"):
        hr.Loader(recipe=other, dp=(1, 2), timeout=60)
    # It needs nothing of the lake for that.
    shutil.rmtree(recipe.parent / "lake")
    with hr.Loader(recipe=recipe, dp=(1, 2), timeout=60) as loader:
        assert loader._producers is None
        assert next(iter(loader)).number == 0


def test_a_lake_of_less_than_one_step_leaves_no_stream_behind(recipe: Path) -> None:
    text = recipe.read_text().replace("drop_last: false", "drop_last: true")
    recipe.write_text(text.replace("step: {sequences: 8}", "step: {sequences: 4000}"))
    small = pytest.raises(hr.InvalidArgument, match=r"less than one step.*Nothing was written")
    with small, hr.Loader(recipe=recipe, timeout=60) as loader:
        next(iter(loader))
    assert not list((recipe.parent / "out").rglob("*"))
    recipe.write_text(text)
    with hr.Loader(recipe=recipe, timeout=60) as loader:
        assert next(iter(loader)).number == 0


def test_what_the_error_about_a_stream_without_steps_says_helps(recipe: Path) -> None:
    hr.produce(recipe, steps=0)
    recipe.write_text(recipe.read_text().replace("seed: 3", "seed: 4"))
    with pytest.raises(hr.Conflict, match="no step yet") as refused:
        hr.Loader(recipe=recipe, timeout=60)
    advice = re.search(r"`(rm -r [^`]*)`", str(refused.value))
    assert advice is not None
    assert advice[1] == f"rm -r {recipe.parent / 'out'}"
    subprocess.run(advice[1].split(), check=True)
    with hr.Loader(recipe=recipe, timeout=60) as loader:
        assert next(iter(loader)).number == 0


def test_files_that_changed_after_the_stream_was_made_are_told_of(
    recipe: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hr.produce(recipe)

    def warned() -> list[str]:
        return [record.getMessage() for record in caplog.records if "have changed since" in record.getMessage()]

    with hr.Loader(recipe=recipe, timeout=60) as loader:
        assert eventually(lambda: loader._producers._children[0].over)
    assert not warned()
    file = tmp_path / "lake" / "part-1.jsonl"
    before = file.stat()
    file.write_text(file.read_text().replace("7", "8"))  # of the same size
    os.utime(file, (before.st_atime, before.st_mtime + 10))  # there are file systems whose clocks are coarse
    with hr.Loader(recipe=recipe, producers=2, timeout=60) as loader:
        assert eventually(lambda: all(child.over for child in loader._producers._children))
        assert len(list(loader)) > 0
    [line] = warned()
    assert "1 files" in line
    assert "part-1.jsonl" in line


@pytest.mark.parametrize("harm", ["touched", "removed"])
def test_a_file_that_changed_before_the_stream_was_whole_ends_training_with_its_name(recipe: Path, harm: str) -> None:
    subprocess.run([str(binary()), "produce", str(recipe), "--steps", "2"], check=True, capture_output=True, timeout=120)
    victim = recipe.parent / "lake" / "part-1.jsonl"
    if harm == "touched":
        os.utime(victim, (1, 1))
    else:
        victim.unlink()
    with pytest.raises(hr.Error, match=r"part-1\.jsonl") as raised, hr.Loader(recipe=recipe, timeout=120) as loader:
        list(loader)
    assert not isinstance(raised.value, hr.Stalled)


def test_who_is_started_again_goes_on_at_once(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    patient = tmp_path / "headrace"
    patient.write_text(f'#!/bin/sh\nexec {binary()} "$@" --take-over-after 50s\n')
    patient.chmod(0o755)
    monkeypatch.setenv("HEADRACE_BIN", str(patient))
    text = recipe.read_text().replace("until: {epochs: 1}", "until: forever\nlead: {steps: 8}")
    recipe.write_text(text.replace('"lake/*.jsonl"}', '"lake/*.jsonl", at_end: repeat}'))
    with hr.Loader(recipe=recipe, timeout=200) as loader:
        steps = iter(loader)
        for _ in range(10):
            next(steps)
        for _ in range(4):  # a busy machine may be late, but not always
            assert eventually(lambda: len(loader._producers.pids) == 1)
            [first] = loader._producers.pids
            os.kill(first, signal.SIGKILL)
            began = time.monotonic()
            assert eventually(lambda first=first: not alive(first))
            made = loader.stats()["frontier_step"]
            while next(steps).number <= made:
                pass
            waited = time.monotonic() - began
            if waited < 40:
                break
        assert waited < 40, "it need not wait until others would take the strands over"
    killed = [record.getMessage() for record in caplog.records if "killed by" in record.getMessage()]
    assert killed
    assert not any("last said" in line for line in killed)


def test_a_recipe_of_python_leaves_no_file(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    program = (
        "import os, signal, sys, headrace as hr\n"
        "recipe = hr.Recipe(sys.argv[1] + '/python', folder=sys.argv[1], lanes=4, strands=2, step={'sequences': 8})\n"
        "recipe = recipe.source('docs', files='lake/*.jsonl').pack(length=32, overflow='truncate')\n"
        "hr.produce(recipe.set(drop_last=False), producers=2, steps=2)\n"
        "loader = hr.Loader(recipe=recipe, producers=2, timeout=60)\n"
        "assert next(iter(loader)).number == 0\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    trainer = subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=tmp_path, check=False)
    assert trainer.returncode == -signal.SIGKILL
    assert eventually(lambda: not list((tmp_path / "temporary").iterdir()))


@pytest.mark.slow
def test_torch_trains_straight_from_a_recipe(recipe: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="TORCH IS NOT INSTALLED: what needs it is left out")
    from headrace.torch import Checkpoints, Loader

    model = torch.nn.Embedding(256, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=50.0)
    losses: dict[int, float] = {}
    for stop_after in (4, 1000):
        with Loader(recipe=recipe, timeout=60) as loader:
            checkpoints = Checkpoints(loader, tmp_path / "checkpoints")
            checkpoints.load({"data": loader})
            for step in loader:
                loss = torch.nn.functional.cross_entropy(model(step["tokens"]).flatten(0, 1), step["labels"].flatten())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                assert step.number not in losses
                losses[step.number] = loss.item()
                if step.number == stop_after:
                    checkpoints.save({"data": loader})
                    break
            steps = loader.stats()["frontier_step"]
    assert list(losses) == list(range(int(steps)))
    assert losses[max(losses)] < losses[0]
