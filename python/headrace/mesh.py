"""Which part of a job this process is: its coordinates along the axes dp, cp, tp and pp.

Data-parallel coordinates pick lanes; peers along the other axes share the same bytes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import InvalidArgument

_log = logging.getLogger("headrace")

AXES = ("dp", "cp", "tp", "pp")

# What frameworks call the axes over which data differs, and those over which it is shared.
_NAMES = {
    "dp": "dp",
    "data": "dp",
    "ddp": "dp",
    "fsdp": "dp",
    "hsdp": "dp",
    "dp_replicate": "dp",
    "dp_shard": "dp",
    "replicate": "dp",
    "shard": "dp",
    "dp_mod_ep": "dp",
    "cp": "cp",
    "context": "cp",
    "tp": "tp",
    "tensor": "tp",
    "pp": "pp",
    "pipe": "pp",
    "pipeline": "pp",
}


@dataclass(frozen=True)
class Mesh:
    """A (rank, size) along each axis."""

    dp: tuple[int, int] = (0, 1)
    cp: tuple[int, int] = (0, 1)
    tp: tuple[int, int] = (0, 1)
    pp: tuple[int, int] = (0, 1)

    @property
    def is_first(self) -> bool:
        """Whether this is the one process that speaks for the job."""
        return all(getattr(self, axis)[0] == 0 for axis in AXES)

    def __str__(self) -> str:
        return " ".join(
            f"{axis} {rank}/{size}" for axis in AXES for rank, size in [getattr(self, axis)] if size > 1 or axis == "dp"
        )


def _coordinate(axis: str, value: Any) -> tuple[int, int]:  # noqa: ANN401
    try:
        rank, size = value
        rank, size = int(rank), int(size)
    except (TypeError, ValueError):
        raise InvalidArgument(f"the coordinate along {axis} is a pair (rank, size), not {value!r}") from None
    if size < 1 or not 0 <= rank < size:
        raise InvalidArgument(f"there is no rank {rank} of {size} along {axis}: ranks count from 0")
    return rank, size


def _from_device_mesh(mesh: Any) -> Mesh:  # noqa: ANN401
    names = mesh.mesh_dim_names
    if not names:
        raise InvalidArgument("the DeviceMesh has no names for its dimensions: give it mesh_dim_names such as ('dp', 'tp')")
    found: dict[str, tuple[int, int]] = {}
    for position, name in enumerate(names):
        axis = _NAMES.get(name)
        if axis is None:
            raise InvalidArgument(f"the DeviceMesh has a dimension {name!r}; known are {', '.join(sorted(_NAMES))}")
        rank, size = int(mesh.get_local_rank(name)), int(mesh.size(position))
        before_rank, before_size = found.get(axis, (0, 1))
        # Several data-parallel dimensions (replicate × shard) are one, the later ones varying fastest.
        found[axis] = (before_rank * size + rank, before_size * size)
    return Mesh(**found)


def resolve(dp: Any = None, mesh: Any = None) -> Mesh:  # noqa: ANN401
    """The coordinates that were given, or those of the environment."""
    if dp is not None and mesh is not None:
        raise InvalidArgument("give dp= or mesh=, not both: mesh={'dp': (rank, size), …} has dp in it")
    if isinstance(mesh, Mesh):
        return mesh
    if dp is not None:
        return Mesh(dp=_coordinate("dp", dp))
    if isinstance(mesh, Mapping):
        unknown = [str(axis) for axis in mesh if axis not in AXES]
        if unknown:
            raise InvalidArgument(f"there is no axis {', '.join(unknown)}; the axes are {', '.join(AXES)}")
        return Mesh(**{axis: _coordinate(axis, value) for axis, value in mesh.items()})
    if mesh is not None:
        if hasattr(mesh, "mesh_dim_names") and hasattr(mesh, "get_local_rank"):
            return _from_device_mesh(mesh)
        raise InvalidArgument(f"mesh= is a mapping like {{'dp': (rank, size)}} or a torch DeviceMesh, not {type(mesh).__name__}")
    return _from_environment()


def _from_environment() -> Mesh:
    rank, size = _variable("RANK"), _variable("WORLD_SIZE")
    if rank is None and (size or 1) > 1 and _variable("LOCAL_RANK") is not None and _variable("NODE_RANK") is not None:
        # Lightning's launcher: ranks are known when the trainer has its process group, and StreamDataModule tells them then.
        _log.warning("WORLD_SIZE=%s without RANK, as Lightning starts processes: all lanes, until its trainer says which", size)
        return Mesh()
    if rank is None or size is None:
        # Half of what a launcher says: every process would take itself for the only one, and train on all samples.
        if (size or 1) > 1 or (rank or 0) > 0:
            said, missing = (f"WORLD_SIZE={size}", "RANK") if rank is None else (f"RANK={rank}", "WORLD_SIZE")
            raise InvalidArgument(
                f"{said} is in the environment and {missing} is not: which share is this process's? Set both, as torchrun does, "
                "or say dp=(rank, size)"
            )
        return Mesh()
    if not 0 <= rank < size:
        raise InvalidArgument(f"RANK={rank} and WORLD_SIZE={size} in the environment: ranks count from 0 and stay below the size")
    found = Mesh(dp=(rank, size))
    if size > 1:
        _log.warning(
            "RANK=%s WORLD_SIZE=%s are taken as pure data parallelism (dp=(%s, %s)); mesh= says otherwise", rank, size, rank, size
        )
    return found


def _variable(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"{name}={text} in the environment is no whole number; dp=(rank, size) goes before it") from None
