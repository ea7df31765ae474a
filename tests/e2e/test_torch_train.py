"""A real torch job on a stream: killed, resumed on other numbers of ranks, and the same as if nothing had happened."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from calls import ROOT, Headrace

pytest.importorskip("torch", reason="TORCH IS NOT INSTALLED: what needs it is left out")
pytest.importorskip("headrace._core", reason="THE PACKAGE IS NOT BUILT: what needs it is left out")
sys.path.insert(0, str(ROOT / "python" / "tests"))

import torch_ranks
from packing import PackedStream, write_packed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> PackedStream:
    return write_packed(tmp_path_factory.mktemp("packed") / "stream", steps=10, lanes=8, sequences=1)


def curve(log: Path, ranks: int) -> dict[int, dict[str, Any]]:
    """Per step: the loss, and what all ranks together were given."""
    steps: dict[int, dict[str, Any]] = {}
    for rank in range(ranks):
        for line in (log / f"{ranks}-{rank}.jsonl").read_text().splitlines():
            entry = json.loads(line)
            step = steps.setdefault(entry["step"], {"loss": entry["loss"], "samples": []})
            assert step["loss"] == entry["loss"]
            step["samples"] += entry["samples"]
    return steps


def test_a_killed_job_goes_on_as_if_nothing_had_happened(packed: PackedStream, tmp_path: Path) -> None:
    """DP 4, SIGKILL after its checkpoint, then DP 2 and DP 8: the same samples in every step, and the same losses."""

    def train(ranks: int, name: str, checkpoints: str, *words: Any, expect: int = 0) -> dict[int, dict[str, Any]]:  # noqa: ANN401
        log = tmp_path / name
        log.mkdir()
        answers = torch_ranks.run(
            torch_ranks.train, ranks, log, packed.uri, str(tmp_path / checkpoints), str(log), *words, expect=expect
        )
        if answers:
            assert all(answer["state"] == answers[0]["state"] for answer in answers)
            assert answers[0]["state"]["next_step"] == 10
        return curve(log, ranks)

    calm = train(4, "calm", "none")
    assert list(calm) == list(range(10))
    for number, step in calm.items():
        expected = [d.id for lane in packed.steps[number] for sequence in lane for d in sequence if d.id]
        assert sorted(step["samples"]) == sorted(expected)

    killed = train(4, "killed", "checkpoints", 5, 8, expect=-9)
    assert list(killed) == list(range(8))
    for ranks in (2, 8):
        resumed = train(ranks, f"resumed-{ranks}", "checkpoints")
        assert list(resumed) == list(range(5, 10)), "a checkpoint goes on after its own step, not where the job died"
        for number, step in resumed.items():
            assert sorted(step["samples"]) == sorted(calm[number]["samples"])
            assert step["loss"] == pytest.approx(calm[number]["loss"], rel=1e-4)
    assert calm[9]["loss"] < calm[0]["loss"], "it learns something"


@pytest.mark.parametrize(("format", "cp"), [("plain", "whole"), ("hf", "contiguous"), ("megatron", "head_tail")])
def test_one_rank_reads_for_its_peers(headrace: Headrace, packed: PackedStream, tmp_path: Path, format: str, cp: str) -> None:
    answers = torch_ranks.run(torch_ranks.reads_for_peers, 8, tmp_path, packed.uri, format, cp)
    assert all(answer["compared"] > 100 for answer in answers)
    reading = [rank for rank, answer in enumerate(answers) if answer["fetched"] > 0]
    assert reading == [0, 4], "one per data-parallel coordinate"
    # All of them reported: halves of sequences add up, peers with the same half count once.
    reported = headrace("feedback", packed.uri, "--json").json["steps"]
    assert [(step["step"], step["loss"]["all"]["sum"], step["loss"]["all"]["count"]) for step in reported] == [
        (n, 10.0, 4.0) for n in range(10)
    ]
    assert {step["mixture"] for step in reported} == {0}


def test_a_save_in_the_background_pins_when_it_is_done(packed: PackedStream, tmp_path: Path) -> None:
    answers = torch_ranks.run(torch_ranks.saves_in_background, 2, tmp_path / "job", packed.uri, str(tmp_path / "checkpoints"))
    assert [answer["kept"] for answer in answers] == [[3], [3]]
    assert 3 in answers[0]["pins"]
    assert not {1, 2} & set(answers[0]["pins"])


def test_an_error_of_the_one_who_reads_reaches_its_peers(tmp_path: Path) -> None:
    stream = write_packed(tmp_path / "stream", steps=4, lanes=2, sequences=1)
    [victim] = (tmp_path / "stream" / "data").rglob("1-2-*")
    damaged = bytearray(victim.read_bytes())
    for i in range(len(damaged) // 2, len(damaged) // 2 + 16):
        damaged[i] ^= 0xFF
    victim.chmod(0o644)
    victim.write_bytes(damaged)
    answers = torch_ranks.run(torch_ranks.fails_for_all, 3, tmp_path / "job", stream.uri)
    assert [answer["seen"] for answer in answers] == [2, 2, 2]
    assert [answer["state"] for answer in answers] == [2, 2, 2]
    assert all(victim.name in answer["said"] for answer in answers)


def test_every_way_to_say_where_a_process_stands(packed: PackedStream, tmp_path: Path) -> None:
    for rank, found in enumerate(torch_ranks.run(torch_ranks.meshes, 4, tmp_path, packed.uri)):
        pure = f"dp {rank}/4"
        assert found == {"group": pure, "mesh": pure, "pure": pure, "tp": f"dp {rank // 2}/2 tp {rank % 2}/2"}
