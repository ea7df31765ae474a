"""Changing the mixture of a living stream: what would hold it up for good is refused before anything is committed."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from calls import Headrace
from lakes import QUICK, documents, write_parquet, write_recipe

SOURCES = """
sources:
  a: {format: parquet, files: "a/*.parquet", weight: 0.5}
  b: {format: parquet, files: "b/*.parquet", weight: 0.5}
"""
MORE = "until: {steps: 40}\nkeep: [id]"


def begin(headrace: Headrace, folder: Path) -> Path:
    for i, name in enumerate("ab"):
        write_parquet(folder / name, documents(i, 1500))
    produce(headrace, write_recipe(folder, MORE, SOURCES), folder / "out", "--steps", "4")
    return folder / "out"


def produce(headrace: Headrace, recipe: Path, stream: Path, *words: str) -> dict:
    done = headrace("produce", recipe, "--stream", stream, "--json", *QUICK, *words)
    assert done.status == 0, done.err
    return done.json


def mixtures(headrace: Headrace, stream: Path) -> list[int]:
    return [mixture["number"] for mixture in headrace("inspect", stream, "--json").json["mixtures"]]


def test_weights_that_nothing_can_be_drawn_by_are_refused(headrace: Headrace, tmp_path: Path) -> None:
    out = begin(headrace, tmp_path)
    for weights, says in [
        ("a=1,b=inf", "the weight of b is infinite"),
        ("a=1,b=nan", "the weight of b is not a number"),
        ("a=1,b=-1", "the weight of b is below 0"),
        ("a=1e308,b=1e308", "more than a number can hold"),
        ("a=1e999,b=1", '"a=1e999" is larger or smaller'),
        ("a=0,b=0", "all weights are 0"),
    ]:
        wrong = headrace("mix", out, "--set", weights, "--from", "20")
        assert (wrong.status, says in wrong.err) == (2, True), wrong.err
    left_out = headrace("mix", out, "--set", "a=1")
    assert left_out.status != 0
    assert "b is missing; b=0 leaves b out" in left_out.err
    assert headrace("mix", out, "--recipe", tmp_path / "recipe.yaml", "--from", "20").status == 2
    assert mixtures(headrace, out) == [0]


def test_a_bad_mixture_is_named_and_can_be_replaced(headrace: Headrace, tmp_path: Path) -> None:
    """As an older version committed one."""
    out = begin(headrace, tmp_path)
    assert headrace("mix", out, "--set", "a=3,b=1").status == 0
    assert headrace("verify", out).status == 0
    path = next((out / "mixtures").iterdir())
    mixture = json.loads(path.read_text())
    assert mixture["mix"]["schedule"][0]["weights"] == {"a": 0.75, "b": 0.25}
    mixture["mix"]["schedule"][0]["weights"]["b"] = None
    path.chmod(0o644)
    path.write_text(json.dumps(mixture))
    damaged = headrace("verify", out, "--json")
    assert damaged.status == 1
    assert [path.name in entry["object"] for entry in damaged.json["damaged"]] == [True]
    recipe = tmp_path / "recipe.yaml"
    assert headrace("produce", recipe, "--stream", out, *QUICK).status == 1
    assert "without --from" in headrace("mix", out, "--set", "a=1,b=1", "--from", "30").err
    assert headrace("mix", out, "--set", "a=1,b=1").status == 0
    assert headrace("verify", out).status == 0
    assert produce(headrace, recipe, out)["steps"] == 40


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({}, 'asks for the column "id", and source z has none'),
        ({"id": list(range(50))}, "source z has a column id of another type than the stream"),
        ({"id": ["x"] * 50, "tokens": [[2**40]] * 50}, "and a token is below 2^31"),
    ],
)
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_new_source_that_does_not_fit_is_refused(
    headrace: Headrace, tmp_path: Path, form: str, columns: dict[str, list], says: str
) -> None:
    out = begin(headrace, tmp_path)
    table = pa.table({"tokens": [[1, 2, 3]] * 50} | columns)
    (tmp_path / "z").mkdir()
    if form == "parquet":
        pq.write_table(table, tmp_path / "z" / "0.parquet")
    else:
        (tmp_path / "z" / "0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    more = write_recipe(tmp_path, MORE, SOURCES + f'  z: {{format: {form}, files: "z/*", weight: 1}}\n', name="more.yaml")
    before = sorted(out.rglob("*"))
    refused = headrace("mix", out, "--recipe", more)
    assert refused.status == 1
    assert says in refused.err
    assert (mixtures(headrace, out), sorted(out.rglob("*"))) == ([0], before)


def test_a_change_that_is_taken_back_is_named(headrace: Headrace, tmp_path: Path) -> None:
    out = begin(headrace, tmp_path)
    assert headrace("mix", out, "--set", "a=0,b=1", "--from", "36", "--json").json["discarded"] == []
    earlier = headrace("mix", out, "--set", "a=1,b=0", "--from", "30", "--json").json
    assert earlier["discarded"] == [{"from_step": 36, "weights": {"a": 0, "b": 1}}]
    assert "taken back: the change that was planned for step 30 (a 1.0000" in headrace("mix", out, "--set", "a=1,b=1").out
