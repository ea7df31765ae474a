"""The loader that hands out tensors."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import IterableDataset

from headrace import batch as _batch
from headrace import loader as _loader
from headrace import mesh as _mesh
from headrace import step as _step
from headrace.errors import InvalidArgument
from headrace.torch.broadcast import Broadcast
from headrace.torch.tensors import DeviceTensors, HostTensors, tensors_on

_log = logging.getLogger("headrace")


class TensorBatch(Mapping[str, Any]):
    """A batch of tensors under the names of its format. Tensors are made when they are first asked for and kept."""

    def __init__(self, batch: _batch.Batch, tensors: HostTensors | DeviceTensors) -> None:
        self._batch = batch
        self._tensors = tensors
        self._made: dict[str, Any] = {}

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        inner = self._batch._layout.names.get(name, name)
        if inner not in self._made:
            self._made[inner] = self._make(name, inner)
        return self._made[inner]

    def _make(self, name: str, inner: str) -> Any:  # noqa: ANN401
        return self._tensors.make({inner: self._batch[name]})[inner]

    def __iter__(self) -> Iterator[str]:
        return iter(self._batch)

    def __len__(self) -> int:
        return len(self._batch)

    @property
    def sequences(self) -> int:
        """How many sequences (rows) it has."""
        return self._batch.sequences

    def __repr__(self) -> str:
        return repr(self._batch)


class Lane(TensorBatch):
    """One lane of a step."""

    _batch: _step.Lane

    @property
    def number(self) -> int:
        return self._batch.number


class MicroBatch(TensorBatch):
    """Some neighbouring sequences of a step."""

    _batch: _step.MicroBatch

    def __init__(self, batch: _step.MicroBatch, tensors: HostTensors | DeviceTensors, step: Step) -> None:
        super().__init__(batch, tensors)
        self._step = step

    @property
    def index(self) -> int:
        return self._batch.index

    @property
    def of(self) -> int:
        return self._batch.of

    @property
    def is_last(self) -> bool:
        return self._batch.is_last

    def _make(self, name: str, inner: str) -> Any:  # noqa: ANN401
        if inner in _batch._PER_TOKEN and inner in self._step._made:
            first, end = self._batch._rows
            return self._step._made[inner][first:end]
        return super()._make(name, inner)


class Step(TensorBatch):
    """A rank's share of one global batch, as tensors. `arrays` is the same as numpy has it."""

    _batch: _step.Step

    def __init__(self, step: _step.Step, tensors: HostTensors | DeviceTensors) -> None:
        super().__init__(step, tensors)
        self.number: int = step.number
        if isinstance(tensors, DeviceTensors):
            # All at once: one copy over the bus, behind whatever the device is still doing.
            names = {inner: step._get(inner) for inner in dict.fromkeys(step._layout.names.values())}
            self._made.update(tensors.make(names))

    @property
    def arrays(self) -> _step.Step:
        return self._batch

    @property
    def mixture(self) -> int:
        return self._batch.mixture

    @property
    def label_tokens(self) -> int:
        """How many labels of the whole global batch count: what a sum of losses over all ranks is divided by."""
        return self._batch.label_tokens

    @property
    def sources(self) -> dict[str, dict[str, int]]:
        return self._batch.sources

    def lanes(self) -> Iterator[Lane]:
        for lane in self._batch.lanes():
            yield Lane(lane, self._tensors)

    def micro_batches(self, sequences: int | None = None, tokens: int | None = None) -> Iterator[MicroBatch]:
        """The step in pieces of so many sequences, or of as many as have so many tokens: the same number on every rank.

        From this call on, until the last piece is handed out, the loader's state stays at this step.
        """
        # Not a generator: the state is held from the call on.
        return (MicroBatch(micro, self._tensors, self) for micro in self._batch.micro_batches(sequences, tokens))

    def samples(self) -> Any:  # noqa: ANN401
        return self._batch.samples()


