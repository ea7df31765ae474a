"""What a loader and a writer have in common: a stream that is open, until it is closed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


def options_of(storage_options: Mapping[str, Any] | None) -> dict[str, str]:
    """How to reach the store, as the core takes it."""
    return {str(name): str(value) for name, value in (storage_options or {}).items()}


class OpenStream(ABC):
    """A stream in use; `_info` is what its core says of it."""

    _info: dict[str, Any]

    @property
    def uri(self) -> str:
        return self._info["uri"]

    @property
    def uuid(self) -> str:
        return self._info["uuid"]

    @property
    def lanes(self) -> int:
        """How many lanes the stream has."""
        return self._info["lanes"]

    @abstractmethod
    def close(self) -> None:
        """Ends its use."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
