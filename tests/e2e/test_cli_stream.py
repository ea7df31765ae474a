"""Streams from the shell: what is appended is what is read, each step once, and damage is named."""

from __future__ import annotations

import hashlib
import json
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calls import Bucket, Headrace, Json

COLUMNS = "tokens:int32,mask:bool,text:bytes,ids:ragged:int64"


def create(
    headrace: Headrace, stream: str | Path, *words: str, columns: str = "x:int64", env: dict[str, str] | None = None
) -> str:
    done = headrace(
        "create", stream, "--columns", columns, "--no-probe", "--json", *(words or ("--lanes", "1", "--strands", "1")), env=env
    )
    assert done.status == 0, done.err
    return done.json["uuid"]


def lines(path: Path, steps: list[Any]) -> Path:
    path.write_text("".join(json.dumps(step) + "\n" for step in steps))
    return path


def numbers(path: Path, values: list[int]) -> Path:
    return lines(path, [{"x": [value]} for value in values])


def append(headrace: Headrace, *words: str | Path, env: dict[str, str] | None = None) -> Json:
    done = headrace("append", *words, "--json", env=env)
    assert done.status == 0, done.err
    return done.json


def values_of(headrace: Headrace, stream: str | Path) -> list[int]:
    """The number in every step of a stream of one lane."""
    steps = headrace("inspect", stream, "--json").json["steps"]
    found = []
    for step in range(steps):
        lane = headrace("cat", stream, "--step", str(step), "--json").json["lanes"][0]
        found += lane["columns"]["x"]["values"]
    return found


def fails(headrace: Headrace, *words: str | Path, code: str, says: str) -> None:
    done = headrace(*words, "--json")
    assert done.status == 1, done
    assert done.json["error"]["code"] == code, done.json
    assert says in done.json["error"]["message"], done.json


def an_object(stream: Path, folder: str) -> Path:
    return max(path for path in (stream / folder).rglob("*") if path.is_file() and path.name != "hint")


def test_a_step_of_every_kind_of_column_comes_back(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream, "--lanes", "2", "--strands", "2", "--order", "arrival", columns=COLUMNS)
    step = {"tokens": [[1, 2, 3], [4, 5, -6]], "mask": [True, False], "text": ["grüße", ""], "ids": [[7, 8], []]}
    assert append(headrace, stream, lines(tmp_path / "a.jsonl", [step])) == {
        "appended": 1,
        "skipped": 0,
        "first_step": 0,
        "steps": 1,
    }
    shown = headrace("cat", stream, "--step", "0", "--json").json
    first, second = (lane["columns"] for lane in shown["lanes"])
    assert (first["tokens"]["shape"], first["tokens"]["values"]) == ([1, 3], [1, 2, 3])
    assert second["tokens"]["values"] == [4, 5, -6]
    assert (first["mask"]["values"], second["mask"]["values"]) == ([True], [False])
    assert (first["text"]["values"], second["text"]["values"]) == (["grüße"], [""])
    assert (first["ids"]["values"], second["ids"]["values"]) == ([[7, 8]], [[]])
    only = headrace("cat", stream, "--step", "0", "--lane", "1", "--json").json["lanes"]
    assert [lane["lane"] for lane in only] == [1]
    people = headrace("cat", stream, "--step", "0")
    assert "grüße" in people.out
    assert "step 0, lane 1" in people.out


def test_an_npz_is_the_same_step_as_its_json(headrace: Headrace, tmp_path: Path) -> None:
    step = {"tokens": [[1, 2], [3, 4]], "mask": [True, False], "text": ["grüße", "b"], "ids": [[7, 8], [9]]}
    np.savez(
        tmp_path / "offsets.npz",
        **{
            "tokens": np.array(step["tokens"], np.int64),
            "mask": np.array(step["mask"]),
            "text.values": np.frombuffer("grüßeb".encode(), np.uint8),
            "text.offsets": np.array([0, 7, 8]),
            "ids.values": np.array([7, 8, 9], np.int16),
            "ids.offsets": np.array([0, 2, 3], np.int32),
        },
    )
    np.savez(
        tmp_path / "texts.npz",
        **{
            "tokens": np.array(step["tokens"], np.int32),
            "mask": np.array([1, 0], np.uint8),
            "text": np.array(step["text"]),
            "ids.values": np.array([7, 8, 9]),
            "ids.offsets": np.array([0, 2, 3]),
        },
    )
    stream = tmp_path / "s"
    create(headrace, stream, "--lanes", "2", "--strands", "1", columns=COLUMNS)
    append(headrace, stream, lines(tmp_path / "a.jsonl", [step]), tmp_path / "offsets.npz", tmp_path / "texts.npz")
    hashes = headrace("digest", stream, "--json").json["steps"]
    assert len(hashes) == 3
    assert len(set(hashes)) == 1


