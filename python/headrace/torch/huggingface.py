"""A stream under the Hugging Face Trainer.

from headrace.torch import Loader
from headrace.torch.huggingface import Trainer

trainer = Trainer(model=model, args=args, stream=Loader("s3://bucket/runs/a", format="hf"))
trainer.train(resume_from_checkpoint=True)

One step of the stream is one step of the optimizer: with `per_device_train_batch_size` sequences in a batch,
`gradient_accumulation_steps` is the number of batches that a rank's share of a step makes. The stream's position is saved in
`trainer_state.json`, and a checkpoint pins the stream. Another number of processes resumes at the same step. `TrainerMixin`
gives the same to other trainers: `class Mine(TrainerMixin, SFTTrainer)`.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import transformers
from transformers.trainer_callback import ExportableState, TrainerCallback

from headrace.batch import _PACKED_NAMES
from headrace.errors import InvalidArgument
from headrace.torch.checkpoints import Checkpoints
from headrace.torch.feed import Feed
from headrace.torch.loader import Loader, TensorBatch


class StreamCallback(TrainerCallback, ExportableState):
    """Counts what was trained on, keeps the position with the checkpoint, and pins the stream for it."""

    def __init__(self, feed: Feed, pin: bool) -> None:
        self._feed = feed
        self._pin = pin
        self._steps_per_epoch = 0

    def state(self) -> dict[str, Any]:
        return {"args": {}, "attributes": {"stream": self._feed.state_dict()}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        saved = (state.stateful_callbacks or {}).get(type(self).__name__)
        if isinstance(saved, list):
            saved = saved[0] if saved else None
        position = (saved or {}).get("attributes", {}).get("stream")
        if state.global_step > 0:
            if position is None:
                raise InvalidArgument(
                    "the checkpoint has no position of a stream: it was written without headrace.torch.huggingface. "
                    "Say stream.seek(n) and train from its model, without resume_from_checkpoint"
                )
            self._feed.load_state_dict(position)
        try:
            self._steps_per_epoch = len(self._feed.loader)
        except TypeError:  # not sealed yet: as the Trainer has it then
            self._steps_per_epoch = state.max_steps

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        self._feed.trained()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        self._feed.trained()
        # The Trainer counts batches since its start, which are too few after a resume that skipped none. It logs after this.
        if self._steps_per_epoch > 0:
            state.epoch = state.global_step / self._steps_per_epoch

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        if self._pin and state.is_world_process_zero:
            checkpoints = Checkpoints(self._feed.loader, args.output_dir)
            name = f"checkpoint-{state.global_step}"
            if (Path(args.output_dir) / name).is_dir():
                checkpoints.written(name, self._feed.state_dict()["next_step"])
            checkpoints.follow()


class TrainerMixin:
    """For a subclass of `transformers.Trainer`; see the module.

    Args:
        stream: a packed stream's loader, format="hf".
        eval_stream: one with role="eval".
        pin: whether checkpoints pin the stream.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401
        stream: Loader,
        eval_stream: Loader | None = None,
        pin: bool = True,
        **how: Any,  # noqa: ANN401
    ) -> None:
        for loader in (stream, eval_stream):
            if loader is not None and loader._format != "hf":
                raise InvalidArgument(f'the Trainer wants Loader(…, format="hf"), and this one has {loader._format!r}')
        super().__init__(*args, **how)
        settings: Any = self.args  # type: ignore[attr-defined]
        # The stream goes on at its position; there is nothing to skip.
        settings.ignore_data_skip = True
        if settings.dataloader_num_workers:
            raise InvalidArgument("dataloader_num_workers is 0 with a stream: it reads ahead by itself")
        self._names, self._more = _accepted(self.model)  # type: ignore[attr-defined]
        self._stream = Feed(
            stream,
            sequences=settings.per_device_train_batch_size,
            per_step=settings.gradient_accumulation_steps,
            make=self._inputs,
        )
        self._stream.belongs_to(settings.process_index, settings.world_size)
        self._eval_stream = eval_stream
        if eval_stream is not None:
            Feed(eval_stream).belongs_to(settings.process_index, settings.world_size)
        self.add_callback(StreamCallback(self._stream, pin))  # type: ignore[attr-defined]

    def _inputs(self, batch: TensorBatch) -> dict[str, Any]:
        return {**{name: batch[name] for name in self._names}, **self._more}

    def get_train_dataloader(self) -> Any:  # noqa: ANN401
        return self._stream

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:  # noqa: ANN401
        if self._eval_stream is None or eval_dataset is not None:
            return super().get_eval_dataloader(eval_dataset)  # type: ignore[misc]
        return Feed(self._eval_stream, sequences=self.args.per_device_eval_batch_size, make=self._inputs)  # type: ignore[attr-defined]

    def num_examples(self, dataloader: Any) -> int:  # noqa: ANN401
        if isinstance(dataloader, Feed):
            return len(dataloader) * self.args.per_device_train_batch_size  # type: ignore[attr-defined]
        return super().num_examples(dataloader)  # type: ignore[misc]


class Trainer(TrainerMixin, transformers.Trainer):
    """`transformers.Trainer` with a `stream=` to train on."""


def _accepted(model: Any) -> tuple[list[str], dict[str, Any]]:  # noqa: ANN401
    """Which of a batch's names the model takes, and what else it must be told."""
    forward = inspect.signature(getattr(model, "forward", model)).parameters
    every = any(parameter.kind is parameter.VAR_KEYWORD for parameter in forward.values())
    # With a cache transformers does not look for documents in position_ids, and attends across them.
    more = {"use_cache": False} if "use_cache" in forward else {}
    return [name for name in _PACKED_NAMES["hf"] if every or name in forward], more
