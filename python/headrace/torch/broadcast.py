"""One rank reads for its peers along some axes, and hands on what it got.

A step goes over the wire as it is stored, in one piece, axis after axis; peers make labels and positions of it themselves. The
end of the stream and errors go the same way, so that nobody waits for a step that will not come.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from headrace import errors
from headrace.batch import Column, Layout
from headrace.mesh import _NAMES, AXES, Mesh
from headrace.step import Step

_STEP, _END, _ERROR = 0, 1, 2
_ALIGN = 16


class Broadcast:
    """The process groups along which this rank hands on or receives."""

    def __init__(self, axes: Sequence[str], mesh: Mesh, groups: Mapping[str, Any]) -> None:
        ranks = [getattr(mesh, axis)[0] for axis in axes]
        self.reads = not any(ranks)
        # Along an axis, those take part that are first along all later ones: they have it, or wait for it.
        self._groups = [groups[axis] for i, axis in enumerate(axes) if not any(ranks[i + 1 :]) and getattr(mesh, axis)[1] > 1]
        self._first = [ranks[i] == 0 for i, axis in enumerate(axes) if not any(ranks[i + 1 :]) and getattr(mesh, axis)[1] > 1]

    @classmethod
    def along(cls, axes: Sequence[str], mesh: Mesh, device_mesh: Any, groups: Mapping[str, Any]) -> Broadcast:  # noqa: ANN401
        found = dict(groups)
        for axis in axes:
            if axis not in AXES or axis == "dp":
                raise errors.InvalidArgument(
                    f"broadcast_at names the axes cp, tp and pp, not {axis!r}: along dp every rank has its own samples"
                )
            rank, size = getattr(mesh, axis)
            if size == 1:
                continue
            if axis not in found:
                names = [name for name in getattr(device_mesh, "mesh_dim_names", None) or () if _NAMES.get(name) == axis]
                if len(names) != 1:
                    raise errors.InvalidArgument(
                        f"broadcast_at={axis!r}: which process group is that? Give a DeviceMesh as mesh=, "
                        f"or groups={{{axis!r}: group}}"
                    )
                found[axis] = device_mesh.get_group(names[0])
            if (dist.get_rank(found[axis]), dist.get_world_size(found[axis])) != (rank, size):
                raise errors.InvalidArgument(
                    f"the process group along {axis} has this process as rank {dist.get_rank(found[axis])} of "
                    f"{dist.get_world_size(found[axis])}, and the mesh as {rank} of {size}"
                )
        return cls(axes, mesh, found)

    def send(self, read: Callable[[], Step], next_step: Callable[[], int]) -> Step:
        """Reads a step, and hands it on, or what came instead."""
        try:
            step = read()
        except StopIteration:
            self._pass_on(_END, {"next_step": next_step()}, [])
            raise
        except BaseException as error:
            self._pass_on(_ERROR, {"kind": type(error).__name__, "words": str(error)}, [])
            raise
        core, arrays = step._core, []
        stored = _stored(step._layout.columns.values())
        for lane in range(core.lane_count):
            arrays += [core.column(index, lane, lane + 1) for index in range(stored)]
        about = {"number": core.number, "mixture": core.mixture, "first_lane": core.first_lane, "lane_count": core.lane_count}
        self._pass_on(_STEP, {**about, "next_step": next_step()}, arrays)
        return step

    def receive(self, layout: Layout) -> tuple[Any, int]:
        """A step's arrays (nothing at the end), and the number of the next step."""
        kind, about, body = self._take()
        if kind == _ERROR:
            raise getattr(errors, about["kind"], errors.Error)(f"the rank that reads for this one failed: {about['words']}")
        if kind == _END:
            return None, about["next_step"]
        return ReceivedStep(about, body, layout), about["next_step"]

    def _pass_on(self, kind: int, about: dict[str, Any], arrays: Sequence[np.ndarray]) -> None:
        places, total = [], 0
        for array in arrays:
            places.append([array.dtype.str, list(array.shape), total])
            total += -(-array.nbytes // _ALIGN) * _ALIGN
        header = json.dumps({**about, "arrays": places}).encode()
        start = -(-len(header) // _ALIGN) * _ALIGN
        message = np.zeros(start + total, np.uint8)
        message[: len(header)] = np.frombuffer(header, np.uint8)
        for array, (_, _, place) in zip(arrays, places, strict=True):
            if array.nbytes:
                message[start + place : start + place + array.nbytes].view(array.dtype).reshape(array.shape)[...] = array
        size, body = torch.tensor([kind, len(header), start + total]), torch.from_numpy(message)
        for group in self._groups:
            _broadcast(size, group)
            _broadcast(body, group)

    def _take(self) -> tuple[int, dict[str, Any], np.ndarray]:
        size, body = torch.zeros(3, dtype=torch.int64), torch.zeros(0, dtype=torch.uint8)
        for group, first in zip(self._groups, self._first, strict=True):
            size = _broadcast(size, group)
            if not first:
                body = torch.empty(int(size[2]), dtype=torch.uint8)
            body = _broadcast(body, group)
        kind, header, _ = (int(number) for number in size)
        message = body.numpy()
        message.flags.writeable = False
        return kind, json.loads(message[:header].tobytes()), message[-(-header // _ALIGN) * _ALIGN :]


def _broadcast(tensor: torch.Tensor, group: Any) -> torch.Tensor:  # noqa: ANN401
    """From the group's first rank; a group that only moves what is on a device gets it there."""
    source = dist.get_global_rank(group, 0)
    config = dist.get_backend_config(group)
    if "cpu:" in config or (":" not in config and config != "nccl"):
        dist.broadcast(tensor, src=source, group=group)
        return tensor
    there = tensor.to("cuda")
    dist.broadcast(there, src=source, group=group)
    return there.cpu()


def _stored(columns: Any) -> int:  # noqa: ANN401
    """How many arrays a cell has: two for a ragged column."""
    return max((column.index + (1 if column.kind == "array" else 2) for column in columns), default=0)


class ReceivedStep:
    """What a peer sent of a step: the same questions as to one that was read here."""

    def __init__(self, about: Mapping[str, Any], body: np.ndarray, layout: Layout) -> None:
        self.number: int = about["number"]
        self.mixture: int = about["mixture"]
        self.first_lane: int = about["first_lane"]
        self.lane_count: int = about["lane_count"]
        self._columns: Mapping[str, Column] = layout.columns
        self._per_lane = _stored(layout.columns.values())
        self._arrays = []
        for dtype, shape, place in about["arrays"]:
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            self._arrays.append(body[place : place + size].view(dtype).reshape(shape))

    def column(self, index: int, first: int, end: int) -> np.ndarray:
        lanes = [self._arrays[lane * self._per_lane + index] for lane in range(first, end)]
        return lanes[0] if len(lanes) == 1 else _frozen(np.concatenate(lanes))

    def cu_seqlens(self, first: int, end: int) -> np.ndarray:
        index = self._columns["cu_seqlens"].index
        bounds = [self.column(index, first, first + 1)]
        for lane in range(first + 1, end):
            bounds.append(self.column(index, lane, lane + 1)[1:] + bounds[-1][-1])
        return bounds[0] if len(bounds) == 1 else _frozen(np.concatenate(bounds))

    def positions(self, first: int, end: int) -> np.ndarray:
        bounds = self.cu_seqlens(first, end)
        tokens = self.column(self._columns["tokens"].index, first, end)
        positions = np.arange(tokens.size, dtype=np.int32) - np.repeat(bounds[:-1], np.diff(bounds))
        return _frozen(positions.reshape(tokens.shape))

    def labels(self, first: int, end: int, shifted: bool) -> np.ndarray:
        bounds = self.cu_seqlens(first, end)
        tokens = self.column(self._columns["tokens"].index, first, end)
        labels = tokens.astype(np.int32).reshape(-1)
        if "loss_mask" in self._columns:
            labels[self.column(self._columns["loss_mask"].index, first, end).reshape(-1) == 0] = -100
        if "source" in self._columns:
            padding = self.column(self._columns["source"].index, first, end) < 0
            labels[np.repeat(padding, np.diff(bounds))] = -100
        starts = bounds[:-1][np.diff(bounds) > 0]
        labels[starts] = -100  # no token of the document comes before it
        if shifted:
            labels = np.append(labels[1:], np.int32(-100))
        return _frozen(labels.reshape(tokens.shape))


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