def test_bad_steps_are_refused_with_their_place_and_what_came_before_stays(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream, "--lanes", "2", "--strands", "1", columns="x:int8,h:float16")
    good = {"x": [1, 2], "h": [0, 1]}
    for bad, says in [
        ({"x": [1, 2, 3], "h": [0, 0]}, 'column "x": 3 rows cannot be split evenly over the 2 lanes'),
        ({"x": [1, 128], "h": [0, 0]}, 'column "x": 128 does not fit int8'),
        ({"x": [1, -129], "h": [0, 0]}, "-129 does not fit int8"),
        ({"x": [1, 1.5], "h": [0, 0]}, "1.5 is not a whole number"),
        ({"x": [1, "a"], "h": [0, 0]}, '"a" is not a number'),
        ({"x": [1, 2], "h": [0, 1e6]}, 'column "h": 1000000.0 does not fit float16'),
        ({"x": [[1], [1, 2]], "h": [0, 0]}, "equally long"),
        ({"x": 1, "h": [0, 0]}, "a single number cannot be split"),
        ({"x": [1, 2]}, 'column "h": it is missing'),
        ({**good, "y": []}, 'there is no column "y"; the stream has x, h'),
        ([1], "a step is an object"),
    ]:
        before = headrace("inspect", stream, "--json").json["steps"]
        path = lines(tmp_path / "a.jsonl", [good, bad, good])
        fails(headrace, "append", stream, path, code="InvalidArgument", says=f"{path}, line 2: ")
        done = headrace("append", stream, lines(tmp_path / "b.jsonl", [bad]))
        assert (done.status, done.out) == (1, "")
        assert says in done.err
        assert headrace("inspect", stream, "--json").json["steps"] == before + 1
    (tmp_path / "c.jsonl").write_text('{"x": [1,\n')
    fails(headrace, "append", stream, tmp_path / "c.jsonl", code="InvalidArgument", says="line 1: it is not JSON")
    assert headrace("verify", stream).status == 0


def test_bad_files_are_refused(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream)
    np.savez_compressed(tmp_path / "packed.npz", x=np.arange(3))
    fails(
        headrace,
        "append",
        stream,
        tmp_path / "packed.npz",
        code="Unsupported",
        says="numpy.savez instead of numpy.savez_compressed",
    )
    np.savez(tmp_path / "whole.npz", x=np.arange(300))
    whole = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:-10])
    fails(headrace, "append", stream, tmp_path / "cut.npz", code="InvalidArgument", says="its end is missing")
    (tmp_path / "flipped.npz").write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    fails(headrace, "append", stream, tmp_path / "flipped.npz", code="InvalidArgument", says='checksum of "x.npy" does not fit')
    np.savez(tmp_path / "big.npz", x=np.arange(3, dtype=">i4"))
    fails(headrace, "append", stream, tmp_path / "big.npz", code="InvalidArgument", says="big-endian")
    np.savez(tmp_path / "turned.npz", x=np.asfortranarray(np.ones((2, 3))))
    fails(headrace, "append", stream, tmp_path / "turned.npz", code="InvalidArgument", says="numpy.ascontiguousarray")
    fails(headrace, "append", stream, "x.csv", code="InvalidArgument", says="cannot tell what x.csv is")
    fails(headrace, "append", stream, tmp_path / "none.npz", code="NotFound", says="No such file")
    assert headrace("inspect", stream, "--json").json["steps"] == 0


