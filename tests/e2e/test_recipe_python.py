"""Recipes and producers from Python, and what a loader says about where its samples came from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from calls import binary
from lakes import make_lake, write_recipe

hr = pytest.importorskip("headrace")
pytest.importorskip("headrace._core", reason="THE EXTENSION IS NOT BUILT: `make build`")


@pytest.fixture(autouse=True)
def command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_BIN", str(binary()))
    monkeypatch.setenv("HEADRACE_PYTHON", sys.executable)
    monkeypatch.setenv("HEADRACE_PROGRESS", "0")


def recipe_in(folder: Path) -> hr.Recipe:
    return (
        hr.Recipe(folder=folder, seed=17, lanes=4, strands=4, step={"sequences": 8}, drop_last=False)
        .source("web", format="parquet", files="web/*.parquet", weight=0.5)
        .source("code", format="jsonl", files="code/*.jsonl", weight=0.3)
        .source("books", format="arrow", files=["books/*.arrow"], weight=0.2)
        .pack(length=64)
        .set(chunk={"lane_bytes": "2KB"}, until={"epochs": 1}, shuffle={"window": 64})
    )


def test_a_recipe_in_python_makes_the_same_stream_as_its_yaml(tmp_path: Path) -> None:
    make_lake(tmp_path)
    made = hr.produce(recipe_in(tmp_path), stream=str(tmp_path / "python"))
    again = hr.produce(write_recipe(tmp_path), stream=str(tmp_path / "yaml"))
    assert made["sealed"]
    assert made["steps"] == again["steps"]
    with hr.Loader(str(tmp_path / "python"), role="eval") as one, hr.Loader(str(tmp_path / "yaml"), role="eval") as two:
        for a, b in zip(one, two, strict=True):
            assert (a["tokens"] == b["tokens"]).all()


def test_a_step_says_where_its_samples_came_from(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    hr.produce(recipe_in(tmp_path), stream=str(tmp_path / "out"))
    with hr.Loader(str(tmp_path / "out"), dp=(1, 2), role="eval") as loader:
        step = next(iter(loader))
        samples = step.samples()
        assert {s["lane"] for s in samples} == {2, 3}
        assert set(step.sources) == {"web", "code", "books"}
        tokens = step["tokens"]
        per_lane = tokens.shape[0] // 2
        for sample in samples:
            row = (sample["lane"] - 2) * per_lane + sample["sequence"]
            here = tokens[row, sample["position"] : sample["position"] + sample["length"]]
            if sample["start"] == 0:
                # The first two tokens of every document name it.
                source, number = int(here[0]), int(here[1])
                assert sample["source"] == ("web", "code", "books")[source]
                whole = lake[sample["source"]][number]
                assert here.tolist() == whole[: sample["length"]]


def test_the_plan_of_a_recipe(tmp_path: Path) -> None:
    make_lake(tmp_path)
    plan = recipe_in(tmp_path).plan(steps=8)
    assert plan["steps"] == 8
    assert plan["sources"]["web"]["weight"] == pytest.approx(0.5)


def test_what_is_wrong_with_a_recipe_is_an_exception(tmp_path: Path) -> None:
    make_lake(tmp_path)
    with pytest.raises(hr.InvalidArgument, match="shuffle"):
        hr.produce(recipe_in(tmp_path).set(shufle={"window": 3}), stream=str(tmp_path / "out"))
    with pytest.raises(hr.InvalidArgument, match="module"):
        hr.Recipe().python(lambda batch, rng: batch)
