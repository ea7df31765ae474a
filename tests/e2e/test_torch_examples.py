"""The examples that train, run as their first lines say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from calls import ROOT

pytest.importorskip("torch", reason="TORCH IS NOT INSTALLED: what needs it is left out")
pytest.importorskip("headrace._core", reason="THE PACKAGE IS NOT BUILT: what needs it is left out")
sys.path.insert(0, str(ROOT / "python" / "tests"))

from packing import COLUMNS, Document, columns_of, write_packed

import headrace as hr

pytestmark = pytest.mark.slow


@pytest.fixture
def stream(tmp_path: Path) -> str:
    return write_packed(tmp_path / "stream", steps=6, lanes=4, sequences=2).uri


def run(tmp_path: Path, *words: str, errors: bool = False) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr if errors else done.stdout


def example(name: str) -> str:
    return str(ROOT / "examples" / f"{name}.py")


@pytest.fixture
def lesson(tmp_path: Path) -> str:
    """A stream from which something can be learnt, so that what an optimizer remembers shows in the losses."""
    rng = np.random.default_rng(17)
    with hr.Writer(str(tmp_path / "lesson"), lanes=4, columns=COLUMNS, probe=False, strands=2) as writer:
        for _ in range(12):
            starts = rng.integers(0, 64, (4, 2))
            rows = [[[int(start + 7 * i) % 64 for i in range(32)] for start in lane] for lane in starts]
            writer.append(columns_of([[[Document(0, row, [1] * 32, "")] for row in lane] for lane in rows], sources=1))
        writer.seal()
    return str(tmp_path / "lesson")


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 4)])
def test_torch_ddp_resumed_is_torch_ddp_undisturbed(lesson: str, tmp_path: Path, before: int, after: int) -> None:
    def train(processes: int) -> dict[int, float]:
        program = ("-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--standalone", example("torch_ddp"))
        said = run(tmp_path, *program, lesson, "--every", "4", "--vocabulary", "64")
        return {int(step): float(loss) for step, loss in re.findall(r"step (\d+): loss ([\d.]+)", said)}

    undisturbed = train(before)
    assert list(undisturbed) == list(range(12))
    assert undisturbed[11] < undisturbed[4] - 0.2, "it learns: a resume that forgets something has other losses"
    # As if it had been killed before the last checkpoint: the one after step 7 is the newest.
    shutil.rmtree(tmp_path / "checkpoints" / "checkpoint-12")
    # One unit of the last digit: ranks add floats in another order.
    assert train(after) == pytest.approx({step: undisturbed[step] for step in range(8, 12)}, abs=0.0011)


def test_hf_trainer(stream: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="TRANSFORMERS IS NOT INSTALLED: what needs it is left out")
    assert run(tmp_path, example("hf_trainer"), stream, "--steps", "2").endswith("2 steps\n")
    assert run(tmp_path, example("hf_trainer"), stream).endswith("6 steps\n")


def test_hf_trainer_in_two_processes(stream: str, tmp_path: Path) -> None:
    """A rank's share of a step is half of it, and the losses are those of the whole."""
    pytest.importorskip("transformers", reason="TRANSFORMERS IS NOT INSTALLED: what needs it is left out")

    def losses(*words: str) -> list[float]:
        return [float(loss) for loss in re.findall(r"'loss': ([\d.]+)", run(tmp_path, *words))]

    alone = losses(example("hf_trainer"), stream, "--output", "a", "--batch", "8", "--accumulate", "1")
    launch = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    both = losses(*launch, example("hf_trainer"), stream, "--output", "b", "--batch", "4", "--accumulate", "1")
    assert len(alone) == 6
    assert both == pytest.approx(alone, abs=0.002)


def test_lightning_trainer_in_two_processes(stream: str, tmp_path: Path) -> None:
    """Lightning starts the second one by itself, after the loader was opened."""
    pytest.importorskip("lightning.pytorch", reason="LIGHTNING IS NOT INSTALLED: what needs it is left out")
    said = run(tmp_path, example("lightning_trainer"), stream, "--devices", "2", errors=True)
    assert "dp 0/2 reads lanes 0 to 1 of 4" in said
    assert "dp 1/2 reads lanes 2 to 3 of 4" in said
    assert said.count("batch 5: loss") == 2


def test_lightning_trainer(stream: str, tmp_path: Path) -> None:
    pytest.importorskip("lightning.pytorch", reason="LIGHTNING IS NOT INSTALLED: what needs it is left out")
    first = run(tmp_path, example("lightning_trainer"), stream, "--steps", "4")
    assert "4 steps\n" in first
    second = run(tmp_path, example("lightning_trainer"), stream)
    assert "6 steps\n" in second
    assert len(re.findall("^batch", second, re.MULTILINE)) == 2


def test_torchtitan_loader(stream: str, tmp_path: Path) -> None:
    assert run(tmp_path, example("torchtitan_loader"), stream).endswith("next step: 3\n")
    assert run(tmp_path, example("torchtitan_loader"), stream).endswith("next step: 6\n")


def test_torchtitan_loader_says_at_once_what_fits(stream: str, tmp_path: Path) -> None:
    words = [sys.executable, example("torchtitan_loader"), stream, "--batch", "2"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("has 8 sequences, not 2 × 2: say --accumulate 4\n")
