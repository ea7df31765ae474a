"""How a stream of a lake ends: what is left over, what was wanted and is not there, and what is said of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from calls import Headrace
from lakes import QUICK, SOURCES, documents, make_lake, write_parquet, write_recipe


def test_more_steps_than_the_lake_has(headrace: Headrace, tmp_path: Path) -> None:
    """Everything that is there is made, and it is said that it was less than wanted."""
    lake = make_lake(tmp_path)
    recipe = write_recipe(tmp_path)
    whole = headrace("produce", recipe, "--stream", tmp_path / "whole", "--json", *QUICK).json
    recipe = write_recipe(tmp_path, "until: {steps: 100000}", name="more.yaml")
    done = headrace("produce", recipe, "--stream", tmp_path / "out", *QUICK)
    assert done.status == 0, done.err
    assert f"{whole['steps']} steps, sealed" in done.out
    assert "the lake ended before `until` was reached: 100000 steps were wanted" in done.out
    # What was made is what is said to have been made, the last steps too.
    assert whole["made"]["steps"] == whole["steps"]
    assert whole["made"]["bytes"] > 0
    assert sum(whole["tokens"].values()) == sum(len(document) for docs in lake.values() for document in docs)
    assert whole["samples"] == {name: len(docs) for name, docs in lake.items()}


def test_fewer_steps_than_the_lake_has(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path)
    recipe = write_recipe(tmp_path, "until: {steps: 7}")
    done = headrace("produce", recipe, "--stream", tmp_path / "out", *QUICK)
    assert done.status == 0, done.err
    assert "7 steps, sealed" in done.out
    assert "the lake ended" not in done.out


def test_a_plan_lasts_no_longer_than_until_says(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path)

    def lasts(until: str, sources: str = SOURCES) -> float:
        plan = headrace("plan", write_recipe(tmp_path, until, sources), "--steps", "3", "--json")
        assert plan.status == 0, plan.err
        return plan.json["lasts_steps"]

    lake = lasts("until: {epochs: 1}")
    assert lake > 7
    assert lasts("until: {steps: 7}") == 7
    assert lasts("until: {steps: 100000}") == pytest.approx(lake, rel=0.2)
    repeated = SOURCES.replace("weight:", "at_end: repeat, weight:", 1)
    assert repeated != SOURCES
    assert lasts("until: {steps: 100000}", repeated) == 100000
    text = headrace("plan", write_recipe(tmp_path, "until: {steps: 7}"), "--steps", "3").out
    assert "about 7 steps" in text
    assert re.search(r"up to \d+ steps in a chunk", text)


def test_a_plan_has_the_steps_that_are_made(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path, (40, 30, 20))
    recipe = write_recipe(tmp_path)
    plan = headrace("plan", recipe, "--steps", "1000", "--json").json
    made = headrace("produce", recipe, "--stream", tmp_path / "out", "--json", *QUICK).json
    assert plan["ends_within"]
    assert plan["steps"] == made["steps"] > 0
    assert {name: source["tokens"] for name, source in plan["sources"].items()} == made["tokens"]


def test_a_lake_of_less_than_a_step(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path, (4, 3, 2))
    recipe = write_recipe(tmp_path, "drop_last: true")
    done = headrace("produce", recipe, "--stream", tmp_path / "out", *QUICK)
    assert done.status == 1
    assert "less than one step" in done.err
    assert "drop_last: false" in done.err
    assert not list((tmp_path / "out").rglob("*")), "there is no stream that somebody would have to delete"
    assert "nothing would be made" in headrace("plan", recipe).out


@pytest.mark.parametrize("strands", [1, 4, 16])
@pytest.mark.parametrize("epochs", [0.5, 1, 1.25, 2.5])
def test_a_part_of_an_epoch_is_a_part_of_its_rows(headrace: Headrace, tmp_path: Path, epochs: float, strands: int) -> None:
    """Also where the whole lake lies in one shuffle window, as small ones do if nothing is said."""
    write_parquet(tmp_path / "web", documents(0, 600))
    more = f"strands: {strands}\nshuffle: {{window: 100000}}\nuntil: {{epochs: {epochs}}}"
    recipe = write_recipe(tmp_path, more, 'sources:\n  web: {format: parquet, files: "web/*.parquet"}\n')
    made = headrace("produce", recipe, "--stream", tmp_path / "out", "--json", *QUICK)
    assert made.status == 0, made.err
    assert made.json["samples"] == {"web": 600 * epochs}
