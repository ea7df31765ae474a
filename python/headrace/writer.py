"""The writer: a stream from your own code, one call, one step, exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from headrace import _core
from headrace._stream import OpenStream, options_of
from headrace.batch import Ragged
from headrace.errors import InvalidArgument

_TYPES = {
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32", "float64", "bool",
}  # fmt: skip


def _column(name: str, what: Any) -> tuple[str, str, str]:  # noqa: ANN401
    if what is bytes or what == "bytes":
        return name, "uint8", "bytes"
    text, kind = what, "array"
    if isinstance(text, str) and text.startswith("ragged:"):
        text, kind = text.removeprefix("ragged:"), "ragged"
    if not (isinstance(text, str) and text in _TYPES):
        try:
            text = np.dtype(text).name
        except TypeError:
            text = str(text)
    if text not in _TYPES:
        raise InvalidArgument(
            f'column {name!r}: {what!r} is no type; it is one of {", ".join(sorted(_TYPES))}, "ragged:TYPE" or bytes'
        )
    return name, text, kind


class Writer(OpenStream):
    """Appends steps to a stream, and makes it if it is not there.

    Args:
        uri: the stream.
        lanes: shares of a step, for a stream that is to be made.
        columns: {"tokens": "int32", "ids": "ragged:int64", "text": "bytes"}, likewise.
        source: a name under which steps are counted: a program that is started again asks `done` how many are in, and goes on.
        strand: write on this strand; any that is free if None.
        strands, order, block_steps: of a stream that is to be made.
        compress: with zstd.
        probe: try first whether a new stream's store keeps its promises.
    """

    def __init__(
        self,
        uri: str,
        lanes: int | None = None,
        columns: Mapping[str, Any] | None = None,
        *,
        source: str = "",
        strand: int | None = None,
        strands: int = 16,
        order: str = "arrival",
        block_steps: int = 1,
        compress: bool = False,
        probe: bool = True,
        timeout: float = 300,
        storage_options: dict[str, str] | None = None,
    ) -> None:
        if order not in ("arrival", "planned"):
            raise InvalidArgument(f"order= is arrival or planned, not {order!r}")
        if (lanes is None) != (columns is None):
            raise InvalidArgument("a stream that is to be made needs both lanes= and columns=")
        words = [_column(name, what) for name, what in (columns or {}).items()]
        options = options_of(storage_options)
        self._core = _core.Writer(
            str(uri), options, lanes or 0, strands, order, block_steps, words, probe, source, strand, compress, float(timeout)
        )
        self._info = self._core.info()
        self._source = source
        self._open = True

    @property
    def done(self) -> int:
        """How many steps of the source are in the stream; without a source, how many this writer has appended."""
        return self._core.done

    @property
    def steps(self) -> int:
        """How many steps the stream had at the last commit."""
        return self._core.steps

    def append(self, step: Mapping[str, Any], seq: int | None = None) -> bool:
        """Appends one step: every column with all lanes together, split evenly along its first dimension, or a `PerLane`.

        `seq` is the step's number in the source. One that is in already is left out, and the answer is False.
        """
        if seq is not None:
            if not self._source:
                raise InvalidArgument("seq= counts the steps of a source: name it, Writer(…, source=…)")
            expected = self._core.done + self._core.waiting
            if seq < expected:
                return False
            if seq > expected:
                raise InvalidArgument(f"step {seq} of the source {self._source!r} does not follow: the next one is {expected}")
        columns = self._info["columns"]
        unknown = [name for name in step if name not in {column[0] for column in columns}]
        missing = [column[0] for column in columns if column[0] not in step]
        if unknown or missing:
            raise InvalidArgument(
                f"a step has the columns {', '.join(column[0] for column in columns)}"
                + (f"; {', '.join(missing)} missing" if missing else "")
                + (f"; {', '.join(unknown)} unknown" if unknown else "")
            )
        lanes: list[list[np.ndarray]] = [[] for _ in range(self.lanes)]
        for name, dtype, kind in columns:
            for lane, arrays in zip(lanes, _split(name, dtype, kind, step[name], self.lanes), strict=True):
                lane.extend(arrays)
        self._core.append(lanes)
        return True

    def flush(self) -> None:
        """Commits what waits for its block to be full."""
        self._core.flush()

    def seal(self) -> None:
        """No step follows: all readers end here. Takes the strands of all other writers."""
        self._core.seal()

    def close(self) -> None:
        """Commits what waits, and ends."""
        if not self._open:
            return
        self._open = False
        try:
            self._core.flush()
        finally:
            self._core.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self._open = False
            self._core.close()


def _array(name: str, dtype: str, value: Any) -> np.ndarray:  # noqa: ANN401
    """The value as the column stores it; numbers that would not survive are refused."""
    given = np.asarray(value)
    if dtype == "bfloat16":
        if given.dtype.itemsize != 2 or given.dtype == np.float16:
            raise InvalidArgument(f"column {name!r}: numpy has no bfloat16; give its bits as uint16, or ml_dtypes.bfloat16")
        return np.ascontiguousarray(given).view(np.uint16)
    wanted = np.dtype(dtype)
    if given.dtype == wanted or given.size == 0:
        given = given.astype(wanted, copy=False)
        return np.ascontiguousarray(given).reshape(given.shape)
    if not np.can_cast(given.dtype, wanted, "same_kind") and given.dtype.kind not in "iub":
        raise InvalidArgument(f"column {name!r} holds {dtype}, not {given.dtype}")
    with np.errstate(invalid="ignore"):
        stored = given.astype(wanted)
    if given.dtype.kind in "iub" and not np.array_equal(stored, given):
        raise InvalidArgument(f"column {name!r}: a number does not fit into {dtype}")
    return np.ascontiguousarray(stored).reshape(given.shape)


def _byte_rows(value: Any, name: str) -> list[bytes]:  # noqa: ANN401
    if isinstance(value, (str, bytes, bytearray, memoryview)) or not hasattr(value, "__iter__"):
        raise InvalidArgument(
            f"column {name!r} holds bytes, a row for each sample: give a list of bytes or str, not one {type(value).__name__}"
        )
    rows = []
    for i, row in enumerate(value):
        # bytes(7) would be seven zeros.
        if isinstance(row, str):
            rows.append(row.encode())
        elif isinstance(row, (bytes, bytearray, memoryview)) or (isinstance(row, np.ndarray) and row.dtype == np.uint8):
            rows.append(bytes(row))
        else:
            raise InvalidArgument(f"column {name!r} holds bytes, and row {i} is {type(row).__name__}: give bytes or str")
    return rows


def _rows(value: Any, kind: str, name: str, dtype: str) -> list[Any]:  # noqa: ANN401
    if isinstance(value, Ragged):
        return list(value)
    if kind == "bytes":
        return _byte_rows(value, name)
    return [_array(name, dtype, row) for row in value]


def _packed_rows(rows: Sequence[Any], kind: str, name: str, dtype: str) -> list[np.ndarray]:
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    if kind == "bytes":
        return [np.frombuffer(b"".join(rows), np.uint8), offsets]
    empty = np.zeros(0, np.uint16 if dtype == "bfloat16" else dtype)
    return [np.concatenate([empty, *rows]) if rows and rows[0].ndim == 1 else (np.concatenate(rows) if rows else empty), offsets]


def _split(name: str, dtype: str, kind: str, value: Any, lanes: int) -> list[list[np.ndarray]]:  # noqa: ANN401
    """The arrays of each lane."""
    if isinstance(value, PerLane):
        if len(value) != lanes:
            raise InvalidArgument(f"column {name!r}: the stream has {lanes} lanes, not {len(value)}")
        if kind == "array":
            return [[_array(name, dtype, lane)] for lane in value]
        return [_packed_rows(_rows(lane, kind, name, dtype), kind, name, dtype) for lane in value]
    if kind == "array":
        whole = _array(name, dtype, value)
        if whole.ndim == 0 or whole.shape[0] % lanes:
            raise InvalidArgument(
                f"column {name!r} of shape {list(whole.shape)} cannot be split evenly over {lanes} lanes; "
                "hr.PerLane([…]) gives each lane its own"
            )
        return [[np.ascontiguousarray(piece)] for piece in np.split(whole, lanes)]
    rows = _rows(value, kind, name, dtype)
    if len(rows) % lanes:
        raise InvalidArgument(f"column {name!r} has {len(rows)} rows, which cannot be split evenly over {lanes} lanes")
    each = len(rows) // lanes
    return [_packed_rows(rows[i * each : (i + 1) * each], kind, name, dtype) for i in range(lanes)]


class PerLane(list[Any]):
    """One value for each lane, where they do not have the same number of rows."""
