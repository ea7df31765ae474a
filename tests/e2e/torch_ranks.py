"""What the ranks of a torch job do in the tests: processes of their own, with gloo between them."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional

import headrace as hr
from headrace.torch import Checkpoints, Loader

Report = list[dict[str, Any]]
VOCABULARY = 61


def run(what: Callable[..., Any], ranks: int, folder: Path, *words: Any, expect: int = 0) -> list[Any]:  # noqa: ANN401
    """`what(rank, ranks, *words)` in every rank of a new job; what each of them answered."""
    folder.mkdir(parents=True, exist_ok=True)
    # One process imports torch, and all ranks are forks of it before anything is opened.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["headrace.torch", "torch.distributed.checkpoint", "torch.nn.parallel"])
    processes = [context.Process(target=_rank, args=(what, rank, ranks, folder, *words)) for rank in range(ranks)]
    for process in processes:
        process.start()
    try:
        for process in processes:
            process.join(600)
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
    failed = [(folder / f"failed-{rank}").read_text() for rank in range(ranks) if (folder / f"failed-{rank}").exists()]
    assert not failed, "\n".join(failed)
    assert [process.exitcode for process in processes] == [expect] * ranks
    if expect:
        return []
    return [json.loads((folder / f"answer-{rank}").read_text()) for rank in range(ranks)]


def _rank(what: Callable[..., Any], rank: int, ranks: int, folder: Path, *words: Any) -> None:  # noqa: ANN401
    torch.set_num_threads(1)
    os.environ.pop("RANK", None)
    os.environ.pop("WORLD_SIZE", None)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # whatever the machine's name stands for
    try:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks)
        (folder / f"answer-{rank}").write_text(json.dumps(what(rank, ranks, *words)))
        dist.destroy_process_group()
    except BaseException:
        (folder / f"failed-{rank}").write_text(f"rank {rank}:\n{traceback.format_exc()}")
        os._exit(1)


class Transformer(torch.nn.Module):
    """Small, but everything is in it: embeddings, positions, attention inside documents."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, width)
        self.positions = torch.nn.Embedding(64, width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width))
        self.out = torch.nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(positions)
        documents = (positions == 0).cumsum(1)
        mask = (documents[:, :, None] == documents[:, None, :]).tril()
        q, k, v = self.qkv(x).chunk(3, -1)
        x = x + functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(x + self.mlp(x))


def samples_of(batch: Any) -> Iterator[str]:  # noqa: ANN401
    return (bytes(name).decode() for name in batch["id"] if len(name))


def train(
    rank: int, ranks: int, uri: str, folder: str, log: str, save_at: int | None = None, kill_at: int | None = None
) -> dict[str, Any]:
    """Trains on a stream with what a person would write, and writes down each step's loss and samples."""
    torch.manual_seed(17)
    model = torch.nn.parallel.DistributedDataParallel(Transformer())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loader = Loader(uri, mesh=dist.group.WORLD)
    checkpoints = Checkpoints(loader, folder)
    state = {"model": model.module.state_dict(), "data": loader}
    began = checkpoints.load(state)
    model.module.load_state_dict(state["model"])
    with (Path(log) / f"{ranks}-{rank}.jsonl").open("w") as report:
        for step in loader:
            if step.number == kill_at:
                # All at once: who hears of the death of another before its own would end otherwise.
                (Path(log) / f"dies-{rank}").touch()
                while len(list(Path(log).glob("dies-*"))) < ranks:
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)
            whole = 0.0
            for micro in step.micro_batches(sequences=1):
                logits = model(micro["tokens"] % VOCABULARY, micro["position_ids"])
                labels = torch.where(micro["labels"] >= 0, micro["labels"] % VOCABULARY, micro["labels"])
                total = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
                # DDP takes the mean over ranks; the loss is that of the whole step's labels.
                (total * ranks / step.label_tokens).backward()
                whole += total.item() / step.label_tokens
            optimizer.step()
            optimizer.zero_grad()
            loss = torch.tensor(whole)
            dist.all_reduce(loss)
            report.write(json.dumps({"step": step.number, "loss": loss.item(), "samples": list(samples_of(step))}) + "\n")
            report.flush()
            if step.number + 1 == save_at:
                checkpoints.save({"model": model.module.state_dict(), "data": loader})
    state_after = loader.state_dict()
    loader.close()
    return {"began": began, "state": state_after}


def reads_for_peers(rank: int, ranks: int, uri: str, format: str, cp: str) -> dict[str, Any]:
    """dp 2 × cp 2 × tp 2: only the first of cp and tp reads, and everybody must have what they would have read."""
    mesh = dist.init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp_shard", "cp", "tp"))
    at = {"dp": (rank // 4, 2), "cp": (rank // 2 % 2, 2), "tp": (rank % 2, 2)}
    compared = 0
    with (
        Loader(uri, mesh=mesh, broadcast_at=("cp", "tp"), format=format, cp=cp) as loader,
        hr.Loader(uri, mesh=at, format=format, cp=cp, role="eval") as alone,
    ):
        assert str(loader.mesh) == str(alone.mesh)
        for mine, theirs in zip(loader, alone, strict=True):
            pairs = [(mine, theirs), *zip(mine.micro_batches(sequences=2), theirs.micro_batches(sequences=2), strict=True)]
            for batch, expected in pairs:
                for name in expected:
                    value = batch[name]
                    if isinstance(value, torch.Tensor):
                        assert value.tolist() == expected[name].tolist(), name
                        compared += 1
            assert [lane.number for lane in mine.lanes()] == [lane.number for lane in theirs.lanes()]
            assert list(samples_of(mine)) == list(samples_of(theirs))
            assert loader.state_dict() == alone.state_dict()
            loader.report(mine.number, loss={"all": (torch.tensor(2.0 + at["cp"][0]), 1)})
        fetched = loader.stats()["fetched_bytes"]
    return {"compared": compared, "fetched": fetched}


def saves_in_background(rank: int, ranks: int, uri: str, folder: str) -> dict[str, Any]:
    """The state is that of the call, and the pin comes when all ranks have written."""
    model = torch.nn.Linear(4, 4)
    with Loader(uri, dp=(rank, ranks)) as loader:
        checkpoints = Checkpoints(loader, folder, keep_last=1)
        steps = iter(loader)
        for _ in range(3):
            next(steps)
            saving = checkpoints.async_save({"model": model.state_dict(), "data": loader})
        next(steps)  # while it is being written
        saving.result()
        dist.barrier()
        return {"kept": checkpoints.steps(), "pins": sorted(loader.pins().values())}


def fails_for_all(rank: int, ranks: int, uri: str) -> dict[str, Any]:
    """The rank that reads finds damage: its peers must hear of it instead of waiting."""
    with Loader(uri, mesh={"tp": (rank, ranks)}, broadcast_at="tp", groups={"tp": dist.group.WORLD}) as loader:
        seen = 0
        try:
            for _ in loader:
                seen += 1
        except hr.Corrupt as error:
            return {"seen": seen, "said": str(error), "state": loader.state_dict()["next_step"]}
    return {}


def meshes(rank: int, ranks: int, uri: str) -> dict[str, Any]:
    """Every way to say where a process stands."""
    found = {}
    for name, how in {
        "group": {"dp": dist.group.WORLD},
        "mesh": {"mesh": dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp_replicate", "dp_shard"))},
        "pure": {},
        "tp": {"mesh": dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("fsdp", "tp"))},
    }.items():
        with Loader(uri, **how) as loader:
            found[name] = str(loader.mesh)
    return found
