"""`headrace probe` against servers that lie: each is refused with its own reason. Those that merely have trouble pass."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def load_liar_server() -> ModuleType:
    path = Path(__file__).with_name("liar_server.py")
    spec = importlib.util.spec_from_file_location("liar_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["liar_server"] = module
    spec.loader.exec_module(module)
    return module


liar_server = load_liar_server()

# The property that shows each lie, and words of the reason that a person reads.
REASONS = {
    "two-creators": ("race", "creators of the same key (race"),
    "told-twice": ("create", "told a second creator"),
    "ignore-condition": ("create", "replaced an object although"),
    "short-bytes": ("bytes", "bytes came back instead of"),
    "flipped-bytes": ("bytes", "came back wrong"),
    "lost-list-entries": ("lists", "a list right after the writes misses"),
    "ignores-range": ("ranges", "ignores ranges"),
    "stale-reads": ("read_after_write", "right after it was written: it was not found"),
    "undead": ("read_after_delete", "after it was deleted"),
}


def headrace() -> Path:
    """The command under test; HEADRACE_BIN says where it is if not in the venv."""
    path = Path(os.environ.get("HEADRACE_BIN", ROOT / ".venv" / "bin" / "headrace"))
    if not path.exists():
        pytest.fail(f"there is no {path}: `make build` installs it, HEADRACE_BIN names another")
    return path


def probe(endpoint: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, the report, and what was said to people."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "HEADRACE_PROGRESS": "0",
    }
    uri = f"s3://headrace-test/some/prefix?endpoint={endpoint}"
    done = subprocess.run(
        [headrace(), "probe", uri, "--json", "--rounds", "5"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stdout.strip(), f"no report; status {done.returncode}: {done.stderr}"
    return done.returncode, json.loads(done.stdout), done.stderr


def checks(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in report["checks"]}


def test_every_lie_has_its_reason() -> None:
    assert set(REASONS) | set(liar_server.HARMLESS) == set(liar_server.LIES)


@pytest.mark.parametrize("lie", REASONS)
def test_a_liar_is_refused_with_its_own_reason(lie: str) -> None:
    name, words = REASONS[lie]
    with liar_server.running(lie) as server:
        status, report, said = probe(server.endpoint)
    assert status == 1
    assert report["safe"] is False
    broken = [check for check in report["checks"] if check["verdict"] == "failed"]
    assert broken, f"{report} {said}"
    assert broken[0]["name"] == name
    assert words in broken[0]["seen"]


@pytest.mark.parametrize("trouble", liar_server.HARMLESS)
def test_a_store_that_merely_has_trouble_passes(trouble: str) -> None:
    with liar_server.running(trouble) as server:
        status, report, said = probe(server.endpoint)
        left = sorted(server.objects.objects)
    assert report["safe"] is True, f"{report} {said}"
    assert status == 0
    assert {check["verdict"] for check in checks(report).values()} == {"passed"}
    assert left == [], "it cleans up after itself"


def test_a_liar_is_cleaned_up_as_well() -> None:
    with liar_server.running("lost-list-entries") as server:
        probe(server.endpoint)
        assert sorted(server.objects.objects) == []
