"""What a trainer reports is kept with the stream, and nothing that goes wrong with it reaches the training loop."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packing import PackedStream, write_numbers

import headrace as hr
from headrace import _core


def objects(uri: str) -> list[Path]:
    return sorted(Path(uri, "feedback").glob("*.jsonl")) if Path(uri, "feedback").is_dir() else []


def lines(uri: str) -> list[dict[str, Any]]:
    """All reports that are stored, each with its session's header."""
    found = []
    for path in objects(uri):
        header, *reports, end = [json.loads(line) for line in path.read_text().splitlines()]
        assert set(end) == {"crc32c"}
        body = path.read_bytes()[: -len(json.dumps(end, separators=(",", ":"))) - 1]
        assert int(end["crc32c"], 16) == _core.crc32c(np.frombuffer(body, np.uint8))
        assert header["feedback"] == 1
        found += [{**report, "header": header} for report in reports]
    return found


def wait_until(true: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_numbers(tmp_path_factory.mktemp("six") / "s", 6)


@pytest.fixture
def stream(six: str, tmp_path: Path) -> str:
    return str(shutil.copytree(six, tmp_path / "s"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hr.Loader, "_report_every", 0.1)


def test_what_is_reported_is_stored_when_the_loader_is_closed(stream: str) -> None:
    before = time.time()
    with hr.Loader(stream, mesh={"dp": (1, 2), "tp": (0, 2)}) as loader:
        for step in loader:
            loader.report(step.number, loss={"web": (1.5 * step.number, 3)}, metrics={"grad_norm": 0.25})
        stats = loader.stats()
        assert (stats["reports"], stats["reported_step"], stats["reports_dropped"]) == (6, 5, 0)
        assert stats["reports_waiting"] + stats["reports_written"] == 6
    said = lines(stream)
    assert [report["step"] for report in said] == list(range(6))
    last = said[-1]
    assert last["loss"] == {"web": [7.5, 3.0]}
    assert last["metrics"] == {"grad_norm": 0.25}
    assert (last["lanes"], last["mesh"], last["mixture"]) == ([2, 4], {"dp": [1, 2], "tp": [0, 2]}, 0)
    assert before - 1 <= last["time"] <= time.time() + 1
    assert last["header"]["stream"] == loader.uuid
    assert last["header"]["reader"] == "train"
    (only,) = objects(stream)
    assert only.name.startswith(f"{0:020}-{5:020}-{last['header']['session']}-0.")


def test_nothing_is_there_if_nothing_is_reported(stream: str) -> None:
    with hr.Loader(stream) as loader:
        list(loader)
        with pytest.raises(hr.InvalidArgument, match=r"loss=.* or metrics="):
            loader.report(0)
        loader.report(0, loss={}, metrics={})
        assert loader.stats()["reports"] == 0
    assert objects(stream) == []


def test_it_is_written_while_training_goes_on(stream: str, quick: None) -> None:
    with hr.Loader(stream) as loader:
        next(iter(loader))
        loader.report(0, metrics={"a": 1})
        wait_until(lambda: len(lines(stream)) == 1)
        loader.report(0, metrics={"a": 2})
        wait_until(lambda: len(objects(stream)) == 2)
        wait_until(lambda: loader.stats()["reports_written"] == 2)


def test_numbers_that_are_no_numbers_are_kept(stream: str) -> None:
    with hr.Loader(stream) as loader:
        next(iter(loader))
        loader.report(0, loss={"a": (math.nan, 2), "b": (-math.inf, 2)}, metrics={"grad_norm": math.inf})
        shown = _core.prometheus()
        assert 'headrace_loss{source="a"} NaN' in shown
    (report,) = lines(stream)
    assert report["loss"] == {"a": ["NaN", 2.0], "b": ["-Infinity", 2.0]}
    assert report["metrics"] == {"grad_norm": "Infinity"}


def test_numbers_of_numpy_and_torch(stream: str) -> None:
    torch = pytest.importorskip("torch")
    with hr.Loader(stream) as loader:
        next(iter(loader))
        loader.report(
            np.int64(0),
            loss={"a": (np.float32(1.5), np.int32(2)), "b": torch.tensor([3.0, 4.0])},
            metrics={"c": torch.tensor(5.0, requires_grad=True), "d": True, "e": np.array([6.0])[0]},
        )
        loader.report(torch.tensor(0), metrics={"f": 1})
    first, second = lines(stream)
    assert first["loss"] == {"a": [1.5, 2.0], "b": [3.0, 4.0]}
    assert first["metrics"] == {"c": 5.0, "d": 1.0, "e": 6.0}
    assert second["step"] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"step": 2}, "step 2 was not handed out (the next one is 2)"),
        ({"step": -1}, "step -1 was not handed out"),
        ({"step": 1.0}, "a step is a whole number"),
        ({"step": "1"}, "a step is a whole number"),
        ({"loss": {"web": 1.5}}, "the loss of 'web' is a pair (sum, count), not 1.5"),
        ({"loss": {"web": (1, 2, 3)}}, "the loss of 'web' is a pair"),
        ({"loss": {"web": (1, -2)}}, 'the loss of "web" has the count -2'),
        ({"loss": {"web": (1, math.nan)}}, "a count is finite"),
        ({"loss": {"web": ("1", 2)}}, "the sum of the loss of 'web' is one number, not '1'"),
        ({"loss": {"web": (1, [2, 3])}}, "the count of the loss of 'web' is one number"),
        ({"loss": [("web", (1, 2))]}, "loss= is a dict by name"),
        ({"loss": {3: (1, 2)}}, "the name of a source is a text, not 3"),
        ({"loss": {"": (1, 2)}}, "the name of a source has 1 to 200 bytes"),
        ({"metrics": {"lr": None}}, "the metric 'lr' is one number, not None"),
        ({"metrics": {"lr": np.zeros(3)}}, "the metric 'lr' is one number"),
        ({"metrics": {None: 1}}, "the name of a metric is a text"),
        ({"metrics": {str(i): i for i in range(1001)}}, "1000 names at the most, not 1001"),
        ({"metrics": 3.0}, "metrics= is a dict by name"),
    ],
)
def test_wrong_words_are_an_error_at_once(stream: str, words: dict[str, Any], says: str) -> None:
    with hr.Loader(stream) as loader:
        steps = iter(loader)
        next(steps), next(steps)
        with pytest.raises(hr.InvalidArgument) as error:
            loader.report(**{"step": 1, **words})
        assert says in str(error.value)
        loader.report(1, metrics={"good": 1})
    assert len(lines(stream)) == 1


