"""A stream under torchtitan.

    trainer config:   dataloader=StreamDataLoader.Config(dataset_path="s3://bucket/runs/a")
    a TrainSpec:      build_dataloader_fn=dataloader_builder("s3://bucket/runs/a")

torchtitan asks its data loader for (inputs, labels), and saves it with torch.distributed.checkpoint. A step of the stream is
one of the optimizer: `training.global_batch_size` is the number of sequences of a step, `training.local_batch_size` what a
batch has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from headrace.errors import InvalidArgument
from headrace.torch.loader import Loader, MicroBatch


class DataLoader:
    """A stream as torchtitan's trainer asks for it; needs no torchtitan.

    Args:
        loader: format="torchtitan".
        sequences: sequences of a batch (training.local_batch_size).
        inputs: what a batch's inputs have beside `input`. With `positions`, attention stays inside documents.
    """

    def __init__(self, loader: Loader, sequences: int, *, inputs: Sequence[str] = ("positions",)) -> None:
        if loader._format != "torchtitan":
            raise InvalidArgument(f'torchtitan wants Loader(…, format="torchtitan"), and this one has {loader._format!r}')
        self.loader = loader
        self._sequences = sequences
        self._names = ("input", *inputs)
        self._rest: Iterator[MicroBatch] = iter(())
        self._inside: tuple[int, int] | None = None  # batches handed out of the current step, and how many it has

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        steps = iter(self.loader)
        while True:
            for micro in self._rest:
                self._inside = None if micro.is_last else (micro.index + 1, micro.of)
                yield {name: micro[name] for name in self._names}, micro["labels"]
            step = next(steps, None)
            if step is None:
                return
            self._rest = step.micro_batches(sequences=self._sequences)

    def state_dict(self) -> dict[str, Any]:
        if self._inside is not None:
            taken, of = self._inside
            raise InvalidArgument(
                f"{taken} of the {of} batches of a step were handed out, and a state in the middle of a step would repeat them. "
                "Make training.global_batch_size the number of a step's sequences: then a step of the optimizer is one "
                "of the stream"
            )
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state)

    def close(self) -> None:
        self.loader.close()


def dataloader_builder(
    uri: str | None = None,
    *,
    inputs: Sequence[str] = ("positions",),
    **how: Any,  # noqa: ANN401
) -> Callable[..., DataLoader]:
    """A function that makes the data loader of a TrainSpec; `how` goes to `headrace.torch.Loader`."""

    def build(dp_world_size: int, dp_rank: int, **known: Any) -> DataLoader:  # noqa: ANN401
        sequences = known.get("local_batch_size") or known["job_config"].training.local_batch_size
        loader = Loader(uri, dp=(dp_rank, dp_world_size), format="torchtitan", **how)
        return DataLoader(loader, sequences, inputs=inputs)

    return build


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name != "StreamDataLoader":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from torchtitan.components.dataloader import BaseDataLoader

    class StreamDataLoader(DataLoader, BaseDataLoader):
        """The same as one of torchtitan's own configurable components; its dataset_path is the stream."""

        @dataclass(kw_only=True, slots=True)
        class Config(BaseDataLoader.Config):
            inputs: tuple[str, ...] = ("positions",)

        def __init__(self, config: Config, *, dp_world_size: int, dp_rank: int, local_batch_size: int, **_: Any) -> None:  # noqa: ANN401
            loader = Loader(config.dataset_path, dp=(dp_rank, dp_world_size), format="torchtitan")
            super().__init__(loader, local_batch_size, inputs=config.inputs)

    globals()[name] = StreamDataLoader
    return StreamDataLoader
