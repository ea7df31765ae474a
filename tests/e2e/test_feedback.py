"""What trainers report, read back with the command: over ranks, restarts, other sizes, outages, and after the steps have gone."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from calls import CREDENTIALS, Bucket, Headrace
from flaky_proxy import FlakyProxy
from lakes import eventually, make_lake, write_recipe

hr = pytest.importorskip("headrace")
pytest.importorskip("headrace._core", reason="THE EXTENSION IS NOT BUILT: `make build`")

STEPS = 8


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream of a recipe with the sources web, code and books, 4 lanes."""
    folder = tmp_path_factory.mktemp("made")
    make_lake(folder)
    command = Headrace(folder)
    command.environment["HEADRACE_PYTHON"] = sys.executable
    recipe = write_recipe(folder)
    done = command("produce", recipe, "--stream", folder / "out", "--steps", str(STEPS), "--no-probe", "--json")
    assert done.status == 0, done.err
    return folder / "out"


@pytest.fixture
def stream(made: Path, tmp_path: Path) -> str:
    return str(shutil.copytree(made, tmp_path / "stream"))


def train(uri: str, dp: tuple[int, int], steps: range, loss: Callable[[int], tuple[float, int]], **how: object) -> None:
    """One rank, from its start to its end."""
    with hr.Loader(uri, dp=dp, **how) as loader:
        loader.seek(steps.start)
        for step in loader:
            loader.report(step.number, loss={"web": loss(step.number)}, metrics={"grad_norm": 1.0 + dp[0]})
            if step.number + 1 >= steps.stop:
                break


def shown(headrace: Headrace, stream: str, *words: str) -> dict[int, dict]:
    done = headrace("feedback", stream, "--json", *words)
    assert done.status == 0, done.err
    return {row["step"]: row for row in done.json["steps"]}


def test_ranks_are_added_up(headrace: Headrace, stream: str) -> None:
    assert "no trainer has reported anything" in headrace("feedback", stream).out
    for rank in range(2):
        train(stream, (rank, 2), range(4), lambda n, rank=rank: (10.0 * n + rank, 2 + rank))
    steps = shown(headrace, stream)
    assert sorted(steps) == [0, 1, 2, 3]
    assert steps[3]["loss"]["web"] == {"sum": 61.0, "count": 5.0, "mean": 61 / 5}
    assert steps[3]["all"] == steps[3]["loss"]["web"]
    assert steps[3]["metrics"] == {"grad_norm": 1.5}
    assert (steps[3]["mixture"], steps[3]["reader"], steps[3]["lanes"]) == (0, "train", 4)
    text = headrace("feedback", stream).out.splitlines()
    assert text[0].split() == ["step", "mixture", "loss", "web", "grad_norm"]
    assert text[-1].split() == ["3", "0", "12.2000", "12.2000", "1.5"]
    assert sorted(shown(headrace, stream, "--steps", "1:3")) == [1, 2]
    assert sorted(shown(headrace, stream, "--steps", "2:")) == [2, 3]
    assert shown(headrace, stream, "--steps", "100:200") == {}


def test_a_run_that_goes_back_replaces_what_it_said_with_any_number_of_ranks(headrace: Headrace, stream: str) -> None:
    for rank in range(4):
        train(stream, (rank, 4), range(6), lambda n: (1.0, 1))
    train(stream, (0, 2), range(4, STEPS), lambda n: (100.0, 2))
    steps = shown(headrace, stream)
    assert steps[3]["loss"]["web"]["sum"] == 4
    assert steps[5]["loss"]["web"] == {"sum": 102.0, "count": 4.0, "mean": 25.5}, "the other half is still that of the old run"
    assert (steps[7]["loss"]["web"]["count"], steps[7]["lanes"]) == (2, 2), "and here nobody has said anything of it"
    train(stream, (1, 2), range(4, STEPS), lambda n: (200.0, 2))
    steps = shown(headrace, stream)
    assert [steps[n]["loss"]["web"]["sum"] for n in range(STEPS)] == [4, 4, 4, 4, 300, 300, 300, 300]


def test_a_source_that_is_not_there_is_named_together_with_those_that_are(stream: str) -> None:
    with hr.Loader(stream) as loader:
        step = next(iter(loader))
        with pytest.raises(
            hr.InvalidArgument, match=r"no source \"wbe\" \(did you mean web\?\); its sources are: books, code, web"
        ):
            loader.report(step.number, loss={"wbe": (1.0, 1)})
        loader.report(step.number, loss={name: (1.0, 1) for name in step.sources})


def test_evaluation_is_shown_apart(headrace: Headrace, stream: str) -> None:
    train(stream, (0, 1), range(2), lambda n: (2.0, 1))
    train(stream, (0, 1), range(1), lambda n: (5.0, 1), role="eval")
    rows = headrace("feedback", stream, "--json").json["steps"]
    assert [(row["step"], row["reader"], row["loss"]["web"]["sum"]) for row in rows] == [
        (0, "eval", 5.0),
        (0, "train", 2.0),
        (1, "train", 2.0),
    ]
    assert headrace("feedback", stream).out.splitlines()[0].split()[:3] == ["step", "reader", "mixture"]


