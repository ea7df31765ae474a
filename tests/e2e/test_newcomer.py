"""What somebody meets who tries things for the first time: nulls, truths, other names, words that are a little wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from calls import Done, Headrace
from lakes import documents, write_parquet

hr = pytest.importorskip("headrace")
pytest.importorskip("headrace._core", reason="THE EXTENSION IS NOT BUILT: `make build`")


@pytest.fixture(autouse=True)
def set_up(headrace: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    headrace.environment["HEADRACE_PYTHON"] = sys.executable
    monkeypatch.setenv("HEADRACE_BIN", str(headrace.binary))
    monkeypatch.setenv("HEADRACE_PYTHON", sys.executable)
    monkeypatch.setenv("HEADRACE_PROGRESS", "0")


TOKENS = pa.list_(pa.int32())


def write(folder: Path, **columns: pa.Array) -> None:
    (folder / "web").mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / "web" / "a.parquet")


def produce(headrace: Headrace, folder: Path, *words: str, **recipe: object) -> Done:
    """A recipe of one source; 8 samples a step, or 4 sequences of 16 tokens."""
    base = {
        "seed": 1,
        "lanes": 2,
        "strands": 1,
        "shuffle": False,
        "drop_last": False,
        "step": {"sequences": 4} if "pack" in recipe else {"samples": 8},
        "sources": {"web": {"files": "web/*.parquet"}},
    } | recipe
    # A key a line, so that messages have lines to name.
    (folder / "recipe.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in base.items()))
    return headrace("produce", folder / "recipe.yaml", "--stream", folder / "out", "--json", "--no-probe", *words)


def column(folder: Path, name: str) -> list:
    values = []
    with hr.Loader(str(folder / "out"), role="eval", timeout=60) as loader:
        for step in loader:
            values += [*step[name]]
    return values


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (pa.array([1, None, 3]), '"x" is null'),
        (pa.array(["a", None, "c"]), '"x" is null'),
        (pa.array([[1], None, [3]]), '"x" is null'),
        (pa.array([[1, 2], [3, None], [5]]), 'element 1 of its "x" is null'),
        (pa.array([None, None, None], pa.null()), '"x" is null'),
    ],
)
def test_a_null_is_no_value(headrace: Headrace, tmp_path: Path, values: pa.Array, says: str) -> None:
    write(tmp_path, x=values, n=pa.array(range(3)))
    done = produce(headrace, tmp_path, keep=["x", "n"])
    assert done.status == 1
    assert says in done.err
    assert f"row {0 if values.type == pa.null() else 1} of " in done.err
    assert "web/a.parquet" in done.err
    assert "bad_samples" in done.err
    if values.type == pa.null():
        return
    assert produce(headrace, tmp_path, keep=["x", "n"], bad_samples="skip").status == 0
    assert sorted(column(tmp_path, "n")) == [0, 2]


def test_nulls_in_columns_that_nobody_uses_do_no_harm_and_filters_see_them(headrace: Headrace, tmp_path: Path) -> None:
    write(tmp_path, n=pa.array([0, 1, 2]), x=pa.array([None, "b", "c"]), y=pa.array(["a", "b", None]))
    done = produce(headrace, tmp_path, keep=["n"], transform=[{"filter": "y is not null"}])
    assert done.status == 0, done.err
    assert sorted(column(tmp_path, "n")) == [0, 1]


def test_a_null_among_packed_tokens_is_bad(headrace: Headrace, tmp_path: Path) -> None:
    write(tmp_path, tokens=pa.array([[1, 2, 3], [4, None], None, [5, 6]], TOKENS))
    done = produce(headrace, tmp_path, pack={"length": 16})
    assert done.status == 1
    assert 'element 1 of its "tokens" is null' in done.err
    done = produce(headrace, tmp_path, pack={"length": 16}, bad_samples="skip")
    assert done.status == 0, done.err
    assert sorted(t for row in column(tmp_path, "tokens") for t in row.tolist() if t) == [1, 2, 3, 5, 6]


def test_truths_are_carried(headrace: Headrace, tmp_path: Path) -> None:
    truths = [i % 3 == 0 for i in range(21)]
    write(
        tmp_path,
        b=pa.array(truths),
        flags=pa.array([truths[:i] for i in range(21)]),
        fixed=pa.array([[t, not t] for t in truths], pa.list_(pa.bool_(), 2)),
        n=pa.array([int(t) for t in truths]),
        i=pa.array(range(21)),
    )
    done = produce(headrace, tmp_path, transform=[{"cast": {"n": "bool"}}])
    assert done.status == 0, done.err
    # Balancing may deal the samples of a step in another order.
    order = np.argsort(column(tmp_path, "i"))
    for name, expected in {
        "b": truths,
        "n": truths,
        "flags": [truths[:i] for i in range(21)],
        "fixed": [[t, not t] for t in truths],
    }.items():
        found = column(tmp_path, name)
        assert [found[i].tolist() for i in order] == expected
    with hr.Loader(str(tmp_path / "out"), role="eval") as loader:
        assert loader.step(0)["b"].dtype == np.bool_
    assert '"dtype": "bool"' in headrace("inspect", tmp_path / "out", "--json").out


def test_what_is_kept_is_named_as_it_is_after_the_transforms(headrace: Headrace, tmp_path: Path) -> None:
    write_parquet(tmp_path / "web", documents(0, 30))
    done = produce(headrace, tmp_path, pack={"length": 16}, transform=[{"rename": {"id": "uuid"}}], keep=["uuid"])
    assert done.status == 0, done.err
    assert any(bytes(row).startswith(b"0-") for row in column(tmp_path, "uuid"))
    done = produce(headrace, tmp_path, pack={"length": 16}, transform=[{"rename": {"id": "uuid"}}], keep=["id"])
    assert done.status == 1
    assert "keep: the column id is called uuid from line 9 on" in done.err
    assert "write uuid" in done.err


@pytest.mark.parametrize(
    ("recipe", "says"),
    [
        (
            {"transform": [{"filter": "langg == 'de'"}]},
            'recipe.yaml:9: filter asks for the column "langg", and source web has none; did',
        ),
        ({"keep": ["idd"]}, 'recipe.yaml:9: keep asks for the column "idd", and source web has none'),
        (
            {"transform": [{"filter": "lang > 3"}]},
            'recipe.yaml:9: filter: the filter "lang > 3" does not fit the types of its columns (lang is string)',
        ),
    ],
)
def test_who_asks_for_what_is_not_there_is_named(headrace: Headrace, tmp_path: Path, recipe: dict, says: str) -> None:
    write(tmp_path, tokens=pa.array([[1, 2]], TOKENS), lang=pa.array(["de"]), id=pa.array(["a"]))
    done = produce(headrace, tmp_path, pack={"length": 16}, **recipe)
    assert done.status == 1
    assert says in done.err


def test_python_that_fails_names_the_file_and_is_told_of_once(headrace: Headrace, tmp_path: Path) -> None:
    write(tmp_path, tokens=pa.array([[i, i] for i in range(40)], TOKENS))
    (tmp_path / "fixes.py").write_text(
        "def f(batch, rng):\n"
        "    for row in batch['tokens'].to_pylist():\n        assert row[0] != 17, 'seventeen'\n    return batch\n"
    )
    done = produce(headrace, tmp_path, pack={"length": 16}, transform=[{"python": {"call": "fixes:f"}}])
    assert done.status == 1
    assert "row 17 of " in done.err
    assert "web/a.parquet: " in done.err
    assert "AssertionError: seventeen" in done.err
    done = produce(headrace, tmp_path, pack={"length": 16}, transform=[{"python": {"call": "fixes:f", "on_error": "skip"}}])
    assert done.status == 0, done.err
    assert done.err.count("seventeen") == 1
    assert "web/a.parquet" in done.err


def test_a_module_that_is_not_there_is_one_line(headrace: Headrace, tmp_path: Path) -> None:
    write(tmp_path, tokens=pa.array([[1]], TOKENS))
    done = produce(headrace, tmp_path, pack={"length": 16}, transform=[{"python": "nowhere:f"}])
    assert done.status == 1
    assert "there is no Python module nowhere: put nowhere.py beside the recipe" in done.err
    assert "Traceback" not in done.err
    done = produce(headrace, tmp_path, pack={"length": 16}, transform=[{"chat": {"tokenizer": "nowhere"}}])
    assert done.status == 1
    assert "Traceback" not in done.err
    assert "nowhere" in done.err


def test_a_recipe_in_python_has_no_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, tokens=pa.array([[1]], TOKENS))
    recipe = hr.Recipe(folder=tmp_path, lanes=2, step={"sequences": 3}).source("web", files="web/*.parquet").pack(length=16)
    with pytest.raises(hr.InvalidArgument, match=r"^recipe:\d+:\d+: step: 3 sequences") as refused:
        recipe.plan()
    assert "/tmp" not in str(refused.value)
    assert capfd.readouterr().err == ""


def test_an_embedded_producer_gives_up_on_what_cannot_be_helped(tmp_path: Path) -> None:
    recipe = hr.Recipe(folder=tmp_path, lanes=2, step={"sequences": 4}).source("web", files="none/*.parquet").pack(length=16)
    with pytest.raises(hr.Error) as failed:
        hr.Loader(recipe=recipe, producers=1, timeout=60)
    assert "tried" not in str(failed.value)


def test_words_of_the_command_line(headrace: Headrace, tmp_path: Path) -> None:
    write(tmp_path, tokens=pa.array([[1, 2, 3]] * 30, TOKENS))
    done = produce(headrace, tmp_path, "--owner", "mill-3", pack={"length": 16})
    assert done.status == 0, done.err
    steps = done.json["steps"]
    out = tmp_path / "out"
    for words, says in [
        (("cat", out, "--step", "-1"), '--step: "-1" is not a whole number'),
        (("append", out, "--strand", "x"), '--strand: "x" is not a whole number'),
        (("mix", out), "--set"),
        (("produce", tmp_path / "recipe.yaml", "--memory", "1KB"), "--memory: 1KB is too little: at least 16MB"),
    ]:
        wrong = headrace(*words)
        assert (wrong.status, says in wrong.err) == (2, True), wrong.err
    beyond = headrace("digest", out, "--to", "1000")
    assert (beyond.status, beyond.out) == (1, "")
    assert f"there are {steps} steps" in beyond.err
    assert [producer["name"] for producer in headrace("inspect", out, "--json").json["producers"]] == ["mill-3"]
    assert "producer  mill-3 (" in headrace("inspect", out).out
    assert headrace("demo", "--help").out.startswith("usage: headrace demo [DIR] [options]")
    assert headrace("verify", out, "--json").json["recipe_objects"] == 2
    inventory = next((out / "inventory").iterdir())
    inventory.chmod(0o644)
    inventory.write_bytes(b"x" + inventory.read_bytes()[1:])
    damaged = headrace("verify", out, "--json")
    assert damaged.status == 1
    assert [entry["object"].split("/out/")[1].split("/")[0] for entry in damaged.json["damaged"]] == ["inventory"]