class Loader(_loader.Loader, IterableDataset):
    """`headrace.Loader` with tensors.

    It has everything that `headrace.Loader` has, and is a `Stateful`: `dcp.save({"model": …, "data": loader})`. Put no
    `DataLoader` around it; it reads ahead by itself. Where a framework insists: `DataLoader(loader, batch_size=None)`, without
    workers.

    Args:
        uri: the stream; or `recipe=`.
        device: where the tensors are wanted: cuda: through pinned memory, on a stream of its own. None: on the host.
        views: on the host, share memory with the stream, in the types in which it is stored. Such tensors must not be written to.
        dp, mesh: as `headrace.Loader` has them; also a process group, whose ranks are data-parallel then. Neither: RANK and
            WORLD_SIZE, or torch.distributed's default group.
        broadcast_at: axes (cp, tp, pp) along which only the first rank reads; the others receive from it through
            torch.distributed, so all of them ask for the same steps together. None: what the stream's recipe says,
            where the process groups for it are known; (): none.
        groups: the process groups of these axes, if `mesh` is not a DeviceMesh, which has them.
        how: everything else that `headrace.Loader` takes.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        device: torch.device | str | None = None,
        views: bool = False,
        dp: Any = None,  # noqa: ANN401
        mesh: Any = None,  # noqa: ANN401
        broadcast_at: str | Sequence[str] | None = None,
        groups: Mapping[str, Any] | None = None,
        **how: Any,  # noqa: ANN401
    ) -> None:
        _loader.check_keywords(how, (*_loader.KEYWORDS, "device", "views", "broadcast_at", "groups"))
        if views and device is not None and torch.device(device).type != "cpu":
            raise InvalidArgument("views=True is for tensors on the host: what goes to a device is copied there")
        axes = (broadcast_at,) if isinstance(broadcast_at, str) else tuple(broadcast_at or ())
        found = coordinates(dp, mesh)
        self._broadcast = Broadcast.along(axes, found, mesh, groups or {}) if axes else None
        super().__init__(uri, mesh=found, **how)
        if broadcast_at is None:
            self._broadcast = self._broadcast_of_recipe(mesh, groups or {})
        self._tensors = tensors_on(self._columns, device, views)

    def _broadcast_of_recipe(self, device_mesh: Any, groups: Mapping[str, Any]) -> Broadcast | None:  # noqa: ANN401
        """What the recipe says, where this job has the process groups for it: it is a hint, and reading is always right."""
        axes = [axis for axis in self._recipe_words().get("broadcast_at", ()) if getattr(self._mesh, axis)[1] > 1]
        if not axes:
            return None
        try:
            return Broadcast.along(axes, self._mesh, device_mesh, groups)
        except InvalidArgument as error:
            _log.info("the recipe's broadcast_at is left alone, every rank reads for itself: %s", error)
            return None

    def _next(self, which: int) -> Any:  # noqa: ANN401
        if self._broadcast is None:
            return Step(super()._next(which), self._tensors)
        if self._broadcast.reads:
            return Step(self._broadcast.send(lambda: super(Loader, self)._next(which), lambda: self._core.cursor), self._tensors)
        self._core.check()
        if which != self._pass:
            raise InvalidArgument("another iteration of this loader has begun: an eval loader has one at a time")
        if not self._began:
            self._start = self._core.cursor
            self._began = True
        self._turn = None
        core, next_step = self._broadcast.receive(self._layout)
        self._core.seek(next_step)
        if core is None:
            raise StopIteration
        return Step(self._take_turn(core), self._tensors)

    def step(self, number: int) -> Any:  # noqa: ANN401
        """Any step, without moving on. Every rank reads it for itself, also where steps are broadcast."""
        return Step(super().step(number), self._tensors)

    def resize(self, dp: Any = None, mesh: Any = None) -> None:  # noqa: ANN401
        """Another share from the next step on: the job has grown or shrunk."""
        if self._broadcast is not None:
            raise InvalidArgument(
                "resize() with broadcast_at: the process groups are others then. Open another loader with the state of this one"
            )
        super().resize(mesh=coordinates(dp, mesh))

    def __repr__(self) -> str:
        return f"<headrace.torch.Loader {self._info['uri']} {self._mesh} on {self._tensors.device}>"


def coordinates(dp: Any, mesh: Any) -> _mesh.Mesh:  # noqa: ANN401
    """Where this process stands: as `headrace.Loader` understands it, or by process groups."""
    if dist.is_available():
        if isinstance(mesh, dist.ProcessGroup) and dp is None:
            dp, mesh = mesh, None
        if isinstance(dp, dist.ProcessGroup):
            dp = (dist.get_rank(dp), dist.get_world_size(dp))
        if dp is None and mesh is None and "RANK" not in os.environ and dist.is_initialized():
            dp = (dist.get_rank(), dist.get_world_size())
            _log.warning("torch.distributed's default group is taken as pure data parallelism (dp=%s); mesh= says otherwise", dp)
    return _mesh.resolve(dp, mesh)
