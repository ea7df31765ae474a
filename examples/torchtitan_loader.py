"""What torchtitan's trainer does with its data loader, with a stream behind it.

    python examples/torchtitan_loader.py STREAM

In torchtitan itself this is one line of a configuration:

    dataloader=headrace.torch.torchtitan.StreamDataLoader.Config(dataset_path="s3://bucket/runs/a")

or, where a TrainSpec names functions:

    build_dataloader_fn=headrace.torch.torchtitan.dataloader_builder("s3://bucket/runs/a")
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch.distributed.checkpoint as dcp

from headrace.torch.torchtitan import dataloader_builder

parser = argparse.ArgumentParser()
parser.add_argument("stream", help="a packed stream: s3://bucket/prefix or a folder")
parser.add_argument("--checkpoint", default="titan-out")
parser.add_argument("--batch", type=int, default=4, help="training.local_batch_size")
parser.add_argument("--accumulate", type=int, default=2, help="global_batch_size / (local_batch_size × data-parallel ranks)")
parser.add_argument("--steps", type=int, default=3)
words = parser.parse_args()

dataloader = dataloader_builder(words.stream)(dp_world_size=1, dp_rank=0, local_batch_size=words.batch)
if Path(words.checkpoint).exists():
    dcp.load({"dataloader": dataloader}, checkpoint_id=words.checkpoint)
batches = iter(dataloader)
for _ in range(words.steps):
    for inputs, labels in (next(batches) for _ in range(words.accumulate)):
        print({name: tuple(tensor.shape) for name, tensor in inputs.items()}, tuple(labels.shape), int((labels != -100).sum()))
dcp.save({"dataloader": dataloader}, checkpoint_id=words.checkpoint)
print(f"next step: {dataloader.state_dict()['next_step']}")
dataloader.close()
