"""What a batch looks like: named arrays, in the words of the framework that trains on them.

A `Batch` is some lanes of a step, or some rows of them. Arrays are made when they are first asked for and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from headrace import _core

FORMATS = ("plain", "hf", "torchtitan", "megatron")
CP_WAYS = ("whole", "contiguous", "head_tail")

# Names in which a packed batch is handed out, and what they are.
_PACKED_NAMES: dict[str, dict[str, str]] = {
    "plain": {
        "tokens": "tokens",
        "labels": "labels",
        "position_ids": "position_ids",
        "cu_seqlens": "cu_seqlens",
        "max_seqlen": "max_seqlen",
    },
    "hf": {
        "input_ids": "tokens",
        "labels": "unshifted_labels",
        "position_ids": "position_ids",
        "cu_seq_lens_q": "cu_seqlens",
        "cu_seq_lens_k": "cu_seqlens",
        "max_length_q": "max_seqlen",
        "max_length_k": "max_seqlen",
    },
    "torchtitan": {"input": "tokens", "labels": "labels", "positions": "position_ids"},
    "megatron": {
        "tokens": "tokens",
        "labels": "labels",
        "loss_mask": "float_loss_mask",
        "position_ids": "position_ids",
        "cu_seqlens": "cu_seqlens",
        "max_seqlen": "max_seqlen",
        "packed_seq_params": "packed_seq_params",
    },
}
# Columns that are for the loader; they can be asked for, but are not part of the batch.
_HIDDEN = {"step_stats", "first"}
# What has one number per token, and is cut along the sequence for context parallelism.
_PER_TOKEN = {"tokens", "labels", "unshifted_labels", "position_ids", "loss_mask", "float_loss_mask"}


class Ragged:
    """Rows of different lengths: row i is `values[offsets[i]:offsets[i + 1]]`."""

    __slots__ = ("offsets", "values")

    def __init__(self, values: np.ndarray, offsets: np.ndarray) -> None:
        self.values = values
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int | slice) -> Any:  # noqa: ANN401
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = index + len(self) if index < 0 else index
        if not 0 <= i < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def rows(self, first: int, end: int) -> Ragged:
        """Some neighbouring rows, without a copy of the values."""
        begin, stop = int(self.offsets[first]), int(self.offsets[end])
        return type(self)(self.values[begin:stop], _frozen(self.offsets[first : end + 1] - begin))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows, {self.values.dtype})"


class BytesColumn(Ragged):
    """Byte strings, as read-only memoryviews."""

    __slots__ = ()

    def __getitem__(self, index: int | slice) -> Any:  # noqa: ANN401
        row = super().__getitem__(index)
        return row if isinstance(index, slice) else memoryview(row)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class Column:
    """A column of the stream: its stored type (one that numpy lacks, bfloat16, is handed out as uint16) and kind."""

    name: str
    dtype: str
    kind: str
    index: int


@dataclass(frozen=True)
class Layout:
    """How a loader hands out steps; the same for all of them."""

    columns: dict[str, Column]
    packed: bool
    format: str = "plain"
    cp: str = "whole"
    cp_rank: int = 0
    cp_size: int = 1
    lanes: int = 1
    most_lanes: int = 1  # that any rank has
    # Asked for when they are first needed: each costs requests.
    source_names: Callable[[int], tuple[str, ...]] = lambda _mixture: ()
    lineage: Callable[[int, int, int], list[dict[str, Any]]] | None = None
    names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InvalidArgument(f"there is no format {self.format!r}; it is one of {', '.join(FORMATS)}")
        if self.cp not in CP_WAYS:
            raise InvalidArgument(f"cp= is one of {', '.join(CP_WAYS)}, not {self.cp!r}")
        if not self.packed and self.format != "plain":
            raise InvalidArgument(
                f"format={self.format!r} is for packed streams (columns tokens and cu_seqlens), and this stream is not packed"
            )
        names = dict(_PACKED_NAMES[self.format]) if self.packed else {}
        inner = set(names.values()) | {"cu_seqlens"}
        for name in self.columns:
            if name not in inner and name not in names and not (self.packed and name in _HIDDEN):
                names[name] = name
        self.names.update(names)

    @property
    def slices_sequences(self) -> bool:
        return self.cp != "whole" and self.cp_size > 1


class Batch(Mapping[str, Any]):
    """Some lanes of one step: `batch["tokens"]` and so on; a mapping from names to arrays."""

    def __init__(self, core: _core.Step, layout: Layout, first: int, end: int) -> None:
        self._core = core
        self._layout = layout
        self._first = first  # of the step's lanes
        self._end = end
        self._made: dict[str, Any] = {}

    # A mapping's own `==` would compare arrays; a batch is itself and nothing else.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        inner = self._layout.names.get(name)
        if inner is None:
            if name not in self._layout.columns and not (
                self._layout.packed and name in {"labels", "position_ids", "max_seqlen"}
            ):
                raise KeyError(f"there is no {name!r}; a batch has {', '.join(self._layout.names)}")
            inner = name
        return self._get(inner)

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout.names)

    def __len__(self) -> int:
        return len(self._layout.names)

    def _get(self, inner: str) -> Any:  # noqa: ANN401
        made = self._made.get(inner)
        if made is None:
            made = self._make(inner)
            if inner in _PER_TOKEN and self._layout.packed and self._layout.slices_sequences:
                made = self._cut(made)
            self._made[inner] = made
        return made

    def _make(self, inner: str) -> Any:  # noqa: ANN401
        if self._layout.packed:
            if inner == "labels":
                return self._core.labels(self._first, self._end, True)
            if inner == "unshifted_labels":
                return self._core.labels(self._first, self._end, False)
            if inner == "position_ids":
                return self._core.positions(self._first, self._end)
            if inner == "cu_seqlens":
                return self._core.cu_seqlens(self._first, self._end)
            if inner == "step_stats":
                return self._core.column(self._layout.columns["step_stats"].index, self._first, self._first + 1)
        if inner in _DERIVED and self._layout.packed:
            return _DERIVED[inner](self)
        return self._stored(self._layout.columns[inner])

    def _stored(self, column: Column) -> Any:  # noqa: ANN401
        if column.kind == "array":
            return self._core.column(column.index, self._first, self._end)
        values = self._core.column(column.index, self._first, self._end)
        pieces = [self._core.column(column.index + 1, lane, lane + 1) for lane in range(self._first, self._end)]
        offsets = pieces[0] if len(pieces) == 1 else _joined_offsets(pieces)
        return (BytesColumn if column.kind == "bytes" else Ragged)(values, offsets)

    def _cut(self, array: np.ndarray) -> np.ndarray:
        """This context-parallel rank's part of every sequence."""
        layout, length = self._layout, array.shape[1]
        parts = layout.cp_size * (2 if layout.cp == "head_tail" else 1)
        if length % parts:
            raise InvalidArgument(
                f"sequences of {length} tokens cannot be cut into {parts} equal parts, as cp={layout.cp!r} on "
                f"{layout.cp_size} ranks wants it"
            )
        size = length // parts
        head = array[:, layout.cp_rank * size : (layout.cp_rank + 1) * size]
        if layout.cp == "contiguous":
            return head
        tail_at = parts - 1 - layout.cp_rank
        return _frozen(np.concatenate([head, array[:, tail_at * size : (tail_at + 1) * size]], axis=1))

    @property
    def sequences(self) -> int:
        """How many sequences (rows) it has."""
        if not self._layout.packed:
            raise Unsupported("a stream that is not packed has no sequences")
        tokens = self._layout.columns["tokens"].index
        return sum(self._core.column(tokens, lane, lane + 1).shape[0] for lane in range(self._first, self._end))

    def _rows_of(self, inner: str, first: int, end: int) -> Any:  # noqa: ANN401
        """The share of the sequences [first, end) in something that this batch has."""
        if inner == "max_seqlen":
            return _longest(self._rows_of("cu_seqlens", first, end))
        if inner == "packed_seq_params":
            return _packed_seq_params(self._rows_of("cu_seqlens", first, end), self._rows_of("max_seqlen", first, end))
        if inner in _PER_TOKEN:
            return self._get(inner)[first:end]
        bounds, length = self._get("cu_seqlens"), self._length
        begin = int(np.searchsorted(bounds, first * length, side="left"))
        stop = int(np.searchsorted(bounds, end * length, side="left"))
        if inner == "cu_seqlens":
            return _frozen(bounds[begin : stop + 1] - bounds[begin])
        whole = self._get(inner)
        if inner == "step_stats":
            return whole
        if isinstance(whole, Ragged):
            return whole.rows(begin, stop)
        return whole[begin:stop]

    @property
    def _length(self) -> int:
        return self._core.column(self._layout.columns["tokens"].index, self._first, self._first + 1).shape[1]