@pytest.mark.parametrize("order", ["planned", "arrival"])
def test_input_that_brings_nothing_takes_nothing_from_others(headrace: Headrace, tmp_path: Path, order: str) -> None:
    stream = tmp_path / "s"
    create(headrace, stream, "--lanes", "1", "--strands", "2", "--order", order)
    good = numbers(tmp_path / "good.jsonl", [0, 1])
    append(headrace, stream, good, "--source", "a")

    def manifest() -> int:
        return headrace("inspect", stream, "--json").json["manifest"]

    before, claims = manifest(), len(list((stream / "sources").iterdir())) if order == "arrival" else 0
    bad = lines(tmp_path / "bad.jsonl", [{"x": [0]}, {"x": [1]}, {"x": ["no number"]}])
    fails(headrace, "append", stream, bad, "--source", "a", code="InvalidArgument", says="bad.jsonl, line 3")
    fails(
        headrace,
        "append",
        stream,
        lines(tmp_path / "worse.jsonl", [{}]),
        "--source",
        "new",
        code="InvalidArgument",
        says="line 1",
    )
    fails(headrace, "append", stream, tmp_path / "absent.npz", code="NotFound", says="absent.npz")
    assert append(headrace, stream, good, "--source", "a") == {"appended": 0, "skipped": 2, "steps": 2}
    assert append(headrace, stream, lines(tmp_path / "empty.jsonl", []))["appended"] == 0
    assert manifest() == before
    assert claims == (len(list((stream / "sources").iterdir())) if order == "arrival" else 0)


def test_a_source_goes_on_where_it_was(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream, "--lanes", "1", "--strands", "2", "--order", "arrival")
    few, many = numbers(tmp_path / "few.jsonl", [0, 1, 2]), numbers(tmp_path / "many.jsonl", list(range(5)))
    assert append(headrace, stream, few, "--source", "a")["appended"] == 3
    again = append(headrace, stream, many, "--source", "a")
    assert (again["skipped"], again["appended"], again["first_step"]) == (3, 2, 3)
    assert append(headrace, stream, few, "--source", "a") == {"appended": 0, "skipped": 3, "steps": 5}
    said = headrace("append", stream, many, "--source", "a").out
    assert 'steps of "a" skipped: in the stream already' in said
    assert '"a" has given 5 steps before' in said
    assert "under another --source, or without" in said
    assert "has given" not in headrace("append", stream, few).out
    # Sources that share a strand do not forget each other.
    for name in ("b", "c", "d"):
        assert append(headrace, stream, few, "--source", name)["appended"] == 3
    append(headrace, stream, few)
    for name in ("a", "b", "c", "d"):
        assert append(headrace, stream, few, "--source", name)["appended"] == 0
    fails(headrace, "append", stream, few, "--source", "a", "--strand", "7", code="InvalidArgument", says="there is no strand 7")
    # Which strand a source has was decided once: on another one it would begin again.
    append(headrace, stream, few, "--source", "e", "--strand", "1")
    more = ("append", stream, many, "--source", "e", "--strand")
    fails(headrace, *more, "0", code="Conflict", says='the source "e" has strand 1 of this stream, not 0')
    assert append(headrace, *more[1:], "1")["appended"] == 2


@pytest.mark.parametrize("order", ["planned", "arrival"])
def test_whole_blocks_in_order(headrace: Headrace, tmp_path: Path, order: str) -> None:
    stream = tmp_path / "s"
    create(headrace, stream, "--lanes", "1", "--strands", "3", "--order", order, "--block-steps", "2")
    done = headrace("append", stream, numbers(tmp_path / "a.jsonl", list(range(9))), "--source", "a", "--json")
    left = {"left_over": 1} if order == "planned" else {}
    assert done.status == (1 if left else 0)
    assert done.json == {"appended": 9 - len(left), "skipped": 0, "first_step": 0, "steps": 9 - len(left), **left}
    assert append(headrace, stream, numbers(tmp_path / "b.jsonl", list(range(12))), "--source", "a")["steps"] == 12
    assert values_of(headrace, stream) == list(range(12))
    assert headrace("verify", stream).status == 0


