import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from packing import PackedStream, write_numbers, write_packed


@pytest.fixture(autouse=True)
def _no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> PackedStream:
    return write_packed(tmp_path_factory.mktemp("packed") / "stream")


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> str:
    """20 steps of 4 lanes, sealed."""
    return write_numbers(tmp_path_factory.mktemp("numbers") / "stream", 20)
