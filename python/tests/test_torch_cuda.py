"""What needs a real GPU: tensors that arrive on it, training beside the copies, a group that only moves what is on a device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from packing import PackedStream

import headrace as hr
from headrace.torch import Loader
from headrace.torch.broadcast import _broadcast

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: what needs one is left out")


@pytest.mark.parametrize("format", ["plain", "hf", "torchtitan", "megatron"])
def test_the_gpu_gets_what_the_host_gets(packed: PackedStream, format: str) -> None:
    with (
        Loader(packed.uri, dp=(0, 3), format=format) as host,
        Loader(packed.uri, dp=(0, 3), format=format, device="cuda") as there,
    ):
        for expected, step in zip(host, there, strict=True):
            assert set(step) == set(expected)
            for name in expected:
                if isinstance(expected[name], torch.Tensor):
                    assert step[name].is_cuda, name
                    assert step[name].dtype == expected[name].dtype, name
                    assert step[name].cpu().equal(expected[name]), name
            whole = [micro["labels"] for micro in step.micro_batches(sequences=1)]
            assert torch.cat(whole).cpu().equal(torch.cat([m["labels"] for m in expected.micro_batches(sequences=1)]))


def test_copies_beside_long_kernels_change_nothing(tmp_path: Path) -> None:
    """Memory that a kernel still reads, or a copy still writes, is not used again."""
    width, steps = 1 << 18, 60
    with hr.Writer(str(tmp_path / "s"), lanes=4, columns={"x": "int32"}, probe=False) as writer:
        for n in range(steps):
            writer.append({"x": np.arange(4 * width, dtype=np.int32).reshape(4, width) + n})
        writer.seal()
    base = torch.arange(4 * width, dtype=torch.int64, device="cuda").sum()
    slow = torch.randn(4096, 4096, device="cuda")
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    with Loader(str(tmp_path / "s"), device="cuda") as loader:
        for step in loader:
            x = step["x"]
            del step
            for _ in range(4):  # keeps the stream busy, so that the host is far ahead of what is computed
                slow = torch.tanh(slow @ slow)
            wrong += (x.to(torch.int64).sum() - base != 4 * width * (loader.state_dict()["next_step"] - 1)).to(torch.int64)
            del x
    assert int(wrong) == 0


@pytest.fixture
def nccl(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("nccl", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_group_that_moves_only_what_is_on_a_device_gets_it_there(nccl: None) -> None:
    sent = torch.arange(1000, dtype=torch.uint8)
    assert _broadcast(sent, dist.group.WORLD).equal(sent)
    assert _broadcast(torch.tensor([1, 2, 3]), dist.group.WORLD).tolist() == [1, 2, 3]


def test_a_model_is_trained_on_the_gpu_and_goes_on_where_it_was(packed: PackedStream, tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    def fresh() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Embedding(65536, 16), torch.nn.Linear(16, 65536)).cuda()
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    def train(loader: Loader, model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
        losses = []
        for step in loader:
            logits = model(step["tokens"]).flatten(0, 1)
            loss = torch.nn.functional.cross_entropy(logits, step["labels"].flatten(), ignore_index=-100)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == steps:
                break
        return losses

    model, optimizer = fresh()
    with Loader(packed.uri, device="cuda") as loader:
        expected = train(loader, model, optimizer, 6)
    model, optimizer = fresh()
    with Loader(packed.uri, device="cuda") as loader:
        first = train(loader, model, optimizer, 3)
        dcp.save({"model": model.state_dict(), "data": loader}, checkpoint_id=str(tmp_path / "ckpt"), no_dist=True)
    model, optimizer = fresh()
    with Loader(packed.uri, device="cuda") as loader:
        weights = model.state_dict()
        dcp.load({"model": weights, "data": loader}, checkpoint_id=str(tmp_path / "ckpt"), no_dist=True)
        model.load_state_dict(weights)
        rest = train(loader, model, optimizer, 3)
    assert first + rest == pytest.approx(expected, rel=1e-3)
