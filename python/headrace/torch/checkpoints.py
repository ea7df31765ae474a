"""Checkpoints of model and data together, and the stream held for as long as they can be resumed.

A checkpoint pins the stream when it is on disk, not before, and lets go of it when it is deleted, not before. In between the
job's own hold or an older pin covers it, so there is no moment at which a checkpoint exists whose steps may be reclaimed.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch.distributed as dist

from headrace.errors import InvalidArgument, NotFound
from headrace.loader import Loader


class Checkpoints:
    """A folder of `torch.distributed.checkpoint` checkpoints, one for each step at which `save` was called.

        checkpoints = Checkpoints(loader, "checkpoints", keep_last=3)
        checkpoints.load({"model": …, "data": loader})      # the newest, if there is one
        for step in loader:
            …
            if step.number % 1000 == 999:
                checkpoints.save({"model": …, "data": loader})

    An optimizer is saved by `torch.distributed.checkpoint.state_dict.get_state_dict`: `optimizer.state_dict()` of a new one has
    no moments, and `load` fills only what it is given. All ranks call `save` and `load` together. Programs that write
    checkpoints in another way call `written` and `deleted`, or `follow`.

    Args:
        loader: whose stream is pinned.
        folder: where the checkpoints are.
        name: what a checkpoint's folder and pin are called, before the number of its next step.
        keep_last: delete all but the so many that were written last, after each save.
    """

    def __init__(self, loader: Loader, folder: str | Path, *, name: str = "checkpoint-", keep_last: int | None = None) -> None:
        if keep_last is not None and keep_last < 1:
            raise InvalidArgument(f"keep_last={keep_last}: at least the checkpoint that was just written stays")
        self.loader = loader
        self.folder = Path(folder)
        self.name = name
        self.keep_last = keep_last
        self._saving: Future[Path] | None = None
        self._id: str | None = None

    # --- With torch.distributed.checkpoint -------------------------------------------------------------------------------

    def save(self, state: Mapping[str, Any]) -> Path:
        """Writes a checkpoint, pins the stream for it, and deletes old ones. Back when it is durable."""
        import torch.distributed.checkpoint as dcp

        self.wait()
        step = self._check(state)
        path = self.path(step)
        dcp.save(dict(state), checkpoint_id=str(path))
        self._settled(path.name, step)
        return path

    def async_save(self, state: Mapping[str, Any]) -> Future[Path]:
        """The same in the background: the state is taken now, and the future is done when it is durable and pinned."""
        import torch.distributed.checkpoint as dcp

        self.wait()
        step = self._check(state)
        path = self.path(step)
        saving = dcp.async_save(dict(state), checkpoint_id=str(path))
        settled: Future[Path] = Future()

        def settle(done: Future[Any]) -> None:
            try:
                done.result()
                self._settled(path.name, step)
                settled.set_result(path)
            except BaseException as error:
                settled.set_exception(error)

        getattr(saving, "upload_completion", saving).add_done_callback(settle)
        self._saving = settled
        return settled

    def wait(self) -> None:
        """Until the save in the background has ended; raises what went wrong with it."""
        saving, self._saving = self._saving, None
        if saving is not None:
            saving.result()

    def load(self, state: Mapping[str, Any], step: int | None = None) -> int | None:
        """Loads the newest checkpoint (or that of `step`) into `state`. The step at which it goes on; None if there is none."""
        import torch.distributed.checkpoint as dcp

        if step is None:
            step = self.newest()
            if step is None:
                return None
        path = self.path(step)
        if not _is_whole(path):
            raise NotFound(f"there is no checkpoint {path}: the folder has {', '.join(map(str, self.steps())) or 'none'}")
        dcp.load(dict(state), checkpoint_id=str(path))
        return step

    # --- What is there ---------------------------------------------------------------------------------------------------

    def path(self, step: int) -> Path:
        return self.folder / f"{self.name}{step}"

    def steps(self) -> list[int]:
        """The next steps of all checkpoints that are whole."""
        found = []
        for path in self.folder.glob(f"{self.name}*") if self.folder.is_dir() else ():
            number = re.fullmatch(re.escape(self.name) + r"(\d+)", path.name)
            if number and _is_whole(path):
                found.append(int(number[1]))
        return sorted(found)

    def newest(self) -> int | None:
        steps = self.steps()
        return steps[-1] if steps else None

    # --- Pins ------------------------------------------------------------------------------------------------------------

    def pin_name(self, name: str) -> str:
        """The pin of a checkpoint in this folder; other jobs on the same stream may have checkpoints of the same name."""
        if self._id is None:
            mark = self.folder / ".headrace-pins"
            if not mark.exists():
                self.folder.mkdir(parents=True, exist_ok=True)
                mark.write_text(secrets.token_hex(4) + "\n")
            self._id = mark.read_text().strip()
        return f"{name}.{self._id}"

    def written(self, name: str, step: int) -> None:
        """A checkpoint of this name that goes on at `step` is durable now: holds the stream for it."""
        if _speaks():
            self.loader.pin(self.pin_name(name), step)

    def deleted(self, name: str) -> None:
        """A checkpoint of this name is gone: lets go of the stream."""
        if _speaks():
            self.loader.unpin(self.pin_name(name))

    def follow(self) -> list[str]:
        """Lets go of the stream for every checkpoint that is no longer in the folder, whoever deleted it; their names."""
        if not _speaks():
            return []
        mark = self.pin_name("")
        ours = [pin.removesuffix(mark) for pin in self.loader.pins() if pin.endswith(mark)]
        gone = [name for name in ours if not (self.folder / name).exists()]
        for name in gone:
            self.deleted(name)
        return gone

    def _check(self, state: Mapping[str, Any]) -> int:
        if not any(value is self.loader for value in state.values()):
            raise InvalidArgument('the loader is not in what is to be saved: {"model": …, "data": loader}')
        return self.loader.state_dict()["next_step"]

    def _settled(self, name: str, step: int) -> None:
        if not _speaks():
            return
        self.written(name, step)
        if self.keep_last is not None:
            # Those that were written last: after a job went back, the ones of the steps that it left are the old ones.
            written = sorted(self.steps(), key=lambda at: (at == step, (self.path(at) / ".metadata").stat().st_mtime_ns, at))
            for old in written[: -self.keep_last]:
                # First the part that makes it a checkpoint: a half-deleted one must not look whole.
                path = self.path(old)
                (path / ".metadata").unlink(missing_ok=True)
                shutil.rmtree(path, ignore_errors=True)
        self.follow()


def _is_whole(path: Path) -> bool:
    # torch writes it last.
    return (path / ".metadata").is_file()


def _speaks() -> bool:
    """One process of the job pins for all."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank() == 0
    return int(os.environ.get("RANK", "0")) == 0
