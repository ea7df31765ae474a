"""Recipes as Python objects: what is wrong with one is said where it is written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import headrace as hr
from headrace.recipe import KEYS

ROOT = Path(__file__).resolve().parents[2]


def test_the_keys_are_those_of_the_yaml() -> None:
    found = re.search(r"kTopKeys\[\] = \{(.*?)\}", (ROOT / "src" / "recipe" / "from_yaml.cc").read_text(), re.DOTALL)
    assert found is not None
    assert sorted(KEYS) == sorted(re.findall(r'"(\w+)"', found.group(1)))


def test_a_key_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(hr.InvalidArgument, match="no key lane; did you mean lanes"):
        hr.Recipe(lane=8)
    with pytest.raises(hr.InvalidArgument, match="no key shufle; did you mean shuffle"):
        hr.Recipe().set(shufle={"window": 3})
    with pytest.raises(hr.InvalidArgument, match="no key zzz; it has stream, seed"):
        hr.Recipe(zzz=1)


def test_the_format_of_a_source_may_be_left_to_the_names_of_its_files() -> None:
    recipe = hr.Recipe().source("web", files="web/*.parquet").source("old", format="megatron", files=["a.bin"])
    assert json.loads(recipe.to_yaml())["sources"] == {
        "web": {"files": "web/*.parquet"},
        "old": {"format": "megatron", "files": ["a.bin"]},
    }


def test_a_recipe_shows_what_it_is() -> None:
    recipe = hr.Recipe(seed=17, folder="/lake").source("web", files="web/*.parquet").pack(length=64)
    assert repr(recipe) == "Recipe(seed=17, sources={'web': {'files': 'web/*.parquet'}}, pack={'length': 64}, folder='/lake')"
    assert repr(hr.Recipe.from_file("a.yaml")) == "Recipe.from_file('a.yaml')"


def test_a_dict_is_a_recipe() -> None:
    from headrace.producing import recipe_words

    with recipe_words({"stream": "s", "seed": 3}, []) as words:
        assert json.loads(Path(words[0]).read_text()) == {"stream": "s", "seed": 3}
        assert words[1:] == ["--folder", str(Path.cwd())]
