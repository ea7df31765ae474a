"""Batches for a framework that fetches them when it likes: what counts is what was trained on.

Frameworks take batches before they need them, drop some, and save their state in between. A feed hands out the micro-batches of
a loader's steps, and counts a step as consumed when the framework has said `trained()` for the last of them. Whatever was
handed out and not trained on comes again with the next iteration.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from headrace.errors import InvalidArgument
from headrace.mesh import AXES
from headrace.torch.loader import Loader, TensorBatch

Make = Callable[[TensorBatch], Any]


def as_dict(batch: TensorBatch) -> dict[str, Any]:
    return dict(batch)


class Feed:
    """An iterable over the batches of a loader, which becomes one with ack="manual".

    Args:
        loader: before its first step.
        sequences: sequences of a batch; None: a batch is a rank's whole share of a step.
        per_step: how many batches the framework takes for one step of its optimizer, if it is known: a step of the stream must
        have as many. make: what to hand out of a batch; a dict of its tensors, if nothing is said.
    """

    def __init__(
        self, loader: Loader, *, sequences: int | None = None, per_step: int | None = None, make: Make = as_dict
    ) -> None:
        self.loader = loader
        self._sequences = sequences
        self._per_step = per_step
        self._make = make
        self._handed_out: deque[tuple[int, bool]] = deque()  # step, and whether it was its last batch
        if loader._role == "train" and loader._ack != "manual":
            if loader._began:
                raise InvalidArgument('this loader has handed out steps already: open it with ack="manual"')
            loader._ack = "manual"
            loader._acked = loader._core.cursor

    def belongs_to(self, rank: int, size: int) -> None:
        """Which process of how many the framework is. A loader that was told nothing takes that share; any other is refused."""
        mesh = self.loader.mesh
        have = math.prod(getattr(mesh, axis)[1] for axis in AXES)
        if have == size:
            return
        if have != 1:
            raise InvalidArgument(
                f"the loader is one of {have} processes ({mesh}), and the framework that trains one of {size}: some samples "
                "would be trained on twice, or by nobody. Is distributed training switched on (on CPUs, the Trainer wants "
                "use_cpu=True)?"
            )
        self.loader.resize(dp=(rank, size))

    def __iter__(self) -> Iterator[Any]:
        if self.loader._role == "train":
            self._go_back()
        for step in self.loader:
            batches = [step] if self._sequences is None else list(step.micro_batches(sequences=self._sequences))
            if self._per_step is not None and len(batches) != self._per_step:
                # Handed out, it would be trained on together with another step's.
                self.loader.seek(step.number)
                raise InvalidArgument(
                    f"step {step.number} has {len(batches)} batches of {self._sequences or step.sequences} sequences on this "
                    f"rank, and {self._per_step} are accumulated for one step of the optimizer: make it {len(batches)}, so that "
                    "a step of the stream is one of the optimizer"
                )
            for i, batch in enumerate(batches):
                self._handed_out.append((step.number, i == len(batches) - 1))
                yield self._make(batch)

    def _go_back(self) -> None:
        self._handed_out.clear()
        if self.loader._core.cursor != self.loader._acked:
            self.loader.seek(self.loader._acked)

    def trained(self) -> None:
        """The oldest batch that was handed out and not yet counted has been trained on."""
        if not self._handed_out:
            raise InvalidArgument("trained() was said more often than batches were handed out")
        step, last = self._handed_out.popleft()
        if last:
            self.loader.done(step)

    def __len__(self) -> int:
        """Batches of the whole stream, if it is sealed."""
        if self._sequences is not None and self._per_step is None:
            raise TypeError("how many batches a step has is not known before it is read: per_step= says it")
        return len(self.loader) * (self._per_step or 1)

    def state_dict(self) -> dict[str, Any]:
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state)
