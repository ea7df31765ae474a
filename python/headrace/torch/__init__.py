"""Headrace for torch: the loader with tensors, on a device if asked for, and what frameworks want around it.

from headrace.torch import Loader

loader = Loader("s3://bucket/runs/a", device="cuda", mesh=device_mesh)
for step in loader:
    loss = model(step["tokens"], …)
dcp.save({"model": model.state_dict(), "data": loader})
"""

from __future__ import annotations

from headrace.torch.checkpoints import Checkpoints
from headrace.torch.feed import Feed
from headrace.torch.loader import Lane, Loader, MicroBatch, Step, TensorBatch

__all__ = ["Checkpoints", "Feed", "Lane", "Loader", "MicroBatch", "Step", "TensorBatch"]
