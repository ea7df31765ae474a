"""The Hugging Face Trainer on a stream, and format="hf" against what transformers' own collator makes of the same documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packing import PackedStream, write_packed

import headrace as hr

torch = pytest.importorskip("torch", reason="TORCH IS NOT INSTALLED: what needs it is left out")
transformers = pytest.importorskip("transformers", reason="TRANSFORMERS IS NOT INSTALLED: what needs it is left out")
pytest.importorskip("accelerate", reason="ACCELERATE IS NOT INSTALLED: what needs it is left out")

from headrace.torch import Loader  # noqa: E402
from headrace.torch.huggingface import Trainer  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> PackedStream:
    return write_packed(tmp_path_factory.mktemp("hf") / "stream", steps=6, lanes=4, sequences=1)


def model() -> Any:  # noqa: ANN401
    transformers.set_seed(17)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=60001, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=64,
        )
    )  # fmt: skip


def test_a_batch_is_what_the_collator_makes_of_the_same_documents(stream: PackedStream) -> None:
    collator = transformers.DataCollatorWithFlattening(return_flash_attn_kwargs=True)
    with Loader(stream.uri, format="hf") as loader:
        for step in loader:
            documents = [d for lane in stream.steps[step.number] for sequence in lane for d in sequence]
            features = [
                {
                    "input_ids": d.tokens,
                    "labels": [t if count and d.source >= 0 else -100 for t, count in zip(d.tokens, d.counts, strict=True)],
                }
                for d in documents
            ]
            expected = collator(features)
            for name in ("input_ids", "labels", "position_ids"):
                assert step[name].dtype == expected[name].dtype
                assert step[name].reshape(1, -1).tolist() == expected[name].tolist(), name
            for name in ("cu_seq_lens_q", "cu_seq_lens_k"):
                assert step[name].dtype == expected[name].dtype
                assert step[name].tolist() == expected[name].tolist(), name
            for name in ("max_length_q", "max_length_k"):
                assert step[name] == expected[name]


def test_documents_do_not_see_each_other(stream: PackedStream, tmp_path: Path) -> None:
    """The loss of a packed batch, as the Trainer gives it to the model, is that of its documents one by one."""
    tiny = model().eval()
    args = transformers.TrainingArguments(output_dir=str(tmp_path), per_device_train_batch_size=4, report_to=[], use_cpu=True)
    with Loader(stream.uri, format="hf") as loader, torch.no_grad():
        inputs = next(iter(Trainer(model=tiny, args=args, stream=loader).get_train_dataloader()))
        packed = tiny(**inputs).loss.item()
        total, count = 0.0, 0
        for document in (d for lane in stream.steps[0] for sequence in lane for d in sequence if d.source >= 0):
            labels = [t if counts else -100 for t, counts in zip(document.tokens, document.counts, strict=True)]
            targets = sum(label != -100 for label in labels[1:])
            if targets:
                alone = tiny(input_ids=torch.tensor([document.tokens]), labels=torch.tensor([labels]))
                total, count = total + alone.loss.item() * targets, count + targets
        assert packed == pytest.approx(total / count, rel=1e-6)


class Recording(Trainer):
    """Notes what it is given."""

    def __init__(self, *args: Any, **how: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **how)
        self.seen: list[list[int]] = []

    def training_step(self, model: Any, inputs: dict[str, Any], *more: Any) -> Any:  # noqa: ANN401
        self.seen.append(inputs["input_ids"][:, 0].tolist())
        return super().training_step(model, inputs, *more)


class DieAfter(transformers.TrainerCallback):
    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        if state.global_step == self._step:
            raise KeyboardInterrupt


def trainer(stream: PackedStream, folder: Path, **how: Any) -> Recording:  # noqa: ANN401
    args = transformers.TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=2, gradient_accumulation_steps=2, num_train_epochs=1, save_steps=2,
        save_total_limit=1, logging_steps=1, report_to=[], use_cpu=True, disable_tqdm=True, learning_rate=0.01, seed=3,
        lr_scheduler_type="constant", max_grad_norm=0, **how,
    )  # fmt: skip
    return Recording(model=model(), args=args, stream=Loader(stream.uri, format="hf"))


def losses(trained: Recording) -> dict[int, float]:
    return {entry["step"]: entry["loss"] for entry in trained.state.log_history if "loss" in entry}


def epochs(trained: Recording) -> dict[int, float]:
    return {entry["step"]: entry["epoch"] for entry in trained.state.log_history if "loss" in entry}


def test_the_trainer_resumes_where_it_was(stream: PackedStream, tmp_path: Path) -> None:
    calm = trainer(stream, tmp_path / "calm")
    calm.train()
    assert calm.state.global_step == 6
    firsts = [[lane[0][0].tokens[0] for lane in step] for step in stream.steps]
    assert calm.seen == [pair for step in firsts for pair in (step[:2], step[2:])]

    dies = trainer(stream, tmp_path / "again")
    dies.add_callback(DieAfter(5))
    with pytest.raises(KeyboardInterrupt):
        dies.train()
    with hr.Loader(stream.uri) as look:
        # Older checkpoints were rotated away, and let go of the stream with it; 6 is the calm run's last.
        pins = sorted((name.split(".")[0], step) for name, step in look.pins().items() if name.startswith("checkpoint-"))
        assert pins == [("checkpoint-4", 4), ("checkpoint-6", 6)]
    resumed = trainer(stream, tmp_path / "again")
    resumed.train(resume_from_checkpoint=True)
    assert resumed.seen == calm.seen[8:]
    assert resumed.state.global_step == 6
    for step, loss in losses(calm).items():
        assert losses(resumed)[step] == pytest.approx(loss, rel=1e-4)
    # The part of the stream that is behind, not the part since the resume.
    assert epochs(calm) == {step: pytest.approx(step / 6, abs=1e-3) for step in range(1, 7)}
    assert epochs(resumed) == epochs(calm)
    assert resumed.state.epoch == 1


def test_steps_are_counted_by_the_trainer_also_without_an_end(tmp_path: Path) -> None:
    """A stream that is not sealed has no length: max_steps says when it is enough."""
    open_stream = write_packed(tmp_path / "stream", steps=5, lanes=4, sequences=1, seal=False)
    short = trainer(open_stream, tmp_path / "out", max_steps=3)
    short.train()
    assert short.state.global_step == 3
    assert short._stream.state_dict()["next_step"] == 3
    assert epochs(short) == {step: pytest.approx(step / 3, abs=1e-3) for step in range(1, 4)}


def test_wrong_settings_are_refused(stream: PackedStream, tmp_path: Path) -> None:
    args = transformers.TrainingArguments(output_dir=str(tmp_path), report_to=[], use_cpu=True)
    with Loader(stream.uri) as plain, pytest.raises(hr.InvalidArgument, match='format="hf"'):
        Trainer(model=model(), args=args, stream=plain)
    wrong = transformers.TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=2, gradient_accumulation_steps=1, report_to=[], use_cpu=True
    )
    with Loader(stream.uri, format="hf") as loader, pytest.raises(hr.InvalidArgument, match="make it 2"):
        Trainer(model=model(), args=wrong, stream=loader).train()


def test_evaluation_has_a_stream_of_its_own(stream: PackedStream, tmp_path: Path) -> None:
    args = transformers.TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=4, per_device_eval_batch_size=4, report_to=[], use_cpu=True,
        disable_tqdm=True,
    )  # fmt: skip
    with Loader(stream.uri, format="hf") as train, Loader(stream.uri, format="hf", role="eval") as held_out:
        evaluating = Trainer(model=model(), args=args, stream=train, eval_stream=held_out)
        first, second = evaluating.evaluate(), evaluating.evaluate()
    assert first["eval_loss"] == pytest.approx(second["eval_loss"])
    assert train.closed