def test_reports_outlive_their_steps_and_disturb_nobody(headrace: Headrace, stream: str) -> None:
    train(stream, (0, 1), range(STEPS), lambda n: (1.0 * n, 1))
    before = headrace("digest", stream, "--json").json
    assert headrace("verify", stream).status == 0
    assert headrace("pin", stream, "late", "--step", str(STEPS)).status == 0
    collected = headrace("gc", stream, "--grace", "0", "--json").json
    assert collected["trim"] > 0
    assert collected["orphans"] == 0
    assert sorted(shown(headrace, stream)) == list(range(STEPS))
    assert headrace("verify", stream).status == 0
    after = headrace("digest", stream, "--json").json["steps"]
    assert after == before["steps"][len(before["steps"]) - len(after) :]


@pytest.mark.slow
def test_reports_of_trimmed_steps_are_folded_and_say_the_same(headrace: Headrace, tmp_path: Path) -> None:
    stream = str(tmp_path / "long")
    with hr.Writer(stream, lanes=2, columns={"x": "int64"}, probe=False) as writer:
        for number in range(1100):
            writer.append({"x": [number] * 2})
    for rank in range(2):
        for begin in (0, 400, 800):  # three restarts, each with objects of its own
            with hr.Loader(stream, dp=(rank, 2)) as loader:
                loader.seek(begin)
                for step in loader:
                    loader.report(step.number, loss={"all": (1.0 + rank, 1)}, metrics={"norm": float(step.number)})
                    if step.number + 1 == begin + 300:
                        break
    before = shown(headrace, stream, "--steps", "0:2000")
    assert len(before) == 900
    objects = len(list((tmp_path / "long" / "feedback").iterdir()))
    assert objects >= 6
    assert headrace("gc", stream, "--grace", "0", "--json").json["feedback_objects"] == 0, "nothing is trimmed yet"
    assert headrace("pin", stream, "late", "--step", "1090").status == 0
    planned = headrace("gc", stream, "--dry-run", "--json").json
    collected = headrace("gc", stream, "--grace", "0", "--json").json
    assert planned["feedback_objects"] == collected["feedback_objects"] >= 6
    assert collected["feedback_folds"] == 1
    # What reaches past step 1024 is left as it is.
    assert len(list((tmp_path / "long" / "feedback").iterdir())) == objects - collected["feedback_objects"] + 1
    assert shown(headrace, stream, "--steps", "0:2000") == before
    assert headrace("gc", stream, "--grace", "0", "--json").json["feedback_objects"] == 0
    assert headrace("verify", stream).status == 0


def test_damage_is_named_and_the_rest_is_shown(headrace: Headrace, stream: str) -> None:
    train(stream, (0, 1), range(2), lambda n: (1.0, 1))
    train(stream, (0, 1), range(4, 6), lambda n: (1.0, 1))
    damaged = sorted(Path(stream, "feedback").iterdir())[0]
    damaged.chmod(0o644)
    damaged.write_text(damaged.read_text().replace("web", "wob"))
    done = headrace("feedback", stream, "--json")
    assert done.status == 1
    assert damaged.name in done.err
    assert [row["step"] for row in done.json["steps"]] == [4, 5]
    assert damaged.name in done.json["damaged"][0]["object"]
    assert headrace("feedback", stream, "--steps", "4:").status == 0


@pytest.mark.parametrize("words", ["5", "5:5", "6:5", "a:b", "1:2:3", "-1:4"])
def test_wrong_steps_are_wrong_words(headrace: Headrace, stream: str, words: str) -> None:
    done = headrace("feedback", stream, f"--steps={words}")
    assert done.status == 2
    assert "is not like 100:200" in done.err


@pytest.mark.slow
def test_an_outage_of_s3(headrace: Headrace, reference: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(hr.Loader, "_report_every", 0.2)
    with hr.Writer(reference.uri, lanes=2, columns={"x": "int64"}, probe=False) as writer:
        for n in range(6):
            writer.append({"x": [n, n]})
        writer.seal()
    with FlakyProxy(reference.endpoint) as proxy:
        uri = reference.uri.replace(reference.endpoint, proxy.endpoint)
        with hr.Loader(uri, role="eval") as loader:
            steps = list(loader)
            proxy.mode = "down"
            times = []
            for step in steps:
                began = time.perf_counter()
                loader.report(step.number, loss={"any": (3.0, 2)})
                times.append(time.perf_counter() - began)
            assert sorted(times)[1] < 0.5
            assert eventually(lambda: loader.stats()["report_failures"] > 0 or proxy.struck > 5)
            assert loader.stats()["reports_waiting"] == 6
            proxy.mode = "pass"
            assert eventually(lambda: loader.stats()["reports_waiting"] == 0)
    rows = headrace("feedback", reference.uri, "--json", env=reference.env).json["steps"]
    assert [row["loss"]["any"]["mean"] for row in rows] == [1.5] * 6
