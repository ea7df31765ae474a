"""Lightning on a stream.

    python examples/lightning_trainer.py STREAM

Start it again, and it goes on after its last checkpoint.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch.nn import functional

from headrace.torch import Loader
from headrace.torch.lightning import StreamDataModule


class Model(pl.LightningModule):
    def __init__(self, vocabulary: int = 65536) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Embedding(vocabulary, 16), torch.nn.Linear(16, vocabulary))

    def training_step(self, batch: dict[str, Any], index: int) -> torch.Tensor:
        loss = functional.cross_entropy(self.layers(batch["tokens"]).flatten(0, 1), batch["labels"].flatten())
        print(f"batch {index}: loss {loss.item():.3f}", flush=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


parser = argparse.ArgumentParser()
parser.add_argument("stream", help="a packed stream: s3://bucket/prefix or a folder")
parser.add_argument("--checkpoints", default="lightning-out")
parser.add_argument("--steps", type=int, default=-1)
parser.add_argument("--devices", default="auto")
words = parser.parse_args()
logging.basicConfig(level=logging.INFO)

saving = pl.callbacks.ModelCheckpoint(dirpath=words.checkpoints, every_n_train_steps=2, save_last="link")
trainer = pl.Trainer(
    max_steps=words.steps, max_epochs=1, callbacks=[saving], logger=False, enable_progress_bar=False, devices=words.devices
)
last = Path(words.checkpoints) / "last.ckpt"
trainer.fit(Model(), datamodule=StreamDataModule(Loader(words.stream)), ckpt_path=str(last) if last.exists() else None)
print(f"{trainer.global_step} steps")
