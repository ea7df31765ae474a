"""Producers from Python: processes of the command `headrace`, so that a trainer's interpreter is never in their way."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace import errors
from headrace.recipe import Recipe, RecipeFile

AnyRecipe = str | Path | Recipe | RecipeFile | Mapping[str, Any]


def command() -> str:
    """The program `headrace` that belongs to this package."""
    named = os.environ.get("HEADRACE_BIN")
    if named:
        return named
    beside = Path(sys.executable).parent / "headrace"
    if beside.exists():
        return str(beside)
    found = shutil.which("headrace")
    if found is None:
        raise errors.NotFound(
            "the command `headrace` is not beside this Python and not on PATH: `pip install headrace` brings both"
        )
    return found


@contextlib.contextmanager
def recipe_words(recipe: AnyRecipe, inherited: list[int]) -> Iterator[list[str]]:
    """The words that name a recipe on a command line, for as long as a command runs that has `inherited`, too."""
    if isinstance(recipe, RecipeFile):
        recipe = recipe.path
    elif isinstance(recipe, Mapping):
        recipe = Recipe().set(**{str(name): value for name, value in recipe.items()})
    elif not isinstance(recipe, (str, Path, Recipe)):
        raise errors.InvalidArgument(
            f"a recipe is an hr.Recipe, a dict of its keys, or the path of a YAML file, not {recipe!r:.100}"
        )
    if isinstance(recipe, (str, Path)):
        yield [str(recipe)]
        return
    # No name in any folder: nothing is left behind, however this process ends.
    with tempfile.TemporaryFile("w") as file:
        file.write(recipe.to_yaml())
        file.flush()
        inherited.append(file.fileno())
        yield [f"/proc/self/fd/{file.fileno()}", "--folder", recipe.folder]


def failure(said: str, log: str) -> errors.Error:
    """The exception for what a command answered."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        error = json.loads(said)["error"]
        return getattr(errors, error["code"], errors.Error)(error["message"])
    return errors.Error(log.strip() or "headrace failed and said nothing")


# Who calls the command so tells of its errors itself, and knows a recipe by no file's name.
CALLED_BY = {"HEADRACE_CALLED_BY": "python"}

# How options of a store are called in the environment of AWS tools, which a command has them from.
_ENVIRONMENT = {
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
    "region": "AWS_REGION",
    "endpoint": "AWS_ENDPOINT_URL_S3",
    "profile": "AWS_PROFILE",
}


def run(words: list[str], storage_options: dict[str, str] | None = None, inherited: Sequence[int] = ()) -> dict[str, Any]:
    """What a command answers."""
    options = {_ENVIRONMENT[name]: value for name, value in (storage_options or {}).items() if name in _ENVIRONMENT}
    environment = {**os.environ, **CALLED_BY, **options}
    process = subprocess.Popen(
        [command(), *words, "--json"], stdout=subprocess.PIPE, text=True, env=environment, pass_fds=inherited
    )
    try:
        said, _ = process.communicate()
    except BaseException:
        process.terminate()  # it finishes or drops what it has begun, and ends
        process.wait()
        raise
    if process.returncode != 0:
        raise failure(said, "")
    return json.loads(said)


def produce(
    recipe: AnyRecipe,
    *,
    stream: str | None = None,
    producers: int = 1,
    steps: int | None = None,
    memory: str | None = None,
    split: str = "train",
    owner: str | None = None,
) -> dict[str, Any]:
    """Runs producers until the recipe ends or `steps` are visible, and blocks until then.

    The answer has the stream's URI, its steps, whether it is sealed, and what was made of each source.
    """
    words = ["--producers", str(producers), "--split", split]
    for name, value in (("--stream", stream), ("--steps", steps), ("--memory", memory), ("--owner", owner)):
        if value is not None:
            words += [name, str(value)]
    inherited: list[int] = []
    with recipe_words(recipe, inherited) as named:
        return run(["produce", *named, *words], inherited=inherited)


def plan(recipe: AnyRecipe, *, steps: int = 64, step_time: str | None = None) -> dict[str, Any]:
    """What a recipe would do, before anything is written (`headrace plan`)."""
    words = ["--steps", str(steps)] + (["--step-time", step_time] if step_time is not None else [])
    inherited: list[int] = []
    with recipe_words(recipe, inherited) as named:
        return run(["plan", *named, *words], inherited=inherited)


def stream_of(recipe: AnyRecipe) -> str:
    """The URI of the stream that a recipe fills."""
    inherited: list[int] = []
    with recipe_words(recipe, inherited) as named:
        return run(["produce", *named, "--print-stream"], inherited=inherited)["stream"]


def compare(recipe: AnyRecipe, stream: str) -> None:
    """Raises `Conflict` if the stream is another recipe's. Reads a few small objects, nothing of the lake."""
    inherited: list[int] = []
    with recipe_words(recipe, inherited) as named:
        run(["produce", *named, "--stream", stream, "--compare"], inherited=inherited)
