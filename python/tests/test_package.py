"""The package as people import it: its version, its exceptions, and honest answers about what is not there yet."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headrace

ROOT = Path(__file__).resolve().parents[2]


def test_the_version_is_the_one_of_the_cmake_project() -> None:
    found = re.search(r"project\(headrace VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert found is not None
    assert headrace.__version__ == found.group(1) == importlib.metadata.version("headrace")


@pytest.mark.parametrize(
    "name",
    ["Conflict", "Fenced", "Corrupt", "NotFound", "Unavailable", "OutcomeUnknown", "Stalled", "InvalidArgument", "Unsupported"],
)
def test_every_exception_is_an_error_of_headrace(name: str) -> None:
    assert issubclass(getattr(headrace, name), headrace.Error)


def test_exceptions_are_also_what_python_programs_already_catch() -> None:
    assert issubclass(headrace.Trimmed, headrace.NotFound)
    assert issubclass(headrace.Stalled, TimeoutError)
    assert issubclass(headrace.InvalidArgument, ValueError)


def test_a_stalled_loader_keeps_its_message() -> None:
    # OSError, a base of TimeoutError, has a say in how its subclasses are made and printed.
    assert str(headrace.Stalled("producer 3 is late")) == "producer 3 is late"


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Lodaer'"):
        headrace.Lodaer  # noqa: B018
    assert not hasattr(headrace, "Lodaer")


def test_everything_public_is_listed() -> None:
    assert {"Loader", "Recipe", "Writer", "produce", "Error"} <= set(dir(headrace))


def test_the_import_is_light() -> None:
    code = "import sys, headrace; print(*sorted({'numpy', 'pyarrow', 'torch', 'boto3'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


def test_the_package_is_typed() -> None:
    assert (Path(headrace.__file__).parent / "py.typed").is_file()


def test_the_command_is_installed_beside_python() -> None:
    # A real program, not a Python script that has to start an interpreter first.
    command = Path(sys.executable).parent / "headrace"
    with command.open("rb") as file:
        assert file.read(4) == b"\x7fELF"


def test_produce_stays_a_function_whatever_else_is_used() -> None:
    """A submodule of the same name would take its place as soon as anything imports it."""
    program = "import headrace; headrace.plan; import headrace.embedded; headrace.Recipe(); assert callable(headrace.produce)"
    subprocess.run([sys.executable, "-c", program], check=True)
