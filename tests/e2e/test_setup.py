"""scripts/setup on machines that lack something: it installs that and nothing else, or says the one command that would."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Machine:
    """A checkout on a machine whose package tools are stand-ins that write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.calls = folder / "calls"
        self.calls.touch()
        checkout = folder / "checkout"
        shutil.copytree(ROOT / "scripts", checkout / "scripts")
        (checkout / ".venv").symlink_to(sys.prefix)
        self.setup = checkout / "scripts" / "setup"
        self.has("apt-get", f'echo "apt-get $*" >> {self.calls}')
        self.user(0)
        self.lacks()

    def has(self, command: str, script: str) -> None:
        (self.bin / command).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / command).chmod(0o755)

    def user(self, number: int) -> None:
        self.has("id", f"echo {number}")

    def lacks(self, *packages: str) -> None:
        """dpkg-query says that all packages are installed but these, which it has never heard of or which were removed."""
        skip = "|".join(packages) or "none"
        self.has(
            "dpkg-query",
            f'for p; do case $p in -*) ;; {skip}) echo "config-files $p" ;; *) echo "installed $p" ;; esac; done',
        )

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.bin}:{os.environ['PATH']}"
        return subprocess.run(
            [str(self.setup), *words],
            env={**os.environ, "PATH": path, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_nothing_is_done_where_nothing_is_missing(machine: Machine) -> None:
    done = machine.run("build")
    assert (done.returncode, done.stderr, machine.called()) == (0, "", [])


def test_only_what_is_missing_is_installed(machine: Machine) -> None:
    machine.lacks("libfmt-dev", "libssl-dev")
    assert machine.run("build").returncode == 0
    update, install = machine.called()
    assert update.startswith("apt-get update")
    assert install.split()[-2:] == ["libfmt-dev", "libssl-dev"]
    assert "libcurl4-openssl-dev" not in install


def test_building_needs_less_than_testing(machine: Machine) -> None:
    machine.lacks("libgtest-dev")
    assert machine.run("build").returncode == 0
    assert machine.called() == []


def test_a_command_of_any_origin_will_do(machine: Machine) -> None:
    machine.lacks("cmake")
    machine.has("cmake", "exit 0")
    assert machine.run("build").returncode == 0
    assert machine.called() == []


def test_a_user_who_may_use_sudo_uses_it(machine: Machine) -> None:
    machine.user(1000)
    machine.lacks("libfmt-dev")
    machine.has("sudo", f'echo "sudo $*" >> {machine.calls}')
    assert machine.run("build").returncode == 0
    assert machine.called()[-1].startswith("sudo env DEBIAN_FRONTEND=noninteractive apt-get install")


def test_a_user_without_rights_is_told_the_one_command(machine: Machine) -> None:
    machine.user(1000)
    machine.lacks("libfmt-dev")
    machine.has("sudo", "exit 1")
    done = machine.run("build")
    assert done.returncode == 1
    assert "apt-get update && apt-get install -y --no-install-recommends libfmt-dev\n" in done.stderr
    assert machine.called() == []


def test_stale_package_lists_do_not_stop_it(machine: Machine) -> None:
    machine.lacks("libfmt-dev")
    machine.has("apt-get", f'echo "apt-get $*" >> {machine.calls}; [ "$1" != update ]')
    assert machine.run("build").returncode == 0
    assert len(machine.called()) == 2


def test_packages_can_be_left_alone(machine: Machine) -> None:
    machine.lacks("libfmt-dev")
    assert machine.run("build", HEADRACE_PACKAGES="0").returncode == 0
    assert machine.called() == []


def test_a_python_that_is_too_old_is_named(machine: Machine) -> None:
    machine.setup.parents[1].joinpath(".venv").unlink()
    machine.has("old-python", '[ "$1" = --version ] && echo Python 3.8.1; exit 1')
    done = machine.run("build", PYTHON="old-python")
    assert done.returncode == 1
    assert "Python 3.8.1 is too old. Python 3.10 or newer is needed" in done.stderr


def test_a_wrong_word_is_an_error_with_the_right_ones(machine: Machine) -> None:
    done = machine.run("biuld")
    assert done.returncode == 1
    assert "it is one of: build test bench soak lint" in done.stderr
