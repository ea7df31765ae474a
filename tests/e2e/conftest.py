"""The command as a user has it: in a clean environment, on folders and on real S3 servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import servers  # noqa: E402
from calls import Bucket, Headrace, make_bucket  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: `make check` leaves it out")
    # Who is started in the background of a shell is deaf to SIGINT, and so are all its children: the command honours that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def headrace(tmp_path_factory: pytest.TempPathFactory) -> Headrace:
    command = Headrace(tmp_path_factory.mktemp("home"))
    command.environment["HEADRACE_PYTHON"] = sys.executable  # for worker processes
    return command


@pytest.fixture(scope="session")
def endpoint_of() -> Iterator[Callable[[str], str]]:
    """The endpoint of a server by name: one that is running already (HEADRACE_TEST_…), or one that is started for this run."""
    running = {}
    contexts = []

    def find(name: str) -> str:
        variable = f"HEADRACE_TEST_{name.upper()}"
        if name not in running:
            if variable not in os.environ and servers.command_of(name) is None:
                pytest.skip(f"{name} IS NOT INSTALLED: what needs it is left out")
            if variable in os.environ:
                running[name] = os.environ[variable]
            else:
                context = servers.running(only=[name], require=[name])
                running[name] = context.__enter__()[variable]
                contexts.append(context)
        return running[name]

    yield find
    for context in contexts:
        context.__exit__(None, None, None)


@pytest.fixture(params=["versitygw", "moto"])
def bucket(request: pytest.FixtureRequest, endpoint_of: Callable[[str], str]) -> Bucket:
    """A prefix on each of the real servers."""
    return make_bucket(request.param, endpoint_of(request.param))


@pytest.fixture
def reference(endpoint_of: Callable[[str], str]) -> Bucket:
    """A prefix on versitygw, the one server that checks signatures."""
    return make_bucket("versitygw", endpoint_of("versitygw"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("A FULL DISK IS NOT TESTED: mounting a tmpfs needs root")
    yield place
    subprocess.run(["umount", place], check=True)
