"""headrace.torch in one process: tensors, their types and memory, state, checkpoints, and what a DataLoader does around it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packing import PackedStream, boundaries, naive, write_numbers

import headrace as hr

torch = pytest.importorskip("torch", reason="TORCH IS NOT INSTALLED: what needs it is left out")

import torch.distributed.checkpoint as dcp  # noqa: E402

from headrace.torch import Checkpoints, Feed, Loader  # noqa: E402
from headrace.torch.broadcast import ReceivedStep  # noqa: E402
from headrace.torch.tensors import DeviceTensors, view_of  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture
def loader(packed: PackedStream) -> Iterator[Loader]:
    with Loader(packed.uri, dp=(1, 3)) as opened:
        yield opened


def rows(packed: PackedStream, step: int, first: int, end: int) -> list[Any]:
    return [sequence for lane in packed.steps[step][first:end] for sequence in lane]


def test_tensors_have_what_the_documents_say(packed: PackedStream, loader: Loader) -> None:
    for number, step in enumerate(loader):
        expected = naive(rows(packed, number, 4, 8))
        for name in ("tokens", "labels", "position_ids"):
            assert step[name].dtype == torch.int64
            assert step[name].tolist() == expected[name]
        assert step["cu_seqlens"].dtype == torch.int32
        assert step["cu_seqlens"].tolist() == boundaries(rows(packed, number, 4, 8))
        assert step["source"].dtype == torch.int16
        assert isinstance(step["max_seqlen"], int)
        assert bytes(step["id"][0]).startswith(f"{number}-4-0-0".encode()) or bytes(step["id"][0]) == b""
        assert step.label_tokens == step.arrays.label_tokens
        assert set(step) == {
            "tokens", "labels", "position_ids", "cu_seqlens", "max_seqlen", "source", "loss_mask", "id",
        }  # fmt: skip


def test_copies_may_be_written_to_and_views_share_memory(packed: PackedStream, loader: Loader) -> None:
    step = next(iter(loader))
    before = step.arrays["tokens"].copy()
    step["tokens"].fill_(7)
    assert (step.arrays["tokens"] == before).all()
    with Loader(packed.uri, dp=(0, 12), views=True) as views:
        shown = next(iter(views))
        tokens = shown["tokens"]
        assert tokens.dtype == torch.uint16
        assert tokens.data_ptr() == shown.arrays["tokens"].ctypes.data
        kept = tokens.to(torch.int64).tolist()
    del shown, views
    assert tokens.to(torch.int64).tolist() == kept == naive(rows(packed, 0, 0, 1))["tokens"]


def test_views_are_of_every_type_and_of_parts(tmp_path: Path) -> None:
    kinds = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bool"]
    written = {kind: (np.arange(48).reshape(4, 3, 4) % 3).astype(kind) for kind in kinds}
    with hr.Writer(str(tmp_path / "s"), lanes=4, columns={kind: kind for kind in kinds}, probe=False) as writer:
        writer.append(written)
    with Loader(str(tmp_path / "s"), views=True, dp=(0, 1)) as loader:
        step = next(iter(loader))
    for kind in kinds:
        array, tensor = step.arrays[kind], step[kind]
        assert str(tensor.dtype) == f"torch.{kind}"
        assert tensor.numpy().tolist() == array.tolist() == written[kind].tolist()
        assert tensor.data_ptr() == array.ctypes.data
        for part in (array[1:], array[:, 1], array.T, array.reshape(-1), array.view(np.uint8), array[:1, :1, :1]):
            assert view_of(part).numpy().tolist() == part.tolist()
            assert view_of(part).data_ptr() == part.ctypes.data


def test_views_are_for_the_host(packed: PackedStream) -> None:
    with pytest.raises(hr.InvalidArgument, match="on the host"):
        Loader(packed.uri, views=True, device="meta")


def test_lanes_and_micro_batches_are_tensors(packed: PackedStream, loader: Loader) -> None:
    step = next(iter(loader))
    assert [lane.number for lane in step.lanes()] == [4, 5, 6, 7]
    assert torch.cat([lane["tokens"] for lane in step.lanes()]).equal(step["tokens"])
    micros = list(step.micro_batches(sequences=3))
    assert [micro.is_last for micro in micros] == [False, False, True]
    assert torch.cat([micro["labels"] for micro in micros]).equal(step["labels"])
    assert all(int(micro["cu_seqlens"][-1]) == micro["tokens"].numel() for micro in micros)


def test_one_copy_brings_everything_to_a_device(packed: PackedStream) -> None:
    """What a GPU would get, on the one device that is always there."""
    for format in ("plain", "hf", "torchtitan", "megatron"):
        with Loader(packed.uri, dp=(0, 3), format=format) as host:
            step = next(iter(host))
            layout = step.arrays._layout
            made = DeviceTensors(layout.columns, torch.device("cpu")).make(
                {inner: step.arrays._get(inner) for inner in layout.names.values()}
            )
            for name, inner in layout.names.items():
                mine, theirs = made[inner], step[name]
                if isinstance(theirs, torch.Tensor):
                    assert mine.dtype == theirs.dtype, name
                    assert mine.equal(theirs), name
            if format == "megatron":
                assert made["packed_seq_params"]["cu_seqlens_q"].equal(made["cu_seqlens"])


def test_ragged_and_odd_types_become_tensors(tmp_path: Path) -> None:
    columns = {"x": "ragged:uint16", "b": "bfloat16", "text": "bytes", "u": "uint32"}
    with hr.Writer(str(tmp_path / "s"), lanes=2, columns=columns, probe=False) as writer:
        writer.append(
            {"x": [[1, 2, 3], [65535]], "b": np.array([0x3F80, 0x4000], np.uint16), "text": ["a", "bc"], "u": [1, 2**32 - 1]}
        )
        writer.seal()
    with Loader(str(tmp_path / "s")) as loader:
        step = next(iter(loader))
        assert [row.tolist() for row in step["x"]] == [[1, 2, 3], [65535]]
        assert step["x"].offsets.tolist() == [0, 3, 4]
        assert step["b"].dtype == torch.bfloat16
        assert step["b"].tolist() == [1.0, 2.0]
        assert [bytes(row) for row in step["text"]] == [b"a", b"bc"]
        assert step["u"].tolist() == [1, 2**32 - 1]
        whole = {name: step.arrays._get(name) for name in ("x", "b", "u")}
        moved = DeviceTensors(loader.columns, torch.device("cpu")).make(whole)
        assert moved["b"].equal(step["b"])
        assert moved["x"].values.equal(step["x"].values)


@pytest.mark.parametrize("dp", [(0, 1), (1, 4), (11, 12)])
def test_what_a_peer_sent_answers_like_what_was_read(packed: PackedStream, dp: tuple[int, int]) -> None:
    """Labels and positions of a step that came through torch.distributed are made in Python: the same as in C++."""
    with hr.Loader(packed.uri, dp=dp) as loader:
        for step in loader:
            core, stored = step._core, sum(1 if c.kind == "array" else 2 for c in loader.columns.values())
            arrays = [core.column(i, lane, lane + 1) for lane in range(core.lane_count) for i in range(stored)]
            places, body = [], b""
            for array in arrays:
                places.append([array.dtype.str, list(array.shape), len(body)])
                body += array.tobytes()
                body += b"\0" * (-len(body) % 16)
            about = {"number": step.number, "mixture": 0, "first_lane": core.first_lane, "lane_count": core.lane_count}
            received = ReceivedStep({**about, "arrays": places}, np.frombuffer(body, np.uint8), step._layout)
            for lanes in [(0, core.lane_count), (core.lane_count - 1, core.lane_count)]:
                for ask, *more in (("labels", True), ("labels", False), ("positions",), ("cu_seqlens",)):
                    mine, theirs = getattr(received, ask)(*lanes, *more), getattr(core, ask)(*lanes, *more)
                    assert mine.dtype == theirs.dtype
                    assert np.array_equal(mine, theirs)


# --- State ---------------------------------------------------------------------------------------------------------------


def test_a_distributed_checkpoint_takes_the_loader_as_it_is(packed: PackedStream, tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    with Loader(packed.uri) as loader:
        assert isinstance(loader, dcp.stateful.Stateful)
        steps = iter(loader)
        next(steps)
        loader.skip(range(2, 4))
        next(steps)
        dcp.save({"model": model.state_dict(), "data": loader}, checkpoint_id=str(tmp_path / "c"))
        state = loader.state_dict()
        assert json.loads(json.dumps(state)) == state
    with Loader(packed.uri, dp=(2, 4)) as again:
        dcp.load({"model": model.state_dict(), "data": again}, checkpoint_id=str(tmp_path / "c"))
        assert again.state_dict() == state
        assert [step.number for step in again] == [4, 5]
        with pytest.raises(hr.InvalidArgument, match="seek"):
            dcp.load({"data": again}, checkpoint_id=str(tmp_path / "c"))


def test_an_asynchronous_save_has_the_state_of_its_call(packed: PackedStream, tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    with Loader(packed.uri) as loader:
        steps = iter(loader)
        next(steps)
        checkpoints = Checkpoints(loader, tmp_path / "c")
        saving = checkpoints.async_save({"model": model.state_dict(), "data": loader})
        next(steps)
        next(steps)
        assert saving.result() == tmp_path / "c" / "checkpoint-1"
        assert checkpoints.steps() == [1]
        assert loader.pins()[checkpoints.pin_name("checkpoint-1")] == 1
        checkpoints.deleted("checkpoint-1")
    with Loader(packed.uri) as again:
        assert Checkpoints(again, tmp_path / "c").load({"model": model.state_dict(), "data": again}) == 1
        assert next(iter(again)).number == 1


def test_going_back_does_not_delete_the_checkpoint_just_written(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 6)
    with Loader(uri) as loader:
        checkpoints = Checkpoints(loader, tmp_path / "c", keep_last=2)
        for at in (2, 5, 3):
            loader.seek(at)
            checkpoints.save({"data": loader})
        assert checkpoints.steps() == [3, 5]
        checkpoints.keep_last = 1
        loader.seek(4)
        checkpoints.save({"data": loader})
        assert checkpoints.steps() == [4]
        assert loader.pins() == {checkpoints.pin_name("checkpoint-4"): 4}


def test_the_newest_checkpoint_is_the_one_that_was_written_last(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 6)
    with Loader(uri) as loader:
        checkpoints = Checkpoints(loader, tmp_path / "c")
        for at in (2, 5, 3):
            loader.seek(at)
            checkpoints.save({"data": loader})
        assert checkpoints.newest() == 3
        # What an earlier version left has no record: before those that have one, the highest step last.
        loader.seek(6)
        dcp.save({"data": loader}, checkpoint_id=str(checkpoints.path(6)))
        assert checkpoints.newest() == 3
        # A copy has other times, and here the wrong way round.
        shutil.copytree(tmp_path / "c", tmp_path / "copy", copy_function=shutil.copyfile)
        for age, at in enumerate((5, 2, 3)):
            os.utime(tmp_path / "copy" / f"checkpoint-{at}" / ".metadata", (1e9 - age, 1e9 - age))
    with Loader(uri) as again:
        copied = Checkpoints(again, tmp_path / "copy")
        assert copied.load({"data": again}) == 3
        assert next(iter(again)).number == 3
        # The same step once more comes last again.
        again.seek(5)
        copied.save({"data": again})
        assert copied.newest() == 5
        for record in (tmp_path / "copy").glob("*/.headrace-order"):
            record.unlink()
        assert copied.newest() == 6


def test_a_checkpoint_that_is_half_written_over_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = write_numbers(tmp_path / "s", 6)
    with Loader(uri) as loader:
        checkpoints = Checkpoints(loader, tmp_path / "c")
        for at in (2, 5):
            loader.seek(at)
            checkpoints.save({"data": loader})

        def die(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(dcp, "save", die)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.save({"data": loader})
        assert checkpoints.steps() == [2]
        assert checkpoints.newest() == 2


def test_pins_follow_the_checkpoints_that_are_there(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 6)
    model = torch.nn.Linear(2, 2)
    with Loader(uri) as loader:
        checkpoints = Checkpoints(loader, tmp_path / "c", keep_last=2)
        assert checkpoints.load({"model": model.state_dict(), "data": loader}) is None
        for _ in loader:
            checkpoints.save({"model": model.state_dict(), "data": loader})
        assert checkpoints.steps() == [5, 6]
        assert loader.pins() == {checkpoints.pin_name("checkpoint-5"): 5, checkpoints.pin_name("checkpoint-6"): 6}
        # Another job on the same stream has its own.
        other = Checkpoints(loader, tmp_path / "other", keep_last=1)
        other.save({"model": model.state_dict(), "data": loader})
        assert len(loader.pins()) == 3
        assert other.follow() == []
        other.deleted("checkpoint-6")
        assert len(loader.pins()) == 2
        # One that is not whole is none.
        (checkpoints.path(6) / ".metadata").unlink()
        assert checkpoints.newest() == 5
        checkpoints.path(6).rename(tmp_path / "gone")
        assert checkpoints.follow() == ["checkpoint-6"]
        with pytest.raises(hr.InvalidArgument, match="not in what is to be saved"):
            checkpoints.save({"model": model.state_dict()})
        with pytest.raises(hr.NotFound, match="has 5"):
            checkpoints.load({"data": loader}, step=4)


# --- What others put around it -------------------------------------------------------------------------------------------


def test_a_dataloader_without_workers_is_right_and_with_workers_refused(packed: PackedStream) -> None:
    with Loader(packed.uri, dp=(0, 4)) as loader:
        batches = list(torch.utils.data.DataLoader(loader, batch_size=None))
    with Loader(packed.uri, dp=(0, 4)) as loader:
        assert [batch["tokens"].tolist() for batch in batches] == [step["tokens"].tolist() for step in loader]
    with Loader(packed.uri) as loader:
        with pytest.raises(Exception, match=r"num_workers=0"):
            list(torch.utils.data.DataLoader(loader, batch_size=None, num_workers=1, multiprocessing_context="fork"))
        with pytest.raises(TypeError, match=r"num_workers=0"):
            list(torch.utils.data.DataLoader(loader, batch_size=None, num_workers=1, multiprocessing_context="spawn"))
        assert loader.state_dict()["next_step"] == 0


def test_a_feed_counts_what_was_trained_on(packed: PackedStream) -> None:
    with Loader(packed.uri, dp=(0, 4)) as loader:  # 6 sequences per step
        feed = Feed(loader, sequences=3, per_step=2)
        assert len(feed) == 12
        batches = iter(feed)
        first = [next(batches)["tokens"].tolist() for _ in range(5)]  # fetched ahead
        assert feed.state_dict()["next_step"] == 0
        feed.trained()
        assert feed.state_dict()["next_step"] == 0
        feed.trained()
        assert feed.state_dict()["next_step"] == 1
        feed.trained()
        # The framework drops what it has fetched, and begins again: nothing of step 1 is lost.
        again = iter(feed)
        assert next(again)["tokens"].tolist() == first[2]
        feed.trained()
        with pytest.raises(hr.InvalidArgument, match="more often"):
            feed.trained()


def test_a_feed_refuses_steps_that_are_not_the_optimizers(packed: PackedStream) -> None:
    with Loader(packed.uri, dp=(0, 4)) as loader, pytest.raises(hr.InvalidArgument, match="make it 3"):
        next(iter(Feed(loader, sequences=2, per_step=2)))


def test_a_feed_takes_the_share_of_its_framework(packed: PackedStream) -> None:
    with Loader(packed.uri) as told_nothing:
        Feed(told_nothing).belongs_to(1, 3)
        assert told_nothing.mesh.dp == (1, 3)
    with Loader(packed.uri, mesh={"dp": (1, 2), "tp": (0, 2)}) as loader:
        Feed(loader).belongs_to(2, 4)
        assert loader.mesh.dp == (1, 2)
        with pytest.raises(hr.InvalidArgument, match="one of 4 processes"):
            Feed(loader).belongs_to(0, 1)


def test_the_state_moves_with_the_last_micro_batch(packed: PackedStream) -> None:
    with Loader(packed.uri, dp=(0, 1)) as loader:
        pieces = next(iter(loader)).micro_batches(sequences=1)
        assert loader.state_dict()["next_step"] == 0
        for micro in pieces:
            assert loader.state_dict()["next_step"] == (1 if micro.is_last else 0)


class _OpensItself(torch.utils.data.IterableDataset):
    def __init__(self, uri: str, kind: type, role: str) -> None:
        self.uri, self.kind, self.role = uri, kind, role

    def __iter__(self) -> Iterator[int]:
        with self.kind(self.uri, dp=(0, 1), role=self.role) as loader:
            for step in loader:
                yield step.number


class _LooksUp(torch.utils.data.Dataset):
    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.loader: hr.Loader | None = None

    def __len__(self) -> int:
        return 6

    def __getitem__(self, n: int) -> int:
        if self.loader is None:
            self.loader = hr.Loader(self.uri, dp=(0, 1), role="eval")
        return self.loader.step(n).number


@pytest.mark.parametrize(
    ("kind", "role", "workers"), [(hr.Loader, "train", 2), (Loader, "train", 1), (hr.Loader, "eval", 2), (Loader, "eval", 2)]
)
def test_workers_that_open_a_loader_themselves_are_refused(tmp_path: Path, kind: type, role: str, workers: int) -> None:
    uri = write_numbers(tmp_path / "s", 3)
    words = r"in worker \d of \d of a torch DataLoader.*num_workers=0"
    with pytest.raises(hr.InvalidArgument, match=words):
        list(torch.utils.data.DataLoader(_OpensItself(uri, kind, role), batch_size=None, num_workers=workers))
    assert list(torch.utils.data.DataLoader(_OpensItself(uri, kind, role), batch_size=None)) == [0, 1, 2]


def test_workers_may_look_steps_up(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 6)
    got = list(torch.utils.data.DataLoader(_LooksUp(uri), batch_size=None, num_workers=2))
    assert got == [0, 1, 2, 3, 4, 5]


def test_words_for_what_a_loader_is_not(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 3)
    with hr.Loader(uri) as loader, pytest.raises(TypeError, match=r"not for a torch DataLoader.*batch_size=None"):
        list(torch.utils.data.DataLoader(loader))
    with pytest.raises(TypeError, match="no argument 'devise': did you mean 'device'"):
        Loader(uri, devise="cpu")
    with pytest.raises(TypeError, match="no argument 'windw': did you mean 'window'"):
        Loader(uri, windw="1MB")
