"""Headrace: training data from the lake to the accelerators, through an object store and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.errors import (
    Conflict,
    Corrupt,
    Error,
    Fenced,
    InvalidArgument,
    NotFound,
    OutcomeUnknown,
    Stalled,
    Trimmed,
    Unavailable,
    Unsupported,
)

if TYPE_CHECKING:
    from headrace.batch import BytesColumn, Ragged
    from headrace.loader import Loader
    from headrace.mesh import Mesh
    from headrace.producing import plan, produce
    from headrace.recipe import Recipe
    from headrace.step import Lane, MicroBatch, Step
    from headrace.writer import PerLane, Writer

__all__ = [
    "BytesColumn",
    "Conflict",
    "Corrupt",
    "Error",
    "Fenced",
    "InvalidArgument",
    "Lane",
    "Loader",
    "Mesh",
    "MicroBatch",
    "NotFound",
    "OutcomeUnknown",
    "PerLane",
    "Ragged",
    "Recipe",
    "Stalled",
    "Step",
    "Trimmed",
    "Unavailable",
    "Unsupported",
    "Writer",
    "__version__",
    "plan",
    "produce",
]

__version__: str

# Imported when first asked for: `import headrace` does no work, and does not need numpy.
_FROM = {
    "BytesColumn": "batch",
    "Lane": "step",
    "Loader": "loader",
    "Mesh": "mesh",
    "MicroBatch": "step",
    "PerLane": "writer",
    "Ragged": "batch",
    "Recipe": "recipe",
    "Step": "step",
    "Writer": "writer",
    "plan": "producing",
    "produce": "producing",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _FROM:
        import importlib

        value = getattr(importlib.import_module(f"headrace.{_FROM[name]}"), name)
        globals()[name] = value
        return value
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = version("headrace")
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
