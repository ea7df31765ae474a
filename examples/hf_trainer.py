"""The Hugging Face Trainer on a stream.

    python examples/hf_trainer.py STREAM --batch 4 --accumulate 2

A step of the stream is one of the optimizer, so a process's share of a step must be --batch × --accumulate sequences: 8 of a
stream with `step: {sequences: 8}` in its recipe, and one process; the first steps of the guide have 16, which is --accumulate 4.
Anything else is refused with the right number before the first step.

Start it again, and it goes on after its last checkpoint. With torchrun, several processes share the steps.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import transformers

from headrace.torch import Loader
from headrace.torch.huggingface import Trainer

parser = argparse.ArgumentParser()
parser.add_argument("stream", help="a packed stream: s3://bucket/prefix or a folder")
parser.add_argument("--output", default="hf-out")
parser.add_argument("--steps", type=int, default=-1)
parser.add_argument("--batch", type=int, default=4, help="sequences in a batch")
parser.add_argument("--accumulate", type=int, default=2, help="batches that a rank's share of a step makes")
words = parser.parse_args()

transformers.set_seed(0)
small = transformers.LlamaConfig(
    vocab_size=65536, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4
)
trainer = Trainer(
    model=transformers.LlamaForCausalLM(small),
    args=transformers.TrainingArguments(
        output_dir=words.output,
        per_device_train_batch_size=words.batch,
        gradient_accumulation_steps=words.accumulate,
        max_steps=words.steps,
        num_train_epochs=1,
        save_steps=2,
        save_total_limit=2,
        logging_steps=1,
        report_to=[],
        use_cpu=not torch.cuda.is_available(),
    ),
    stream=Loader(words.stream, format="hf"),
)
trainer.train(resume_from_checkpoint=any(Path(words.output).glob("checkpoint-*")) or None)
print(f"{trainer.state.global_step} steps")
