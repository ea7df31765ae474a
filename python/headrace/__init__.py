"""Headrace: training data from the lake to the accelerators, through an object store and nothing else."""

from importlib.metadata import version as _installed_version
from typing import NoReturn

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

__all__ = [
    "Conflict",
    "Corrupt",
    "Error",
    "Fenced",
    "InvalidArgument",
    "NotFound",
    "OutcomeUnknown",
    "Stalled",
    "Trimmed",
    "Unavailable",
    "Unsupported",
    "__version__",
]

__version__: str = _installed_version("headrace")

# Names that are promised, and the version that will have them.
_LATER = {"Loader": "0.3", "Recipe": "0.3", "Writer": "0.3", "produce": "0.3"}


def __getattr__(name: str) -> NoReturn:
    if name in _LATER:
        raise Unsupported(f"headrace.{name} comes with version {_LATER[name]}; this is {__version__}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