def test_digests_are_of_content_and_not_of_how_it_is_stored(headrace: Headrace, tmp_path: Path) -> None:
    path = numbers(tmp_path / "a.jsonl", [3, 1, 4, 1])
    answers = []
    for name, shape, words in [
        ("a", ["--strands", "1"], []),
        ("b", ["--strands", "4", "--order", "arrival", "--block-steps", "4"], ["--zstd"]),
    ]:
        create(headrace, tmp_path / name, "--lanes", "1", *shape)
        append(headrace, tmp_path / name, path, *words)
        answers.append(headrace("digest", tmp_path / name, "--json").json)
    assert answers[0] == answers[1]
    hashes = answers[0]["steps"]
    assert answers[0]["all"] == hashlib.sha256("".join(hashes).encode()).hexdigest()
    assert hashes[1] == hashes[3] != hashes[0]
    part = headrace("digest", tmp_path / "a", "--from", "1", "--to", "3", "--json").json
    assert part["steps"] == hashes[1:3]
    fails(headrace, "digest", tmp_path / "a", "--to", "9", code="NotFound", says="there are 4 steps")


def test_inspect_has_the_promised_keys(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    uuid = create(headrace, stream, "--lanes", "2", "--strands", "3", "--order", "arrival")
    append(headrace, stream, lines(tmp_path / "a.jsonl", [{"x": list(range(400))}]), "--strand", "1", "--zstd")
    assert headrace("pin", stream, "ckpt", "--step", "1").status == 0
    shown = headrace("inspect", stream, "--json").json
    expected = {
        "uuid": uuid,
        "steps": 1,
        "trim": 0,
        "lanes": 2,
        "strands": 3,
        "order": "arrival",
        "sealed": False,
        "mixtures": [],
    }
    assert {key: shown[key] for key in expected} == expected
    assert shown["bytes"] == an_object(stream, "data").stat().st_size
    assert shown["manifest_bytes"] == an_object(stream, "log").stat().st_size
    assert shown["manifest"] == int(an_object(stream, "log").name)
    assert shown["pins"] == [{"name": "ckpt", "step": 1, "term_seconds": 0}]
    (producer,) = shown["producers"]
    assert (producer["strands"], producer["epoch"]) == ([1], 1)
    step = headrace("inspect", stream, "--step", "0", "--json").json
    assert step["mixture"] == 0
    assert step["chunk"]["object"] == f"file://{an_object(stream, 'data')}"
    assert [cell["lane"] for cell in step["cells"]] == [0, 1]
    assert {cell["codec"] for cell in step["cells"]} == {"zstd"}
    assert all(cell["stored_bytes"] < cell["bytes"] for cell in step["cells"])
    assert uuid in headrace("inspect", stream).out
    fails(headrace, "inspect", stream, "--step", "1", code="NotFound", says="there are 1 steps")


def test_pins_hold_and_collecting_gives_up_the_rest(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream)
    append(headrace, stream, numbers(tmp_path / "a.jsonl", list(range(10))), "--source", "a")
    nothing = headrace("gc", stream, "--grace", "0", "--json").json
    assert (nothing["chunks"], nothing["trim"]) == (0, 0)
    assert headrace("pin", stream, "old", "--step", "3").status == 0
    assert headrace("pin", stream, "new", "--step", "6").status == 0
    assert [pin["name"] for pin in headrace("pins", stream, "--json").json["pins"]] == ["new", "old"]
    before = headrace("digest", stream, "--from", "6", "--json").json
    dry = headrace("gc", stream, "--dry-run", "--json").json
    assert (dry["dry_run"], dry["trim"], dry["chunks"], dry["kept_chunks"]) == (True, 3, 2, 1)
    why = "1 chunk before step 3 stays ("
    assert why in headrace("gc", stream, "--dry-run").out
    assert headrace("digest", stream, "--from", "0", "--json").status == 0
    assert headrace("unpin", stream, "old").status == 0
    gone = headrace("gc", stream, "--grace", "0", "--json").json
    assert (gone["trim"], gone["kept_chunks"]) == (6, 1)
    assert len(list((stream / "data" / "0").iterdir())) == 5, "four from step 6 on, and one before"
    assert "1 chunk before step 6 stays (" in headrace("gc", stream, "--grace", "0").out
    assert headrace("digest", stream, "--json").json == before
    fails(headrace, "cat", stream, "--step", "2", code="Trimmed", says="begins at step 6")
    fails(headrace, "pin", stream, "low", "--step", "5", code="Trimmed", says="everything before step 6 was given up")
    fails(headrace, "pin", stream, "high", "--step", "99", code="InvalidArgument", says="10 steps so far")
    # A slip must not look like success: the pin that was meant would stay. A script that runs again may say so.
    fails(headrace, "unpin", stream, "old", code="NotFound", says='no pin named "old"')
    fails(headrace, "unpin", stream, "nwe", code="NotFound", says="did you mean new?")
    again = headrace("unpin", stream, "old", "--missing-ok", "--json")
    assert (again.status, again.json) == (0, {"name": "old", "step": None})
    assert [pin["name"] for pin in headrace("pins", stream, "--json").json["pins"]] == ["new"]
    assert headrace("verify", stream).status == 0
    # What a source has given is known even when its steps are gone.
    assert append(headrace, stream, numbers(tmp_path / "a.jsonl", list(range(11))), "--source", "a")["skipped"] == 10


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(bytes(data))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink], ids=["flipped", "cut", "gone"])
def test_a_damaged_chunk_is_named_and_never_shown(headrace: Headrace, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    stream = tmp_path / "s"
    create(headrace, stream)
    append(headrace, stream, lines(tmp_path / "a.jsonl", [{"x": list(range(500))}, {"x": [1]}, {"x": [2]}]))
    victim = Path(headrace("inspect", stream, "--step", "0", "--json").json["chunk"]["object"].removeprefix("file://"))
    victim.chmod(0o644)
    damage(victim)
    done = headrace("verify", stream, "--json")
    assert done.status == 1
    assert done.json["ok"] is False
    assert [item["object"] for item in done.json["damaged"]] == [f"file://{victim}"]
    # The chunk after it is whole. Whether it continues the chain is known as long as the header of the damaged one can be read.
    after = headrace("inspect", stream, "--step", "1", "--json").json["chunk"]["object"]
    unchecked = [after] if damage is Path.unlink else []
    assert [item["object"] for item in done.json["unchecked"]] == unchecked
    people = headrace("verify", stream)
    assert people.status == 1
    assert str(victim) in people.out
    assert f"not checked: {after}" in people.out or not unchecked
    assert "1 damaged object among 3 steps" in people.out
    if damage is not cut:  # what a cut takes away is the footer, which a reader of cells does not need
        fails(headrace, "cat", stream, "--step", "0", code="Corrupt", says=str(victim))
    assert headrace("cat", stream, "--step", "1").status == 0


@pytest.mark.parametrize("damage", [flip, cut], ids=["flipped", "cut"])
def test_a_damaged_manifest_or_description_is_named(headrace: Headrace, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    for folder in ("log", ""):
        stream = tmp_path / f"s{folder}"
        create(headrace, stream)
        append(headrace, stream, numbers(tmp_path / "a.jsonl", [1]))
        victim = an_object(stream, "log") if folder else stream / "stream.json"
        victim.chmod(0o644)
        damage(victim)
        done = headrace("verify", stream)
        assert done.status == 1, (folder, done)
        assert str(victim) in done.out + done.err
        for words in (["inspect", stream], ["append", stream, tmp_path / "a.jsonl"], ["digest", stream]):
            again = headrace(*words)
            assert again.status == 1
            assert str(victim) in again.err


def test_a_damaged_segment_of_the_index_is_named(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream)
    append(headrace, stream, numbers(tmp_path / "a.jsonl", list(range(220))))
    assert headrace("verify", stream, "--json").json["segments"] == 1
    victim = an_object(stream, "index")
    victim.chmod(0o644)
    flip(victim)
    done = headrace("verify", stream, "--json")
    assert done.status == 1
    assert [item["object"] for item in done.json["damaged"]] == [f"file://{victim}"]
    fails(headrace, "digest", stream, code="Corrupt", says=str(victim))


def test_another_streams_objects_are_refused(headrace: Headrace, tmp_path: Path) -> None:
    path = numbers(tmp_path / "a.jsonl", [1])
    for name in ("a", "b"):
        create(headrace, tmp_path / name)
        append(headrace, tmp_path / name, path)
    ours, theirs = an_object(tmp_path / "a", "log"), an_object(tmp_path / "b", "log")
    ours.chmod(0o644)
    ours.write_bytes(theirs.read_bytes())
    fails(headrace, "append", tmp_path / "a", path, code="Corrupt", says="belongs to another stream")


def test_wrong_words_and_places(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    fails(headrace, "inspect", stream, code="NotFound", says="headrace create --help")
    for words, says in [
        (["--lanes", "0", "--strands", "1", "--columns", "x:int8"], "--lanes"),
        (["--lanes", "1", "--strands", "257", "--columns", "x:int8"], "--strands"),
        (["--lanes", "1", "--strands", "1", "--columns", "x:int7"], '"int7" is no type'),
        (["--lanes", "1", "--strands", "1", "--columns", "x"], "name:type"),
        (["--lanes", "1", "--strands", "1", "--columns", "x:int8,x:int8"], 'two columns are named "x"'),
        (["--lanes", "1", "--strands", "1", "--columns", "x:int8", "--order", "random"], "--order"),
        (["--lanes", "1", "--strands", "1"], "--columns"),
    ]:
        done = headrace("create", stream, *words)
        assert done.status == 2, done
        assert says in done.err
    assert not stream.exists()
    create(headrace, stream)
    words = ("--lanes", "1", "--strands", "1", "--columns", "x:int8")
    fails(headrace, "create", stream, *words, code="Conflict", says="there is a stream at")
    fails(headrace, "cat", stream, "--step", "0", "--lane", "1", code="InvalidArgument", says="there is no lane 1")


def test_create_tries_the_store_first(headrace: Headrace, tmp_path: Path) -> None:
    done = headrace("create", tmp_path / "s", "--lanes", "1", "--strands", "1", "--columns", "x:int8")
    assert done.status == 0, done.err
    assert done.out.strip() == headrace("inspect", tmp_path / "s", "--json").json["uuid"]


def feed(process: subprocess.Popen[str], value: int) -> None:
    assert process.stdin
    process.stdin.write(json.dumps({"x": [value]}) + "\n")
    process.stdin.flush()


def piped(headrace: Headrace, *words: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [headrace.binary, *map(str, words)],
        env=headrace.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_steps(headrace: Headrace, stream: Path, steps: int) -> None:
    end = time.monotonic() + 120
    while headrace("inspect", stream, "--json").json["steps"] < steps:
        assert time.monotonic() < end


def test_a_second_process_on_the_same_strand_fences_the_first(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream, "--lanes", "1", "--strands", "2", "--order", "arrival")
    first = piped(headrace, "append", stream, "--strand", "0", "--json")
    feed(first, 1)
    wait_for_steps(headrace, stream, 1)
    append(headrace, stream, numbers(tmp_path / "a.jsonl", [2]), "--strand", "0")
    feed(first, 3)
    out, err = first.communicate(timeout=120)
    assert first.returncode == 1
    assert json.loads(out)["error"]["code"] == "Fenced"
    assert "another process took strand 0" in err
    assert values_of(headrace, stream) == [1, 2]


def test_who_loses_its_strand_takes_another(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream, "--lanes", "1", "--strands", "2", "--order", "arrival")
    first = piped(headrace, "append", stream, "--json")
    feed(first, 1)
    wait_for_steps(headrace, stream, 1)
    (producer,) = headrace("inspect", stream, "--json").json["producers"]
    append(headrace, stream, numbers(tmp_path / "a.jsonl", [2]), "--strand", str(producer["strands"][0]))
    feed(first, 3)
    out, err = first.communicate(timeout=120)
    assert first.returncode == 0, err
    assert json.loads(out)["appended"] == 2
    assert values_of(headrace, stream) == [1, 2, 3]


def test_two_processes_with_one_source_append_it_once(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream, "--lanes", "1", "--strands", "4", "--order", "arrival")
    path = numbers(tmp_path / "a.jsonl", list(range(60)))
    processes = [headrace.start("append", stream, path, "--source", "a", "--json") for _ in range(3)]
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert process.returncode in (0, 1), err
        assert process.returncode == 0 or "another process appends the source" in err, err
    append(headrace, stream, path, "--source", "a")
    assert values_of(headrace, stream) == list(range(60))


def test_interrupted_it_says_how_far_it_came(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream)
    process = piped(headrace, "append", stream, "--json")
    feed(process, 1)
    feed(process, 2)
    wait_for_steps(headrace, stream, 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130
    assert process.stdout
    assert json.load(process.stdout) == {"appended": 2, "skipped": 0, "first_step": 0, "steps": 2, "interrupted": True}
    assert values_of(headrace, stream) == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["arrival", "planned"])
def test_killed_and_started_again_every_line_is_there_once(headrace: Headrace, tmp_path: Path, order: str) -> None:
    """Several appending processes, each killed at random moments until it got through; in rounds, until enough were killed."""
    stream, calm = tmp_path / "s", tmp_path / "calm"
    producers, per_round = (4, 30) if order == "arrival" else (1, 120)
    per_producer = 0
    for where in (stream, calm):
        create(headrace, where, "--lanes", "1", "--strands", "4", "--order", order)
    dice = random.Random(7)
    kills = 0

    def start(p: int, lives: int) -> tuple[subprocess.Popen[str], float, int]:
        # As long as one takes here that nobody disturbs: sooner or later at that, on any machine.
        patience = dice.uniform(0, whole_life) if lives < 8 else 1e9
        words = ["append", stream, tmp_path / f"{p}.jsonl", "--source", f"producer {p}"]
        return headrace.start(*words), time.monotonic() + patience, lives + 1

    for _ in range(50):
        # What the rounds before have brought stands in front, as in a log that grows.
        per_producer += per_round
        for p in range(producers):
            numbers(tmp_path / f"{p}.jsonl", [100_000 * p + i for i in range(per_producer)])
        begin = time.monotonic()
        append(headrace, calm, tmp_path / "0.jsonl", "--source", "producer 0")
        whole_life = time.monotonic() - begin
        running = {p: start(p, 0) for p in range(producers)}
        end = time.monotonic() + 300
        while running:
            assert time.monotonic() < end
            for p, (process, until, lives) in list(running.items()):
                if process.poll() is not None:
                    _, err = process.communicate()
                    del running[p]
                    if process.returncode != 0:
                        assert process.returncode == -signal.SIGKILL, err
                        kills += 1
                        running[p] = start(p, lives)
                elif time.monotonic() > until:
                    process.kill()
                    process.wait()
            time.sleep(0.005)
        if kills >= 5:
            break
    assert kills >= 5
    assert headrace("verify", stream).status == 0
    found = values_of(headrace, stream)
    assert sorted(found) == [100_000 * p + i for p in range(producers) for i in range(per_producer)]
    for p in range(producers):
        mine = [value for value in found if value // 100_000 == p]
        assert mine == sorted(mine)


def test_on_a_bucket(headrace: Headrace, reference: Bucket, tmp_path: Path) -> None:
    env = reference.env
    create(headrace, reference.uri, "--lanes", "1", "--strands", "2", "--order", "arrival", env=env)
    path = numbers(tmp_path / "a.jsonl", [1, 2, 3])
    assert append(headrace, reference.uri, path, "--source", "a", env=env)["appended"] == 3
    assert append(headrace, reference.uri, path, "--source", "a", env=env)["skipped"] == 3
    assert headrace("verify", reference.uri, env=env).status == 0
    assert headrace("pin", reference.uri, "p", "--step", "2", env=env).status == 0
    assert headrace("gc", reference.uri, "--grace", "0", "--json", env=env).json["trim"] == 2
    assert headrace("digest", reference.uri, "--json", env=env).json["from"] == 2