def _joined_offsets(pieces: list[np.ndarray]) -> np.ndarray:
    joined = [pieces[0]]
    for piece in pieces[1:]:
        joined.append(piece[1:] + joined[-1][-1])
    return _frozen(np.concatenate(joined))


def _longest(bounds: np.ndarray) -> int:
    return int(np.diff(bounds).max(initial=0))


def _packed_seq_params(bounds: np.ndarray, longest: int) -> dict[str, Any]:
    return {
        "qkv_format": "thd",
        "cu_seqlens_q": bounds,
        "cu_seqlens_kv": bounds,
        "cu_seqlens_q_padded": bounds,
        "cu_seqlens_kv_padded": bounds,
        "max_seqlen_q": longest,
        "max_seqlen_kv": longest,
    }


def _float_loss_mask(batch: Batch) -> np.ndarray:
    # 1 where there is a label: what Megatron multiplies losses with.
    whole = batch._core.labels(batch._first, batch._end, True)
    return _frozen((whole != -100).astype(np.float32))


_DERIVED = {
    "max_seqlen": lambda batch: _longest(batch._get("cu_seqlens")),
    "packed_seq_params": lambda batch: _packed_seq_params(batch._get("cu_seqlens"), batch._get("max_seqlen")),
    "float_loss_mask": _float_loss_mask,
}
