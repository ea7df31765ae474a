"""Arrays into tensors: on the host as copies or views, on a device through pinned memory and a stream of its own.

What holds a token, label or position in each element becomes int64, as torch's embeddings and losses want it; everything else
keeps its type. On the way to a device arrays keep the type in which they are stored, and are widened there: a third of the
bytes go over the bus.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from headrace.batch import BytesColumn, Ragged

INT64 = frozenset({"tokens", "labels", "unshifted_labels", "position_ids"})
_ALIGN = 64
# Types of 8 bytes have two letters each, of which numpy and the buffer protocol take another one.
_FORMATS = {"l": "q", "L": "Q"}
# So many steps may be on their way to the device before the host waits for the first of them.
_BUFFERS = 3


class _Shared:
    """An array's memory, said to be writable: torch has no read-only tensors, and warns about every one."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}


def view_of(array: np.ndarray) -> torch.Tensor:
    """A tensor over the array's memory, which lives as long as the tensor. Writing to it is not allowed, and not noticed."""
    if array.flags.writeable:
        return torch.from_numpy(array)
    if array.size == 0:
        return torch.from_numpy(array.copy())
    # What the core made comes over in one call of torch's, which is several times as quick.
    whole, kind = array.base, array.dtype.char
    if type(whole) is memoryview and array.flags.c_contiguous and whole.shape == array.shape:
        maker = whole.obj
        if whole.format == _FORMATS.get(kind, kind) and type(maker).__module__ == "nanobind":
            try:
                return from_dlpack(maker.__dlpack__())
            except (RuntimeError, BufferError):  # a type that this torch does not take that way
                pass
    return torch.from_numpy(np.asarray(_Shared(array)))


def copy_of(array: np.ndarray, wide: bool) -> torch.Tensor:
    return torch.from_numpy(array.astype(np.int64) if wide and array.dtype.kind in "iu" else np.array(array))


class HostTensors:
    """Tensors in the host's memory."""

    device = torch.device("cpu")

    def __init__(self, columns: Mapping[str, Any], views: bool) -> None:
        self._bfloat16 = {name for name, column in columns.items() if column.dtype == "bfloat16"}
        self._views = views

    def make(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._one(name, value) for name, value in values.items()}

    def _one(self, name: str, value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, np.ndarray):
            tensor = view_of(value) if self._views else copy_of(value, name in INT64)
            return tensor.view(torch.bfloat16) if name in self._bfloat16 else tensor
        if isinstance(value, BytesColumn):
            return value
        if isinstance(value, Ragged):
            return Ragged(self._one(name, value.values), self._one("", value.offsets))
        if isinstance(value, Mapping):
            return {key: self._one("", inner) for key, inner in value.items()}
        return value


class DeviceTensors:
    """Tensors on a device. What is made together goes there in one copy."""

    def __init__(self, columns: Mapping[str, Any], device: torch.device) -> None:
        self.device = device
        self._bfloat16 = {name for name, column in columns.items() if column.dtype == "bfloat16"}
        self._cuda = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if self._cuda else None
        self._buffers: list[tuple[torch.Tensor, Any]] = []  # pinned memory, and the copy that reads it

    def make(self, values: Mapping[str, Any]) -> dict[str, Any]:
        arrays: dict[int, np.ndarray] = {}
        _collect(values, arrays)
        places, total = {}, 0
        for key, array in arrays.items():
            places[key] = total
            total += -(-array.nbytes // _ALIGN) * _ALIGN
        if not self._cuda:
            sent = torch.empty(total, dtype=torch.uint8)
            _fill(sent.numpy(), arrays, places)
            return self._shape(values, sent.to(self.device), places)
        buffer = self._pinned(total)
        _fill(buffer.numpy(), arrays, places)
        assert self._stream is not None
        # Memory of the caching allocator that this stream gets may still be read by kernels of the one before.
        current = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self._stream):
            sent = buffer[:total].to(self.device, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record(self._stream)
            self._buffers.append((buffer, copied))
            made = self._shape(values, sent, places)
        current.wait_stream(self._stream)
        _record(made, current)
        return made

    def _pinned(self, size: int) -> torch.Tensor:
        """Memory that no copy reads any more."""
        if len(self._buffers) >= _BUFFERS or (self._buffers and self._buffers[0][1].query()):
            buffer, copied = self._buffers.pop(0)
            copied.synchronize()
            if buffer.numel() >= size:
                return buffer
        return torch.empty(max(size, 1 << 16) * 5 // 4, dtype=torch.uint8, pin_memory=True)

    def _shape(self, values: Mapping[str, Any], sent: torch.Tensor, places: Mapping[int, int]) -> dict[str, Any]:
        made: dict[tuple[int, bool], torch.Tensor] = {}

        def one(name: str, value: Any) -> Any:  # noqa: ANN401
            if isinstance(value, np.ndarray):
                wide = name in INT64 and value.dtype.kind in "iu"
                key = (id(value), wide)
                if key not in made:
                    tensor = _typed(sent, places[id(value)], value)
                    if wide:
                        tensor = tensor.to(torch.int64)
                    made[key] = tensor.view(torch.bfloat16) if name in self._bfloat16 else tensor
                return made[key]
            if isinstance(value, BytesColumn):
                return value
            if isinstance(value, Ragged):
                return Ragged(one(name, value.values), one("", value.offsets))
            if isinstance(value, Mapping):
                return {key: one("", inner) for key, inner in value.items()}
            return value

        return {name: one(name, value) for name, value in values.items()}


def _collect(values: Mapping[str, Any], into: dict[int, np.ndarray]) -> None:
    for value in values.values():
        if isinstance(value, np.ndarray):
            into[id(value)] = value
        elif isinstance(value, Ragged) and not isinstance(value, BytesColumn):
            into[id(value.values)] = value.values
            into[id(value.offsets)] = value.offsets
        elif isinstance(value, Mapping):
            _collect(value, into)


def _fill(buffer: np.ndarray, arrays: Mapping[int, np.ndarray], places: Mapping[int, int]) -> None:
    for key, array in arrays.items():
        if array.nbytes:
            start = places[key]
            np.copyto(buffer[start : start + array.nbytes].view(array.dtype).reshape(array.shape), array)


def _typed(sent: torch.Tensor, start: int, like: np.ndarray) -> torch.Tensor:
    dtype = torch.from_numpy(np.empty(0, like.dtype)).dtype
    if like.nbytes == 0:
        return torch.empty(like.shape, dtype=dtype, device=sent.device)
    return sent[start : start + like.nbytes].view(dtype).view(like.shape)


def _record(made: Any, stream: Any) -> None:  # noqa: ANN401
    if isinstance(made, torch.Tensor):
        made.record_stream(stream)
    elif isinstance(made, Ragged) and not isinstance(made, BytesColumn):
        _record(made.values, stream)
        _record(made.offsets, stream)
    elif isinstance(made, Mapping):
        for inner in made.values():
            _record(inner, stream)


def tensors_on(columns: Mapping[str, Any], device: torch.device | str | None, views: bool) -> HostTensors | DeviceTensors:
    where = torch.device(device) if device is not None else HostTensors.device
    if where.type == "cpu":
        return HostTensors(columns, views)
    if where.type == "cuda" and where.index is None:
        where = torch.device("cuda", torch.cuda.current_device())
    return DeviceTensors(columns, where)
