"""A stream under Lightning.

from headrace.torch import Loader
from headrace.torch.lightning import StreamDataModule

trainer.fit(model, datamodule=StreamDataModule(Loader("s3://bucket/runs/a")), ckpt_path="last")

The position is in Lightning's own checkpoints. Batches are dicts of tensors. With `sequences=`, a rank's share of a step is
handed out in batches of so many sequences, and `accumulate_grad_batches` is their number, so that a step of the stream is one
of the optimizer.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

try:
    import lightning.pytorch as pl
except ImportError:  # the package's older name
    import pytorch_lightning as pl  # type: ignore[no-redef]

from headrace.torch.checkpoints import Checkpoints
from headrace.torch.feed import Feed
from headrace.torch.loader import Loader


class StreamDataModule(pl.LightningDataModule):
    """A loader as a data module.

    Args:
        stream: what to train on.
        eval_stream: a loader with role="eval", for validation.
        sequences: sequences of a batch; None: a batch is a rank's whole share of a step.
        pin: whether checkpoints pin the stream.
    """

    def __init__(
        self, stream: Loader, eval_stream: Loader | None = None, *, sequences: int | None = None, pin: bool = True
    ) -> None:
        super().__init__()
        self._loader = stream
        self._eval = eval_stream
        self._sequences = sequences
        self._pin = pin
        self._feed = Feed(stream, sequences=sequences)

    def setup(self, stage: str) -> None:
        trainer = self.trainer
        if trainer is None:
            return
        # Lightning starts its own processes, and the loader was opened before they knew which one they are.
        self._feed.belongs_to(trainer.global_rank, trainer.world_size)
        if self._eval is not None:
            Feed(self._eval).belongs_to(trainer.global_rank, trainer.world_size)
        if self._sequences is not None:
            self._feed._per_step = trainer.accumulate_grad_batches
        if not any(isinstance(callback, StreamCallback) for callback in trainer.callbacks):
            # Before the one that saves: it must have counted the batch that was just trained on.
            trainer.callbacks.insert(0, StreamCallback(self, self._pin))

    def train_dataloader(self) -> Feed:
        return self._feed

    def val_dataloader(self) -> Any:  # noqa: ANN401
        return Feed(self._eval, sequences=self._sequences) if self._eval is not None else []

    def state_dict(self) -> dict[str, Any]:
        return {"stream": self._feed.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._feed.load_state_dict(state["stream"])


class StreamCallback(pl.Callback):
    """Counts what was trained on, and pins the stream for the checkpoints that are there. The data module brings it."""

    def __init__(self, module: StreamDataModule, pin: bool) -> None:
        self._module = module
        self._pin = pin
        self._written: dict[Path, int] = {}  # when a file was last written: one name may be used again

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ANN401
        self._module._feed.trained()

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:  # noqa: ANN401
        # The file is written after this.
        self._next_step = self._module._feed.state_dict()["next_step"]

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:  # noqa: ANN401
        self._follow(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ANN401
        self._follow(trainer)

    _next_step: int | None = None

    def _follow(self, trainer: Any) -> None:  # noqa: ANN401
        """Pins for what was saved since the last look, and unpins for what is gone."""
        if not self._pin or not trainer.is_global_zero or self._next_step is None:
            return
        step, self._next_step = self._next_step, None
        for folder, paths in itertools.groupby(sorted(_paths(trainer)), key=lambda path: path.parent):
            checkpoints = Checkpoints(self._module._loader, folder)
            for path in paths:
                if path.exists() and self._written.get(path) != path.stat().st_mtime_ns:
                    self._written[path] = path.stat().st_mtime_ns
                    checkpoints.written(path.name, step)
            checkpoints.follow()


def _paths(trainer: Any) -> set[Path]:  # noqa: ANN401
    found = set()
    for callback in trainer.checkpoint_callbacks:
        for attribute in ("_last_checkpoint_saved", "last_model_path", "best_model_path"):
            path = getattr(callback, attribute, "")
            if path:
                found.add(Path(path))
    return found
