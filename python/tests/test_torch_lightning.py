"""Lightning on a stream: it fetches ahead, saves in the middle, and resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packing import PackedStream, write_packed

import headrace as hr

torch = pytest.importorskip("torch", reason="TORCH IS NOT INSTALLED: what needs it is left out")
pl = pytest.importorskip("lightning.pytorch", reason="LIGHTNING IS NOT INSTALLED: what needs it is left out")

from headrace.torch import Loader  # noqa: E402
from headrace.torch.lightning import StreamDataModule  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


class Model(pl.LightningModule):
    def __init__(self, die_at: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(17)
        self.embedding = torch.nn.Embedding(97, 8)
        self.out = torch.nn.Linear(8, 97)
        self.die_at = die_at
        self.seen: list[list[int]] = []
        self.losses: list[float] = []
        self.validated = 0

    def _loss(self, batch: dict[str, Any]) -> Any:  # noqa: ANN401
        logits = self.out(self.embedding(batch["tokens"] % 97))
        labels = torch.where(batch["labels"] >= 0, batch["labels"] % 97, batch["labels"])
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    def training_step(self, batch: dict[str, Any], index: int) -> Any:  # noqa: ANN401
        if len(self.seen) == self.die_at:
            raise KeyError("killed")
        self.seen.append(batch["tokens"][:, 0].tolist())
        loss = self._loss(batch)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch: dict[str, Any], index: int) -> None:
        self._loss(batch)
        self.validated += 1

    def configure_optimizers(self) -> Any:  # noqa: ANN401
        return torch.optim.SGD(self.parameters(), lr=0.5)


@pytest.fixture(scope="module", params=["sealed", "open"])
def stream(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PackedStream:
    """Without an end Lightning fetches one batch more than it trains on."""
    folder = tmp_path_factory.mktemp(request.param) / "stream"
    return write_packed(folder, steps=8, lanes=4, sequences=1, seal=request.param == "sealed")


def fit(stream: PackedStream, folder: Path, model: Model, path: str | None = None, **how: Any) -> Any:  # noqa: ANN401
    saving = pl.callbacks.ModelCheckpoint(dirpath=folder, filename="{step}", every_n_train_steps=2, save_top_k=1, monitor=None)
    trainer = pl.Trainer(
        max_steps=6, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False, callbacks=[saving],
        accumulate_grad_batches=2, limit_val_batches=0, **how,
    )  # fmt: skip
    with Loader(stream.uri) as loader:
        module = StreamDataModule(loader, sequences=2)
        try:
            trainer.fit(model, datamodule=module, ckpt_path=path)
        finally:
            model.state, model.pins = module.state_dict()["stream"], loader.pins()
    return trainer


def test_lightning_resumes_where_it_was(stream: PackedStream, tmp_path: Path) -> None:
    calm = Model()
    fit(stream, tmp_path / "calm", calm)
    firsts = [[lane[0][0].tokens[0] for lane in step] for step in stream.steps[:6]]
    assert calm.seen == [pair for step in firsts for pair in (step[:2], step[2:])]
    assert calm.state["next_step"] == 6

    dies = Model(die_at=9)  # in the middle of step 4
    with pytest.raises(KeyError):
        fit(stream, tmp_path / "again", dies)
    assert dies.state["next_step"] == 4, "what was fetched ahead, and a step that was begun, do not count"
    checkpoint = next((tmp_path / "again").glob("*.ckpt"))
    # Older checkpoints were deleted by Lightning, and their pins with them; 6 is the calm run's last.
    assert sorted((name.split(".")[0], step) for name, step in dies.pins.items() if "ckpt" in name) == [
        ("step=4", 4),
        ("step=6", 6),
    ]

    resumed = Model()
    fit(stream, tmp_path / "again", resumed, str(checkpoint))
    assert resumed.seen == calm.seen[8:]
    assert resumed.losses == pytest.approx(calm.losses[8:], rel=1e-5)
    assert resumed.state["next_step"] == 6


def test_epochs_of_some_batches_go_on_in_the_stream(stream: PackedStream, tmp_path: Path) -> None:
    model = Model()
    fit(stream, tmp_path, model, limit_train_batches=4)
    firsts = [[lane[0][0].tokens[0] for lane in step] for step in stream.steps[:6]]
    assert model.seen == [pair for step in firsts for pair in (step[:2], step[2:])]


def test_validation_has_a_stream_of_its_own(stream: PackedStream, tmp_path: Path) -> None:
    if "sealed" not in stream.uri:
        pytest.skip("a stream without an end has no end of a validation")
    model = Model()
    trainer = pl.Trainer(
        max_steps=4, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, val_check_interval=2, num_sanity_val_steps=0,
    )  # fmt: skip
    with Loader(stream.uri) as loader, Loader(stream.uri, role="eval") as held_out:
        trainer.fit(model, datamodule=StreamDataModule(loader, held_out))
        assert loader.state_dict()["next_step"] == 4
    assert model.validated == 2 * 8


def test_a_step_that_is_not_the_optimizers_is_refused(stream: PackedStream, tmp_path: Path) -> None:
    trainer = pl.Trainer(
        max_steps=2, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, accumulate_grad_batches=3,
    )  # fmt: skip
    with Loader(stream.uri) as loader, pytest.raises(hr.InvalidArgument, match="make it 2"):
        trainer.fit(Model(), datamodule=StreamDataModule(loader, sequences=2))