def test_steps_that_were_handed_out_before_a_seek_can_still_be_reported(stream: str) -> None:
    with hr.Loader(stream) as loader:
        for _ in zip(range(4), loader, strict=False):
            pass
        loader.seek(1)
        loader.report(3, metrics={"a": 1})
        with pytest.raises(hr.InvalidArgument, match="step 4"):
            loader.report(4, metrics={"a": 1})
        loader.step(5)
        loader.report(5, metrics={"a": 1})
    assert [report["step"] for report in lines(stream)] == [3, 5]


def test_an_outage_of_the_store_delays_and_does_not_hurt(stream: str, quick: None, capfd: pytest.CaptureFixture[str]) -> None:
    Path(stream, "feedback").write_text("in the way")  # nothing can be created below it
    with hr.Loader(stream) as loader:
        times = []
        for step in loader:
            began = time.perf_counter()
            loader.report(step.number, metrics={"a": step.number})
            times.append(time.perf_counter() - began)
        assert sorted(times)[1] < 0.5, "who reports does not wait for the store"
        wait_until(lambda: loader.stats()["report_failures"] > 0)
        assert loader.stats()["reports_waiting"] == 6
        Path(stream, "feedback").unlink()
    assert [report["step"] for report in lines(stream)] == list(range(6))
    said = capfd.readouterr().err
    assert said.count("reports could not be written; they are kept and tried again") == 1


