"""Who gets what: lanes by data-parallel coordinate, the same bytes along the other axes."""

from __future__ import annotations

import itertools
import logging
from types import SimpleNamespace

import numpy as np
import pytest
from packing import PackedStream, naive

import headrace as hr


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


@pytest.mark.parametrize("size", divisors(12))
def test_ranks_of_every_size_share_each_step_without_gap_or_overlap(packed: PackedStream, size: int) -> None:
    loaders = [hr.Loader(packed.uri, dp=(rank, size)) for rank in range(size)]
    for number, steps in enumerate(zip(*loaders, strict=True)):
        got = np.concatenate([step["tokens"] for step in steps])
        assert {step.number for step in steps} == {number}
        assert got.tolist() == naive([s for lane in packed.steps[number] for s in lane])["tokens"]
    assert number == len(packed.steps) - 1
    for loader in loaders:
        loader.close()


@pytest.mark.parametrize("size", [5, 7, 8, 9, 10, 11])
def test_uneven_sizes_must_be_wanted_and_share_each_step_too(packed: PackedStream, size: int) -> None:
    with pytest.raises(hr.InvalidArgument, match=r"uneven=True"):
        hr.Loader(packed.uri, dp=(0, size))
    loaders = [hr.Loader(packed.uri, dp=(rank, size), uneven=True) for rank in range(size)]
    steps = [next(iter(loader)) for loader in loaders]
    got = np.concatenate([step["tokens"] for step in steps])
    assert got.tolist() == naive([s for lane in packed.steps[0] for s in lane])["tokens"]
    # The same number of micro-batches everywhere, although shares differ.
    assert len({len(list(step.micro_batches(sequences=1))) for step in steps}) == 1
    for loader in loaders:
        loader.close()


MESHES = [shape for shape in itertools.product([1, 2, 3, 4, 6, 12], [1, 2, 4], [1, 2, 4], [1, 2]) if np.prod(shape) <= 16]


def test_every_mesh_of_up_to_16_ranks_covers_the_step_and_overlaps_only_along_its_other_axes(packed: PackedStream) -> None:
    whole = np.array(naive([s for lane in packed.steps[0] for s in lane])["tokens"])
    for dp, cp, tp, pp in MESHES:
        for way in ("whole", "contiguous", "head_tail"):
            if way != "whole" and cp == 1:
                continue
            share = np.zeros(whole.shape, int)
            for d, c, t, p in itertools.product(range(dp), range(cp), range(tp), range(pp)):
                mesh = {"dp": (d, dp), "cp": (c, cp), "tp": (t, tp), "pp": (p, pp)}
                with hr.Loader(packed.uri, mesh=mesh, cp=way, role="eval") as loader:
                    step = loader.step(0)
                    rows = slice(d * len(whole) // dp, (d + 1) * len(whole) // dp)
                    length = whole.shape[1]
                    part = length // cp
                    if way == "whole":
                        columns = np.arange(length)
                    elif way == "contiguous":
                        columns = np.arange(c * part, (c + 1) * part)
                    else:
                        half = part // 2
                        tail = 2 * cp - 1 - c
                        columns = np.r_[c * half : (c + 1) * half, tail * half : (tail + 1) * half]
                    assert np.array_equal(step["tokens"], whole[rows][:, columns])
                    assert step["labels"].shape == step["position_ids"].shape == step["tokens"].shape
                    share[rows, columns] += 1
            assert (share == tp * pp * (cp if way == "whole" else 1)).all()


def test_rank_and_world_size_are_taken_as_data_parallelism_and_said(
    numbers: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with caplog.at_level(logging.INFO, "headrace"), hr.Loader(numbers) as loader:
        assert loader.mesh.dp == (1, 2)
        assert next(iter(loader))["x"].ravel().tolist() == [2, 3]
    lines = [record.getMessage() for record in caplog.records]
    assert sum("pure data parallelism" in line for line in lines) == 1
    assert sum("reads lanes 2 to 3 of 4" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE=2 is in the environment and RANK is not"),
        ({"WORLD_SIZE": "2", "RANK": ""}, "WORLD_SIZE=2 is in the environment and RANK is not"),
        ({"RANK": "1"}, "RANK=1 is in the environment and WORLD_SIZE is not"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK=x in the environment"),
        ({"RANK": "0", "WORLD_SIZE": "two"}, "WORLD_SIZE=two in the environment"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 and WORLD_SIZE=2"),
    ],
)
def test_half_an_environment_is_refused(
    numbers: str, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], words: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(hr.InvalidArgument, match=words):
        hr.Loader(numbers)
    with hr.Loader(numbers, dp=(0, 1)) as loader:
        assert loader.mesh.dp == (0, 1)


def test_lightning_tells_the_ranks_later(numbers: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for name, value in {"WORLD_SIZE": "2", "LOCAL_RANK": "1", "NODE_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    with hr.Loader(numbers) as loader:
        assert loader.mesh.dp == (0, 1)
    assert "until its trainer says which" in caplog.text


@pytest.mark.parametrize("environment", [{"WORLD_SIZE": "1"}, {"RANK": "0"}, {"RANK": "0", "WORLD_SIZE": "1"}])
def test_an_environment_of_one_process_is_fine(
    numbers: str, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with hr.Loader(numbers) as loader:
        assert loader.mesh.dp == (0, 1)


def test_a_device_mesh_is_understood_by_the_names_of_its_dimensions() -> None:
    ranks = {"dp_replicate": 1, "dp_shard": 2, "tp": 1}
    sizes = [2, 4, 2]
    mesh = SimpleNamespace(mesh_dim_names=tuple(ranks), get_local_rank=ranks.__getitem__, size=sizes.__getitem__)
    from headrace.mesh import resolve

    found = resolve(mesh=mesh)
    assert found.dp == (6, 8)
    assert found.tp == (1, 2)


@pytest.mark.parametrize(
    "given",
    [
        {"dp": (2, 2)},
        {"dp": 3},
        {"dp": (0, 0)},
        {"mesh": {"ep": (0, 1)}},
        {"mesh": 7},
        {"dp": (0, 1), "mesh": {}},
        {"dp": (0, 8)},
    ],
)
def test_coordinates_that_make_no_sense_are_refused(numbers: str, given: dict) -> None:
    with pytest.raises(hr.InvalidArgument):
        hr.Loader(numbers, **given)


def test_resize_between_steps_goes_on_with_another_share(numbers: str) -> None:
    with hr.Loader(numbers, dp=(0, 1)) as loader:
        steps = iter(loader)
        assert next(steps)["x"].ravel().tolist() == [0, 1, 2, 3]
        loader.resize(dp=(1, 2))
        step = next(steps)
        assert step.number == 1
        assert step["x"].ravel().tolist() == [1002, 1003]
        with pytest.raises(hr.InvalidArgument):
            loader.resize(dp=(0, 3))
        assert next(steps)["x"].ravel().tolist() == [2002, 2003]
