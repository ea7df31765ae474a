"""Data-parallel training from a stream, which can be stopped at any moment and goes on with any number of processes.

    torchrun --nproc-per-node 2 examples/torch_ddp.py STREAM

Stop it (Ctrl-C, kill -9) and start it again with another --nproc-per-node: it goes on after the last checkpoint, with the same
samples in every step.
"""

from __future__ import annotations

import argparse
import logging

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn import functional

from headrace.torch import Checkpoints, Loader

logging.basicConfig(level=logging.INFO, format="%(message)s")
parser = argparse.ArgumentParser()
parser.add_argument("stream", help="a packed stream: s3://bucket/prefix or a folder")
parser.add_argument("--checkpoints", default="checkpoints")
parser.add_argument("--every", type=int, default=5, help="steps between checkpoints")
parser.add_argument("--vocabulary", type=int, default=65536)
words = parser.parse_args()

cuda = torch.cuda.is_available()
dist.init_process_group("nccl" if cuda else "gloo")
device = torch.device("cuda", dist.get_node_local_rank()) if cuda else torch.device("cpu")
torch.manual_seed(0)
# Any model will do; this one guesses the next token from the last.
model = torch.nn.Sequential(torch.nn.Embedding(words.vocabulary, 32), torch.nn.Linear(32, words.vocabulary)).to(device)
parallel = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

loader = Loader(words.stream, mesh=dist.group.WORLD, device=device)
checkpoints = Checkpoints(loader, words.checkpoints, keep_last=2)


class Training:
    """Model and optimizer as torch.distributed.checkpoint saves and loads them.

    A new optimizer has no moments that a checkpoint could be loaded into: `optimizer.state_dict()` would leave them out without
    a word. `get_state_dict` makes them first.
    """

    def state_dict(self) -> dict:
        of_model, of_optimizer = get_state_dict(model, optimizer)
        return {"model": of_model, "optimizer": of_optimizer}

    def load_state_dict(self, state: dict) -> None:
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


everything = {"training": Training(), "data": loader}
checkpoints.load(everything)

for step in loader:
    whole = torch.zeros((), device=device)
    for micro in step.micro_batches(sequences=4):
        logits = parallel(micro["tokens"])
        loss = functional.cross_entropy(logits.flatten(0, 1), micro["labels"].flatten(), reduction="sum")
        # DDP takes the mean over ranks: this makes it the mean over all labels of the global batch.
        (loss * dist.get_world_size() / step.label_tokens).backward()
        whole += loss.detach() / step.label_tokens
    optimizer.step()
    optimizer.zero_grad()
    dist.all_reduce(whole)
    if dist.get_rank() == 0:
        print(f"step {step.number}: loss {whole.item():.3f}", flush=True)
    if (step.number + 1) % words.every == 0:
        checkpoints.save(everything)

loader.close()
dist.destroy_process_group()
