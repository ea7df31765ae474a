"""format="torchtitan" and "megatron" against what these frameworks themselves do with the same documents."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packing import COLUMNS, Document, PackedStream, columns_of, write_packed

import headrace as hr

torch = pytest.importorskip("torch", reason="TORCH IS NOT INSTALLED: what needs it is left out")

import torch.distributed.checkpoint as dcp  # noqa: E402

from headrace.torch import Loader  # noqa: E402
from headrace.torch.torchtitan import DataLoader, dataloader_builder  # noqa: E402

pytestmark = pytest.mark.slow
EOD = 0


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> PackedStream:
    return write_packed(tmp_path_factory.mktemp("titan") / "stream", steps=5, lanes=4, sequences=2)


# --- torchtitan ----------------------------------------------------------------------------------------------------------


def titan_steps(dataloader: Any, accumulate: int, count: int) -> list[list[tuple[dict[str, Any], Any]]]:  # noqa: ANN401
    """As its trainer does: one iterator for all of training, several batches for each step, then perhaps a checkpoint."""
    data = iter(dataloader)
    return [[next(data) for _ in range(accumulate)] for _ in range(count)]


def test_torchtitan_gets_batches_and_saves_the_position(stream: PackedStream, tmp_path: Path) -> None:
    build = dataloader_builder(stream.uri)
    calm = build(dp_world_size=2, dp_rank=1, tokenizer=None, seq_len=32, local_batch_size=2)
    steps = titan_steps(calm, 2, 5)
    with Loader(stream.uri, dp=(1, 2)) as plain:
        for step, batches in zip(plain, steps, strict=True):
            assert torch.cat([inputs["input"] for inputs, _ in batches]).equal(step["tokens"])
            assert torch.cat([inputs["positions"] for inputs, _ in batches]).equal(step["position_ids"])
            assert torch.cat([labels for _, labels in batches]).equal(step["labels"])
    with pytest.raises(StopIteration):
        next(iter(calm))

    first = build(dp_world_size=2, dp_rank=1, local_batch_size=2)
    assert isinstance(first, dcp.stateful.Stateful)
    titan_steps(first, 2, 3)
    dcp.save({"dataloader": first}, checkpoint_id=str(tmp_path / "c"))
    # Another number of ranks, and another size of a batch.
    resumed = build(dp_world_size=1, dp_rank=0, local_batch_size=8)
    dcp.load({"dataloader": resumed}, checkpoint_id=str(tmp_path / "c"))
    [(inputs, _)] = titan_steps(resumed, 1, 1)[0]
    assert inputs["input"][4:].equal(torch.cat([inputs["input"] for inputs, _ in steps[3]]))
    for opened in (calm, first, resumed):
        opened.close()


def test_torchtitan_in_the_middle_of_a_step_has_no_state(stream: PackedStream) -> None:
    with Loader(stream.uri, format="torchtitan") as loader:
        dataloader = DataLoader(loader, 3)
        titan_steps(dataloader, 2, 1)
        with pytest.raises(hr.InvalidArgument, match="2 of the 3 batches"):
            dataloader.state_dict()
    with Loader(stream.uri) as plain, pytest.raises(hr.InvalidArgument, match='format="torchtitan"'):
        DataLoader(plain, 2)


def test_torchtitan_has_the_targets_of_its_own_data_set(stream: PackedStream) -> None:
    """Its text data set shifts inside each document and counts positions from its start; a document's last token is left out."""
    with Loader(stream.uri, format="torchtitan") as loader:
        step = next(iter(loader))
    for row, sequence in enumerate(sequence for lane in stream.steps[0] for sequence in lane):
        theirs = []
        for document in sequence:
            if document.source >= 0:
                for i, token in enumerate(document.tokens[:-1]):
                    if document.counts[i + 1]:
                        theirs.append((token, document.tokens[i + 1], i))
        mine = zip(step["input"][row].tolist(), step["labels"][row].tolist(), step["positions"][row].tolist(), strict=True)
        assert [triple for triple in mine if triple[1] != -100] == theirs


def test_torchtitan_builds_it_from_its_configuration(stream: PackedStream) -> None:
    components = pytest.importorskip(
        "torchtitan.components.dataloader", reason="TORCHTITAN IS NOT INSTALLED: its own classes are left out"
    )
    from headrace.torch.torchtitan import StreamDataLoader

    built = StreamDataLoader.Config(dataset_path=stream.uri).build(
        dp_world_size=4, dp_rank=3, tokenizer=None, seq_len=32, local_batch_size=2, snapshot_every_n_steps=None
    )
    assert isinstance(built, components.BaseDataLoader)
    inputs, labels = next(iter(built))
    assert set(inputs) == {"input", "positions"}
    assert labels.shape == (2, 32)
    built.close()


# --- Megatron ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Full sequences of documents that end with EOD, as Megatron's data has them."""
    rng = np.random.default_rng(5)
    folder = str(tmp_path_factory.mktemp("megatron") / "stream")
    with hr.Writer(folder, lanes=2, columns=COLUMNS, probe=False) as writer:
        for _ in range(3):
            step = []
            for _ in range(2):
                bounds = [0, *sorted(rng.choice(np.arange(1, 32), 4, replace=False).tolist()), 32]
                sizes = [end - start for start, end in itertools.pairwise(bounds)]
                documents = [Document(0, [*rng.integers(1, 99, n - 1).tolist(), EOD], [1] * n, "x") for n in sizes]
                step.append([documents])
            writer.append(columns_of(step, 1))
        writer.seal()
    return folder


def test_megatron_gets_what_its_own_data_set_makes(ended: str) -> None:
    gpt = pytest.importorskip("megatron.core.datasets.gpt_dataset", reason="MEGATRON-CORE IS NOT INSTALLED: it is left out")
    with Loader(ended, format="megatron") as loader:
        for step in loader:
            for row in range(2):
                tokens = step["tokens"][row]
                _, loss_mask, position_ids = gpt._get_ltor_masks_and_position_ids(tokens, EOD, True, False, True, False)
                assert step["position_ids"][row].equal(position_ids)
                assert step["loss_mask"][row].dtype == loss_mask.dtype
                assert step["loss_mask"][row].equal(loss_mask)
                counts = loss_mask[:-1] == 1
                assert step["labels"][row][:-1][counts].equal(tokens[1:][counts])


def test_megatron_takes_the_packed_parameters(ended: str) -> None:
    packed = pytest.importorskip("megatron.core.packed_seq_params", reason="MEGATRON-CORE IS NOT INSTALLED: it is left out")
    with Loader(ended, format="megatron") as loader:
        step = next(iter(loader))
        params = packed.PackedSeqParams(**step["packed_seq_params"])
    assert params.qkv_format == "thd"
    assert params.cu_seqlens_q.dtype == torch.int32
    assert params.cu_seqlens_q.tolist() == step["cu_seqlens"].tolist()
    assert params.max_seqlen_q == int(torch.diff(params.cu_seqlens_q).max())
