"""What torchtitan's trainer does with its data loader, with a stream behind it.

    python examples/torchtitan_loader.py STREAM --batch 4 --accumulate 2

A step of the stream is one of the optimizer, so the stream must have --batch × --accumulate sequences in a step (its recipe's
`step: {sequences: 8}`; the first steps of the guide have 16, which is --accumulate 4). If it has another number, the program
says before it begins which --accumulate is right. Start it again, and it goes on after its checkpoint.

In torchtitan itself this is one line of a configuration:

    dataloader=headrace.torch.torchtitan.StreamDataLoader.Config(dataset_path="s3://bucket/runs/a")

or, where a TrainSpec names functions:

    build_dataloader_fn=headrace.torch.torchtitan.dataloader_builder("s3://bucket/runs/a")
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch.distributed.checkpoint as dcp

from headrace import NotFound
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
position = dataloader.state_dict()["next_step"]
try:
    sequences = dataloader.loader.step(position).sequences
except NotFound as error:
    sys.exit(f"there is no step {position} to go on with: {error}")
if sequences != words.batch * words.accumulate:
    fitting = (
        f"--accumulate {sequences // words.batch}" if sequences % words.batch == 0 else f"--batch 1 --accumulate {sequences}"
    )
    sys.exit(f"a step of {words.stream} has {sequences} sequences, not {words.batch} × {words.accumulate}: say {fitting}")

batches = iter(dataloader)
for _ in range(words.steps):
    for inputs, labels in (next(batches) for _ in range(words.accumulate)):
        print({name: tuple(tensor.shape) for name, tensor in inputs.items()}, tuple(labels.shape), int((labels != -100).sum()))
dcp.save({"dataloader": dataloader}, checkpoint_id=words.checkpoint)
print(f"next step: {dataloader.state_dict()['next_step']}")
dataloader.close()
