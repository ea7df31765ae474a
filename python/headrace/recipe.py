"""A recipe in Python: the same words as in YAML, as methods that can be chained.

recipe = (
    hr.Recipe(seed=17, lanes=8, step={"sequences": 64})
    .source("web", format="parquet", files="lake/web/*.parquet", weight=0.7)
    .source("code", format="jsonl", files="lake/code/*.jsonl.zst", weight=0.3)
    .tokenize("tokenizer.json", from_="text", add_eos=True)
    .pack(length=8192)
    .cost(attention={"hidden": 4096, "layers": 32})
)
hr.produce(recipe, stream="s3://bucket/runs/a")
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.errors import InvalidArgument

Words = dict[str, Any]

# The keys of a recipe: those of the YAML.
KEYS = (
    "stream", "seed", "lanes", "strands", "order", "step", "chunk", "lead", "retain", "until", "drop_last", "sources", "holdout",
    "shuffle", "transform", "pack", "cost", "balance", "mix", "keep", "bad_samples", "group", "distribute", "broadcast_at",
)  # fmt: skip


def _known(words: Words) -> Words:
    for name in words:
        if name not in KEYS:
            near = difflib.get_close_matches(name, KEYS, 1)
            raise InvalidArgument(
                f"a recipe has no key {name}" + (f"; did you mean {near[0]}?" if near else f"; it has {', '.join(KEYS)}")
            )
    return words


def _call(function: str | Callable[..., Any]) -> str:
    """`package.module:function` of something that worker processes can import."""
    if isinstance(function, str):
        return function
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module in (None, "__main__") or not name.isidentifier():
        raise InvalidArgument(
            f"{function!r} cannot be imported by worker processes: put it at the top level of a module, and import it from there"
        )
    return f"{module}:{name}"


class Recipe:
    """What to make a stream from. Every key of a YAML recipe is a keyword here; whoever uses it checks it whole."""

    def __init__(self, stream: str | None = None, *, folder: str | Path | None = None, **words: Any) -> None:  # noqa: ANN401
        self._words: Words = dict(_known(words))
        if stream is not None:
            self._words["stream"] = stream
        # What relative paths start from; the current folder if nothing is said.
        self.folder = str(Path(folder) if folder is not None else Path.cwd())

    @classmethod
    def from_file(cls, path: str | Path) -> RecipeFile:
        """A recipe that stands in a YAML file."""
        return RecipeFile(path)

    def source(
        self,
        name: str,
        *,
        files: str | Sequence[str],
        format: str | None = None,
        **words: Any,  # noqa: ANN401
    ) -> Recipe:
        """One more source. Its format is guessed from the names of its files where they tell."""
        sources = self._words.setdefault("sources", {})
        if name in sources:
            raise InvalidArgument(f"the recipe has a source {name} already")
        guessed = {} if format is None else {"format": format}
        sources[name] = {**guessed, "files": files if isinstance(files, str) else list(files), **words}
        return self

    def tokenize(self, tokenizer: str | Path, *, from_: str = "text", **words: Any) -> Recipe:  # noqa: ANN401
        return self._transform("tokenize", {"tokenizer": str(tokenizer), "from": from_, **words})

    def chat(self, tokenizer: str | Path, *, from_: str = "messages", **words: Any) -> Recipe:  # noqa: ANN401
        return self._transform("chat", {"tokenizer": str(tokenizer), "from": from_, **words})

    def filter(self, expression: str) -> Recipe:
        return self._transform("filter", expression)

    def select(self, columns: Sequence[str]) -> Recipe:
        return self._transform("select", list(columns))

    def rename(self, names: Mapping[str, str]) -> Recipe:
        return self._transform("rename", dict(names))

    def cast(self, types: Mapping[str, str]) -> Recipe:
        return self._transform("cast", dict(types))

    def python(self, call: str | Callable[..., Any], **words: Any) -> Recipe:  # noqa: ANN401
        return self._transform("python", {"call": _call(call), **words})

    def pack(self, length: int | None = None, *, lengths: Sequence[Mapping[str, float]] | None = None, **words: Any) -> Recipe:  # noqa: ANN401
        self._words["pack"] = [dict(entry) for entry in lengths] if lengths is not None else {"length": length, **words}
        return self

    def cost(self, cost: str | Callable[..., Any] | None = None, **words: Any) -> Recipe:  # noqa: ANN401
        if callable(cost):
            self._words["cost"] = {"python": _call(cost)}
        else:
            self._words["cost"] = cost if cost is not None else words
        return self

    def balance(self, method: str = "karmarkar_karp", *, over: Sequence[str] = ("lane",)) -> Recipe:
        self._words["balance"] = {"method": method, "over": list(over)}
        return self

    def mix(self, schedule: Mapping[int, Mapping[str, float]] | None = None, **words: Any) -> Recipe:  # noqa: ANN401
        mix = self._words.setdefault("mix", {})
        mix.update(words)
        if schedule is not None:
            mix["schedule"] = {str(step): dict(weights) for step, weights in schedule.items()}
        return self

    def distribute(self, axis: str = "dp", *, group_size: int = 1) -> Recipe:
        self._words["distribute"] = {"axis": axis, "group_size": group_size}
        return self

    def broadcast_at(self, *axes: str) -> Recipe:
        self._words["broadcast_at"] = list(axes)
        return self

    def set(self, **words: Any) -> Recipe:  # noqa: ANN401
        """Any other key of a recipe: `until={"epochs": 1}`, `shuffle={"window": 1000}`, `keep=["id"]`, …"""
        self._words.update(_known(words))
        return self

    def __repr__(self) -> str:
        words = [f"{name}={value!r}" for name, value in self._words.items()]
        return f"Recipe({', '.join([*words, f'folder={self.folder!r}'])})"

    def to_yaml(self) -> str:
        """The recipe as text. JSON, which every reader of YAML understands."""
        return json.dumps(self._words, indent=1) + "\n"

    def plan(self, *, steps: int = 64, **options: Any) -> dict[str, Any]:  # noqa: ANN401
        """What it would do, before anything is written: shares, padding, cost spread, bytes, money (`headrace plan`)."""
        from headrace.producing import plan

        return plan(self, steps=steps, **options)

    def _transform(self, name: str, value: Any) -> Recipe:  # noqa: ANN401
        self._words.setdefault("transform", []).append({name: value})
        return self


class RecipeFile:
    """A recipe in a file; relative paths start from the file's folder."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.folder = str(self.path.resolve().parent)

    def to_yaml(self) -> str:
        return self.path.read_text()

    def __repr__(self) -> str:
        return f"Recipe.from_file({str(self.path)!r})"
