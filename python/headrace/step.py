"""One step as a rank gets it: its lanes' arrays together, lane by lane, or in micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.batch import Batch, Layout
from headrace.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from headrace import _core


class Lane(Batch):
    """One lane of a step; the same names, and always views."""

    @property
    def number(self) -> int:
        """The lane's number in the stream."""
        return self._core.first_lane + self._first


class MicroBatch(Batch):
    """Some neighbouring sequences of a step; the same names."""

    def __init__(self, step: Step, first: int, end: int, index: int, of: int) -> None:
        super().__init__(step._core, step._layout, step._first, step._end)
        self._step = step
        self._rows = (first, end)
        self.index = index
        self.of = of

    @property
    def is_last(self) -> bool:
        return self.index == self.of - 1

    @property
    def sequences(self) -> int:
        return self._rows[1] - self._rows[0]

    def _get(self, inner: str) -> Any:  # noqa: ANN401
        made = self._made.get(inner)
        if made is None:
            made = self._made[inner] = self._step._rows_of(inner, *self._rows)
        return made

    def __repr__(self) -> str:
        return f"<micro-batch {self.index + 1} of {self.of} of step {self._step.number}: {self.sequences} sequences>"


class Turn:
    """A step's turn in the training loop: while it is inside, some of its micro-batches are still to be handed out."""

    __slots__ = ("inside", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.inside = False


class Step(Batch):
    """A rank's share of one global batch. Its arrays are read-only, and live as long as somebody holds one."""

    def __init__(self, core: _core.Step, layout: Layout, turn: Turn | None = None) -> None:
        super().__init__(core, layout, 0, core.lane_count)
        self.number: int = core.number
        self._turn = turn

    @property
    def mixture(self) -> int:
        """The number of the mixture that it was drawn with."""
        return self._core.mixture

    @property
    def label_tokens(self) -> int:
        """How many labels of the whole global batch count: what a sum of losses over all ranks is divided by."""
        if not self._layout.packed:
            raise Unsupported("a stream that is not packed has no labels")
        if "step_stats" in self._layout.columns:
            return int(self._get("step_stats")[0])
        if self._core.lane_count != self._layout.lanes:
            raise Unsupported(
                "this stream does not say how many labels a step has (no column step_stats): sum (labels != -100) over the ranks"
            )
        return int((self._core.labels(self._first, self._end, True) != -100).sum())

    @property
    def sources(self) -> dict[str, dict[str, int]]:
        """Samples and tokens per source, of the whole global batch. Empty if the stream does not say."""
        if not self._layout.packed or "step_stats" not in self._layout.columns:
            return {}
        stats = self._get("step_stats")[2:].reshape(-1, 2)
        names = self._layout.source_names(self.mixture)
        return {
            names[i] if i < len(names) else str(i): {"samples": int(samples), "tokens": int(tokens)}
            for i, (samples, tokens) in enumerate(stats)
        }

    def lanes(self) -> Iterator[Lane]:
        """Each lane for itself."""
        for lane in range(self._first, self._end):
            yield Lane(self._core, self._layout, lane, lane + 1)

    def micro_batches(self, sequences: int | None = None, tokens: int | None = None) -> Iterator[MicroBatch]:
        """The step in pieces of so many sequences, or of as many as have so many tokens: the same number on every rank.

        From this call on, until the last piece is handed out, the loader's state stays at this step.
        """
        if not self._layout.packed:
            raise Unsupported("micro_batches() is for packed streams; lanes() has the shares of any stream")
        if (sequences is None) == (tokens is None):
            raise InvalidArgument("micro_batches() takes sequences= or tokens=")
        if tokens is not None:
            sequences = tokens // self._length
            if sequences < 1:
                raise InvalidArgument(f"tokens={tokens} is less than one sequence of {self._length}")
        assert sequences is not None
        if sequences < 1:
            raise InvalidArgument(f"sequences={sequences}: a micro-batch has at least one")
        have = self.sequences
        most = have
        if "step_stats" in self._layout.columns:
            # What the rank with the most lanes has, so that all ranks make as many micro-batches.
            in_step, lanes = int(self._get("step_stats")[1]), self._layout.lanes
            most = max(have, -(-in_step // lanes) * self._layout.most_lanes)
        elif have and self._core.lane_count != self._layout.most_lanes:
            most = -(-have // self._core.lane_count) * self._layout.most_lanes
        count = -(-most // sequences)
        if self._turn is not None:
            self._turn.inside = count > 0
        return self._pieces(sequences, have, count)

    def _pieces(self, sequences: int, have: int, count: int) -> Iterator[MicroBatch]:
        for i in range(count):
            if self._turn is not None:
                self._turn.inside = i < count - 1
            yield MicroBatch(self, min(have, i * sequences), min(have, (i + 1) * sequences), i, count)

    def samples(self) -> list[dict[str, Any]]:
        """Where the samples of this rank came from: source, file and row of each, and where it stands (`headrace lineage`)."""
        if self._layout.lineage is None:
            raise Unsupported("this stream has no lineage: `headrace produce` writes it")
        first = self._core.first_lane
        return self._layout.lineage(self.number, first + self._first, first + self._end)

    def __repr__(self) -> str:
        first = self._core.first_lane
        return f"<step {self.number}: lanes {first} to {first + self._core.lane_count - 1}>"
