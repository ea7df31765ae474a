"""Checkpoints of model and data together, and the stream held for as long as they can be resumed.

A checkpoint pins the stream when it is on disk, not before, and lets go of it when it is deleted, not before. In between the
job's own hold or an older pin covers it, so there is no moment at which a checkpoint exists whose steps may be reclaimed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
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
        checkpoints.load({"model": …, "data": loader})      # the one that was written last, if there is one
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
        path = self._begin(step)
        dcp.save(dict(state), checkpoint_id=str(path))
        self._settled(path.name, step)
        return path

    def async_save(self, state: Mapping[str, Any]) -> Future[Path]:
        """The same in the background: the state is taken now, and the future is done when it is durable and pinned."""
        import torch.distributed.checkpoint as dcp

        self.wait()
        step = self._check(state)
        path = self._begin(step)
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
        """Loads the checkpoint that was written last (or that of `step`) into `state`.

        Returns the step at which it goes on; None if there is none."""
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
        """The next step of the checkpoint that was written last. After a job went back, that is not the highest one."""
        return max(self.steps(), key=self._order, default=None)

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

    def _begin(self, step: int) -> Path:
        """The folder for a checkpoint that comes after all that are there now, and is none before torch has written all of it."""
        path = self.path(step)
        if _speaks():
            # No rank writes before this one has joined the save. torch writes over what is there file by file, so an old
            # checkpoint of this step ends here: what a crash leaves is part of each.
            (path / ".metadata").unlink(missing_ok=True)
            path.mkdir(parents=True, exist_ok=True)
            last = max((_record(other)[0] for other in self.folder.glob(f"{self.name}*")), default=0)
            _write_durably(path / _ORDER, json.dumps({"sequence": last + 1, "time": time.time()}) + "\n")
        return path

    def _order(self, step: int) -> tuple[int, float, int]:
        """Ascending in the order in which checkpoints were written. One without a record is from before there were any, or was
        not written by `save`: before all others, by its step. Its files' times say when it was copied, as a rule."""
        return (*_record(self.path(step)), step)

    def _settled(self, name: str, step: int) -> None:
        if not _speaks():
            return
        self.written(name, step)
        if self.keep_last is not None:
            # Those that were written last: after a job went back, the ones of the steps that it left are the old ones.
            for old in sorted(self.steps(), key=self._order)[: -self.keep_last]:
                # First the part that makes it a checkpoint: a half-deleted one must not look whole.
                path = self.path(old)
                (path / ".metadata").unlink(missing_ok=True)
                shutil.rmtree(path, ignore_errors=True)
        self.follow()


_ORDER = ".headrace-order"


def _record(path: Path) -> tuple[int, float]:
    """The place of a checkpoint among those of its folder, and when it was begun, as it says itself; zeros if it does not."""
    try:
        record = json.loads((path / _ORDER).read_text())
        return int(record["sequence"]), float(record["time"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0, 0.0


def _write_durably(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _is_whole(path: Path) -> bool:
    # torch writes it last.
    return (path / ".metadata").is_file()


def _speaks() -> bool:
    """One process of the job pins for all."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank() == 0
    return int(os.environ.get("RANK", "0")) == 0
