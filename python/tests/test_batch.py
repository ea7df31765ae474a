"""What a batch looks like, in every format, against a naive reading of the contract."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from packing import PackedStream, Sequence, boundaries, label_tokens, naive, write_packed

import headrace as hr


def of_rank(packed: PackedStream, number: int, rank: int, size: int) -> list[Sequence]:
    lanes = len(packed.steps[number])
    return [s for lane in packed.steps[number][rank * lanes // size : (rank + 1) * lanes // size] for s in lane]


@pytest.mark.parametrize("rank_and_size", [(0, 1), (1, 3), (11, 12)])
def test_plain(packed: PackedStream, rank_and_size: tuple[int, int]) -> None:
    with hr.Loader(packed.uri, dp=rank_and_size) as loader:
        for step in loader:
            sequences = of_rank(packed, step.number, *rank_and_size)
            expected = naive(sequences)
            for name in ("tokens", "labels", "position_ids"):
                assert step[name].tolist() == expected[name], name
                assert not step[name].flags.writeable
            bounds = boundaries(sequences)
            assert step["cu_seqlens"].dtype == np.int32
            assert step["cu_seqlens"].tolist() == bounds
            assert step["max_seqlen"] == max(b - a for a, b in itertools.pairwise(bounds))
            assert type(step["max_seqlen"]) is int
            assert step["source"].tolist() == [d.source for s in sequences for d in s]
            assert step["source"].dtype == np.int16
            assert [bytes(row).decode() for row in step["id"]] == [d.id for s in sequences for d in s]
            assert list(step) == ["tokens", "labels", "position_ids", "cu_seqlens", "max_seqlen", "source", "loss_mask", "id"]
            everything = of_rank(packed, step.number, 0, 1)
            assert step.label_tokens == label_tokens(everything)
            for source in range(packed.sources):
                documents = [d for s in everything for d in s if d.source == source]
                assert step.sources[str(source)] == {"samples": len(documents), "tokens": sum(len(d.tokens) for d in documents)}


def test_hf_has_unshifted_labels(packed: PackedStream) -> None:
    with hr.Loader(packed.uri, format="hf", dp=(0, 2)) as loader:
        step = next(iter(loader))
        sequences = of_rank(packed, 0, 0, 2)
        expected = naive(sequences)
        assert step["input_ids"].tolist() == expected["tokens"]
        assert step["labels"].tolist() == expected["unshifted"]
        assert step["position_ids"].tolist() == expected["position_ids"]
        for side in "qk":
            assert step[f"cu_seq_lens_{side}"].tolist() == boundaries(sequences)
            assert step[f"max_length_{side}"] == int(np.diff(boundaries(sequences)).max())
        assert "tokens" not in list(step)
        # A model that shifts by itself comes to the labels of the plain format.
        shifted = np.concatenate([step["labels"][:, 1:], np.full((len(sequences), 1), -100)], axis=1)
        assert shifted.tolist() == expected["labels"]


def test_torchtitan(packed: PackedStream) -> None:
    with hr.Loader(packed.uri, format="torchtitan") as loader:
        step = next(iter(loader))
        expected = naive(of_rank(packed, 0, 0, 1))
        assert step["input"].tolist() == expected["tokens"]
        assert step["labels"].tolist() == expected["labels"]
        assert step["positions"].tolist() == expected["position_ids"]


def test_megatron_adds_a_loss_mask_and_what_packed_seq_params_wants(packed: PackedStream) -> None:
    with hr.Loader(packed.uri, format="megatron") as loader:
        step = next(iter(loader))
        expected = naive(of_rank(packed, 0, 0, 1))
        assert step["tokens"].tolist() == expected["tokens"]
        assert step["labels"].tolist() == expected["labels"]
        assert step["loss_mask"].dtype == np.float32
        assert step["loss_mask"].tolist() == [[float(label != -100) for label in row] for row in expected["labels"]]
        params = step["packed_seq_params"]
        assert params["qkv_format"] == "thd"
        assert params["cu_seqlens_q"].tolist() == boundaries(of_rank(packed, 0, 0, 1))
        assert params["max_seqlen_kv"] == step["max_seqlen"]


@pytest.mark.parametrize("given", [{"sequences": 1}, {"sequences": 4}, {"sequences": 5}, {"tokens": 96}, {"sequences": 100}])
def test_micro_batches_are_the_step_in_pieces(packed: PackedStream, given: dict[str, int]) -> None:
    size = given.get("sequences") or given["tokens"] // 32
    counts = set()
    for rank in range(3):
        with hr.Loader(packed.uri, dp=(rank, 3)) as loader:
            step = next(iter(loader))
            sequences = of_rank(packed, 0, rank, 3)
            micros = list(step.micro_batches(**given))
            counts.add(len(micros))
            assert [micro.is_last for micro in micros] == [False] * (len(micros) - 1) + [True]
            for i, micro in enumerate(micros):
                mine = sequences[i * size : (i + 1) * size]
                assert micro.sequences == len(mine)
                expected = naive(mine)
                for name in ("tokens", "labels", "position_ids"):
                    assert micro[name].tolist() == expected[name]
                assert micro["cu_seqlens"].tolist() == boundaries(mine)
                assert micro["max_seqlen"] == int(np.diff(boundaries(mine)).max())
                assert micro["source"].tolist() == [d.source for s in mine for d in s]
                assert [bytes(row).decode() for row in micro["id"]] == [d.id for s in mine for d in s]
    assert len(counts) == 1


def test_lanes_have_the_same_names(packed: PackedStream) -> None:
    with hr.Loader(packed.uri, dp=(1, 3)) as loader:
        step = next(iter(loader))
        for lane in step.lanes():
            expected = naive(packed.steps[0][lane.number])
            assert lane["tokens"].tolist() == expected["tokens"]
            assert lane["labels"].tolist() == expected["labels"]
            assert lane["cu_seqlens"].tolist() == boundaries(packed.steps[0][lane.number])
            assert list(lane) == list(step)


def _at(loader: hr.Loader) -> int:
    return loader.state_dict()["next_step"]


def test_the_state_moves_with_the_last_micro_batch(packed: PackedStream) -> None:
    with hr.Loader(packed.uri, dp=(0, 1)) as loader:
        steps = iter(loader)
        first = next(steps)
        assert _at(loader) == 1
        pieces = first.micro_batches(sequences=1)
        assert _at(loader) == 0
        for micro in pieces:
            assert _at(loader) == (1 if micro.is_last else 0)
        assert _at(loader) == 1
        # Asking for the next step settles the one before, and what is done with that one later changes nothing.
        next(first.micro_batches(sequences=1))
        second = next(steps)
        assert _at(loader) == 2
        next(first.micro_batches(sequences=1))
        assert _at(loader) == 2
        next(second.micro_batches(sequences=1))
        loader.pin("inside")
        assert (_at(loader), loader.pins()["inside"]) == (1, 1)
        # A step that is looked at has no turn.
        next(loader.step(0).micro_batches(sequences=1))
        assert _at(loader) == 1
        loader.seek(1)
        assert _at(loader) == 1
        third = next(steps)
        third.micro_batches(sequences=1)
        with hr.Loader(packed.uri, dp=(0, 1)) as resumed:
            resumed.load_state_dict(loader.state_dict())
            assert next(iter(resumed)).number == third.number
        loader.seek(2)
        assert _at(loader) == 2


def test_with_manual_acks_micro_batches_move_nothing(packed: PackedStream) -> None:
    with hr.Loader(packed.uri, dp=(0, 1), ack="manual") as loader:
        step = next(iter(loader))
        next(step.micro_batches(sequences=1))
        loader.done(0)
        assert _at(loader) == 1


def test_micro_batches_say_what_they_need(packed: PackedStream, numbers: str) -> None:
    with hr.Loader(packed.uri) as loader:
        step = next(iter(loader))
        for wrong in ({}, {"sequences": 1, "tokens": 32}, {"tokens": 31}, {"sequences": 0}):
            with pytest.raises(hr.InvalidArgument):
                list(step.micro_batches(**wrong))
        with pytest.raises(KeyError, match="a batch has tokens, labels"):
            step["tokenz"]
    with hr.Loader(numbers) as loader, pytest.raises(hr.Unsupported):
        list(next(iter(loader)).micro_batches(sequences=1))


def test_wrong_words_are_refused(packed: PackedStream, numbers: str) -> None:
    for words in ({"format": "jax"}, {"cp": "half"}, {"role": "test"}, {"ack": "later"}, {"window": "many"}, {"timeout": -1}):
        with pytest.raises(hr.InvalidArgument):
            hr.Loader(packed.uri, **words)
    with pytest.raises(hr.InvalidArgument, match="not packed"):
        hr.Loader(numbers, format="hf")
    with (
        hr.Loader(packed.uri, mesh={"cp": (0, 3)}, cp="contiguous") as loader,
        pytest.raises(hr.InvalidArgument, match="32 tokens"),
    ):
        next(iter(loader))["tokens"]


def test_any_columns(tmp_path) -> None:  # noqa: ANN001
    columns = {"image": "uint8", "score": np.float32, "boxes": "ragged:int32", "text": bytes, "half": "bfloat16", "flag": "bool"}
    with hr.Writer(str(tmp_path / "s"), lanes=2, columns=columns, probe=False, compress=True) as writer:
        image = np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3)
        boxes = [[1, 2], [], [3], [4, 5, 6]]
        text = ["a", b"bc", "", "dä"]
        bits = np.array([1, 2, 3, 4], np.uint16)
        step = {"image": image, "score": [0.5, 1.5, 2.5, 3.5], "boxes": boxes, "text": text, "half": bits, "flag": [1, 0, 1, 1]}
        writer.append(step)
        with pytest.raises(hr.InvalidArgument, match="image missing"):
            writer.append({name: value for name, value in step.items() if name != "image"})
        with pytest.raises(hr.InvalidArgument, match="evenly"):
            writer.append({**step, "score": [1.0, 2.0, 3.0]})
        with pytest.raises(hr.InvalidArgument, match="does not fit"):
            writer.append({**step, "image": image.astype(int) - 1})
        writer.seal()
    with hr.Loader(str(tmp_path / "s")) as loader:
        (got,) = list(loader)
        assert np.array_equal(got["image"], image)
        assert got["score"].dtype == np.float32
        assert got["score"].tolist() == [0.5, 1.5, 2.5, 3.5]
        assert [row.tolist() for row in got["boxes"]] == boxes
        assert got["boxes"][-1].tolist() == [4, 5, 6]
        assert got["boxes"].offsets.tolist() == [0, 2, 2, 3, 6]
        assert got["boxes"].values.tolist() == [1, 2, 3, 4, 5, 6]
        assert [bytes(row) for row in got["text"]] == [b"a", b"bc", b"", "dä".encode()]
        assert all(isinstance(row, memoryview) and row.readonly for row in got["text"])
        assert got["half"].tolist() == [1, 2, 3, 4]
        assert loader.columns["half"].dtype == "bfloat16"
        assert got["flag"].dtype == bool
        second = list(got.lanes())[1]
        assert [row.tolist() for row in second["boxes"]] == boxes[2:]


def test_a_writer_refuses_what_is_no_packed_batch(tmp_path) -> None:  # noqa: ANN001
    with hr.Writer(str(tmp_path / "s"), lanes=1, columns={"tokens": "int32", "cu_seqlens": "int32"}, probe=False) as writer:
        with pytest.raises(hr.InvalidArgument, match="over the end of a sequence"):
            writer.append({"tokens": [[1, 2], [3, 4]], "cu_seqlens": [0, 3, 4]})
        writer.append({"tokens": [[1, 2], [3, 4]], "cu_seqlens": [0, 2, 3, 4]})
        writer.seal()
    with hr.Loader(str(tmp_path / "s")) as loader:
        (step,) = list(loader)
        assert step["labels"].tolist() == [[2, -100], [-100, -100]]
        assert step.label_tokens == 1
        assert step.sources == {}


def test_the_first_batch_is_the_same_whichever_window(tmp_path) -> None:  # noqa: ANN001
    packed = write_packed(tmp_path / "s", steps=4, lanes=2)
    with hr.Loader(packed.uri, window=1) as small, hr.Loader(packed.uri, window="1GiB") as large:
        for a, b in zip(small, large, strict=True):
            assert np.array_equal(a["tokens"], b["tokens"])