@pytest.mark.slow
def test_closing_is_bounded_and_says_what_is_lost(stream: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path(stream, "feedback").write_text("in the way")
    loader = hr.Loader(stream)
    next(iter(loader))
    loader.report(0, metrics={"a": 1})
    began = time.monotonic()
    loader.close()
    assert 4 < time.monotonic() - began < 60
    assert "reports of the last steps are lost" in capfd.readouterr().err
    with pytest.raises(hr.Error, match="closed"):
        loader.report(0, metrics={"a": 1})


TRAINER = """
import sys, time
import headrace as hr
hr.Loader._report_every = 0.2
loader = hr.Loader(sys.argv[1])
for step in loader:
    loader.report(step.number, loss={"web": (1.0, 1)})
    if step.number == 2:
        while loader.stats()["reports_written"] < 3:
            time.sleep(0.01)
        print("three", flush=True)
    if step.number == 3 and sys.argv[2] == "wait":
        hr.Loader._report_every = 1000
        print("four", flush=True)
        time.sleep(600)
"""


def test_a_killed_process_loses_only_what_waits(stream: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", TRAINER, stream, "wait"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "three\n"
        assert process.stdout.readline() == "four\n"
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    assert [report["step"] for report in lines(stream)][:3] == [0, 1, 2]
    # It is started again, goes back, and ends without closing its loader.
    done = subprocess.run(
        [sys.executable, "-c", TRAINER, stream, "go on"], check=True, capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    sessions = {report["header"]["session"]: report["header"] for report in lines(stream)}
    assert len(sessions) == 2
    last = max(sessions.values(), key=lambda header: (header["manifest"], header["started"]))
    assert [r["step"] for r in lines(stream) if r["header"] == last or r["header"]["session"] == last["session"]] == list(
        range(6)
    )


def test_a_report_costs_microseconds(stream: str) -> None:
    with hr.Loader(stream) as loader:
        next(iter(loader))
        loss = {f"source-{i}": (2.5, 100) for i in range(8)}
        loader.report(0, loss=loss, metrics={"grad_norm": 1.0})
        times = []
        for _ in range(500):
            began = time.perf_counter()
            loader.report(0, loss=loss, metrics={"grad_norm": 1.0})
            times.append(time.perf_counter() - began)
        # Tens, where nothing else runs: the best quarter, of which a busy machine leaves some alone.
        assert sorted(times)[len(times) // 4] < 500e-6
    assert len(lines(stream)) == 501


def test_too_much_is_counted_and_never_waited_for(stream: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path(stream, "feedback").write_text("in the way")
    loader = hr.Loader(stream)
    next(iter(loader))
    names = {f"a metric with a long name, number {i}": float(i) for i in range(900)}
    for _ in range(100):
        loader.report(0, metrics=names)
    assert loader.stats()["reports_dropped"] > 0
    Path(stream, "feedback").unlink()
    loader.close()
    assert len(lines(stream)) == 100 - loader.stats()["reports_dropped"]
    assert capfd.readouterr().err.count("reports are dropped") == 1


def test_a_torch_loader_takes_tensors(packed: PackedStream, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from headrace.torch import Loader

    uri = str(shutil.copytree(packed.uri, tmp_path / "copy"))
    with Loader(uri) as loader:
        for step in loader:
            losses = torch.full_like(step["tokens"], 2.0, dtype=torch.float32)
            loader.report(step.number, loss={"0": (losses.sum(), losses.numel())})
    first = lines(uri)[0]
    total, count = first["loss"]["0"]
    assert total == 2 * count > 0


def test_after_a_fork_it_is_refused(stream: str) -> None:
    with hr.Loader(stream) as loader:
        next(iter(loader))
        loader.report(0, metrics={"a": 1})
        child = os.fork()
        if child == 0:
            try:
                loader.report(0, metrics={"a": 2})
            except hr.InvalidArgument:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [report["metrics"] for report in lines(stream)] == [{"a": 1.0}]
