"""What is wrong with a stream is told by name and with what to do, and nothing is lost by it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from calls import Headrace


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def make(headrace: Headrace, stream: Path, steps: int = 3) -> None:
    words = ("--lanes", "1", "--strands", "1", "--columns", "x:int64", "--no-probe")
    assert headrace("create", stream, *words).status == 0
    path = stream.parent / f"{stream.name}.jsonl"
    path.write_text("".join(json.dumps({"x": [i]}) + "\n" for i in range(steps)))
    assert headrace("append", stream, path, "--source", "a").status == 0


def newest(stream: Path, folder: str) -> Path:
    path = max(path for path in (stream / folder).rglob("*") if path.is_file() and path.name != "hint")
    path.chmod(0o644)
    return path


def refused(headrace: Headrace, *words: str | Path, code: str, says: list[str]) -> None:
    done = headrace(*words, "--json")
    assert done.status == 1, done
    assert done.json["error"]["code"] == code, done.json
    for word in says:
        assert word in done.json["error"]["message"], done.json


def rewrite_description(stream: Path, **changes: object) -> None:
    path = stream / "stream.json"
    path.chmod(0o644)
    document = {**json.loads(path.read_text()), **changes}
    document.pop("crc32c")
    crc = crc32c(json.dumps(document, indent=2).encode())
    path.write_text(json.dumps({**document, "crc32c": struct.pack("<I", crc).hex()}, indent=2) + "\n")


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"format": 2}, "Unsupported", ["format 2", "use a newer one"]),
        ({"format": 0}, "Unsupported", ["format 0", "not Headrace"]),
        ({"features_required": ["braids"]}, "Unsupported", ['"braids"', "use a newer one"]),
        ({"lanes": 0}, "Corrupt", ["between 1 and 65536 lanes"]),
        ({"window": 0}, "Corrupt", ["window"]),
        ({"order": "random"}, "Corrupt", ['"random"']),
        ({"columns": []}, "Corrupt", ["column"]),
    ],
)
def test_a_description_that_cannot_be(
    headrace: Headrace, tmp_path: Path, changes: dict[str, object], code: str, says: list[str]
) -> None:
    stream = tmp_path / "s"
    make(headrace, stream)
    before = (stream / "stream.json").read_text()
    rewrite_description(stream)
    assert (stream / "stream.json").read_text() == before, "this test does not know the checksum of stream.json"
    rewrite_description(stream, **changes)
    for words in (["inspect", stream], ["digest", stream], ["append", stream, tmp_path / "s.jsonl"], ["gc", stream]):
        refused(headrace, *words, code=code, says=[*says, str(stream / "stream.json")])


def test_an_optional_feature_is_passed_over(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    make(headrace, stream)
    rewrite_description(stream, features_optional=["braids"])
    assert headrace("verify", stream).status == 0


def test_a_manifest_of_a_later_version(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    make(headrace, stream)
    path = newest(stream, "log")
    data = b"HRmanif2" + path.read_bytes()[8:-4]
    path.write_bytes(data + struct.pack("<I", crc32c(data)))
    refused(headrace, "inspect", stream, code="Unsupported", says=[str(path), "use a newer Headrace"])


def test_every_flipped_byte_of_a_manifest_is_noticed(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    make(headrace, stream)
    path = newest(stream, "log")
    whole = path.read_bytes()
    for at in range(0, len(whole), 37):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x04]) + whole[at + 1 :])
        refused(headrace, "inspect", stream, code="Corrupt", says=[str(path)])
    path.write_bytes(whole)
    assert headrace("verify", stream).status == 0


def test_every_cut_of_a_chunk_is_noticed(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    make(headrace, stream)
    path = newest(stream, "data")
    whole = path.read_bytes()
    for size in range(0, len(whole), 61):
        path.write_bytes(whole[:size])
        done = headrace("verify", stream, "--json")
        assert done.status == 1
        assert [item["object"] for item in done.json["damaged"]] == [f"file://{path}"]
    path.write_bytes(whole)
    assert headrace("verify", stream).status == 0


@pytest.mark.parametrize("folder", ["data", "log"])
def test_an_object_of_another_stream(headrace: Headrace, tmp_path: Path, folder: str) -> None:
    for name in ("a", "b"):
        make(headrace, tmp_path / name)
    ours, theirs = newest(tmp_path / "a", folder), newest(tmp_path / "b", folder)
    ours.write_bytes(theirs.read_bytes())
    refused(headrace, "digest", tmp_path / "a", code="Corrupt", says=[str(ours)])


def test_a_full_disk_loses_nothing(headrace: Headrace, small_disk: Path, tmp_path: Path) -> None:
    stream = small_disk / "s"
    words = ("--lanes", "1", "--strands", "1", "--columns", "x:int64", "--no-probe")
    assert headrace("create", stream, *words).status == 0
    filler = small_disk / "filler"
    filler.write_bytes(bytes(1_500_000))
    path = tmp_path / "big.jsonl"
    steps = [{"x": [i] * 4000} for i in range(40)]
    path.write_text("".join(json.dumps(step) + "\n" for step in steps))
    done = headrace("append", stream, path, "--source", "a", "--json")
    assert done.status == 1, done
    assert done.json["error"]["code"] == "Full", done.json
    assert str(stream) in done.json["error"]["message"]
    there = headrace("inspect", stream, "--json").json["steps"]
    assert 0 < there < 40
    assert headrace("verify", stream).status == 0
    filler.unlink()
    again = headrace("append", stream, path, "--source", "a", "--json")
    assert again.status == 0, again
    assert (again.json["skipped"], again.json["steps"]) == (there, 40)
    plain = tmp_path / "plain"
    assert headrace("create", plain, *words).status == 0
    assert headrace("append", plain, path).status == 0
    assert headrace("digest", stream, "--json").json == headrace("digest", plain, "--json").json
