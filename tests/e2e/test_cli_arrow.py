"""`append` with Arrow IPC: each record batch is one step, from files and pipes; a bad batch is named and leaves nothing."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
from calls import Headrace, Json
from test_cli_stream import append, create, fails, lines, values_of, wait_for_steps

pytestmark = pytest.mark.slow

COLUMNS = "tokens:int32,mask:bool,text:bytes,ids:ragged:int64,image:uint8,scale:float32"


def ipc_bytes(batches: list[pa.RecordBatch], kind: str = "file", compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with new(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def ipc(path: Path, batches: list[pa.RecordBatch], kind: str = "file", compression: str | None = None) -> Path:
    path.write_bytes(ipc_bytes(batches, kind, compression))
    return path


def of_numbers(values: list[int]) -> list[pa.RecordBatch]:
    return [pa.record_batch({"x": pa.array([value], pa.int64())}) for value in values]


def step(seed: int, rows: int = 4) -> Json:
    """One step of every kind of column, as JSON lines have it."""
    draw = np.random.default_rng(seed)
    return {
        "tokens": draw.integers(0, 1000, (rows, 3)).tolist(),
        "mask": (draw.random((rows, 2)) < 0.5).tolist(),
        "text": ["x" * int(n) for n in draw.integers(0, 5, rows)],
        "ids": [draw.integers(-9, 9, int(n)).tolist() for n in draw.integers(0, 4, rows)],
        "image": draw.integers(0, 255, (rows, 2, 2)).tolist(),
        "scale": [float(n) for n in draw.integers(0, 9, rows)],
    }


def batch_of(one: Json, large: bool = False, views: bool = False) -> pa.RecordBatch:
    of = pa.large_list if large else pa.list_
    text = pa.string_view() if views else pa.large_binary() if large else pa.string()
    image = pa.FixedShapeTensorArray.from_numpy_ndarray(np.array(one["image"], np.uint8))
    return pa.record_batch(
        {
            "scale": pa.array(one["scale"], pa.float64() if large else pa.float32()),
            "tokens": pa.array(one["tokens"], of(pa.int64()) if large else pa.list_(pa.int32(), 3)),
            "mask": pa.array(one["mask"], pa.list_(pa.bool_(), 2)),
            "text": pa.array([t.encode() if large else t for t in one["text"]], text),
            "ids": pa.array(one["ids"], of(pa.int64())),
            "image": image if not large else pa.array(one["image"], of(of(pa.uint8()))),
        }
    )


def digest(headrace: Headrace, stream: Path) -> str:
    return headrace("digest", stream, "--json").json["all"]


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_batches_are_the_steps_that_json_lines_make(headrace: Headrace, tmp_path: Path, kind: str) -> None:
    steps = [step(seed) for seed in range(5)]
    shape = ("--lanes", "2", "--strands", "2", "--order", "arrival")
    create(headrace, tmp_path / "json", *shape, columns=COLUMNS)
    append(headrace, tmp_path / "json", lines(tmp_path / "a.jsonl", steps))
    want = digest(headrace, tmp_path / "json")
    ways = {"plain": None, "large": None, "views": None, "packed": "zstd"}
    for name, compression in ways.items():
        batches = [batch_of(one, large=name == "large", views=name == "views") for one in steps]
        path = ipc(tmp_path / f"{name}.arrow", batches, kind, compression)
        create(headrace, tmp_path / name, *shape, columns=COLUMNS)
        assert append(headrace, tmp_path / name, path) == {"appended": 5, "skipped": 0, "first_step": 0, "steps": 5}
        assert digest(headrace, tmp_path / name) == want, name
    # A slice has offsets of its own.
    both = [batch_of(step(seed, rows=8)) for seed in range(2)]
    halves = [batch.drop_columns(["image"]).slice(at, 4) for batch in both for at in (0, 4)]
    whole = [pa.RecordBatch.from_pylist(half.to_pylist(), schema=half.schema) for half in halves]
    for name, batches in (("sliced", halves), ("written", whole)):
        create(headrace, tmp_path / name, *shape, columns=COLUMNS.replace("image:uint8,", ""))
        append(headrace, tmp_path / name, ipc(tmp_path / f"{name}.arrow", batches, kind))
    assert digest(headrace, tmp_path / "sliced") == digest(headrace, tmp_path / "written")


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("words", [(), ("--format", "arrow"), ("-",)])
def test_arrow_from_stdin(headrace: Headrace, tmp_path: Path, kind: str, words: tuple[str, ...]) -> None:
    stream = tmp_path / "s"
    create(headrace, stream)
    content = ipc_bytes(of_numbers([3, 1, 4]), kind)
    # Through a pipe that brings little at a time, and from a file.
    command = [str(headrace.binary), "append", str(stream), *words, "--json"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=headrace.environment
    ) as process:
        assert process.stdin is not None
        for at in range(0, len(content), 37):
            process.stdin.write(content[at : at + 37])
            process.stdin.flush()
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, (out, err)
    with ipc(tmp_path / "a.bin", of_numbers([1, 5]), kind).open() as file:
        assert subprocess.run(command, stdin=file, env=headrace.environment, capture_output=True, check=False).returncode == 0
    assert values_of(headrace, stream) == [3, 1, 4, 1, 5]


def test_json_lines_on_stdin_stay_what_they_were(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream)
    for words in ((), ("--format", "jsonl")):
        done = subprocess.run(
            [headrace.binary, "append", stream, *words],
            input=b'\n{"x": [7]}\n',
            env=headrace.environment,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    (tmp_path / "odd.name").write_text('{"x": [8]}\n')
    fails(headrace, "append", stream, tmp_path / "odd.name", code="InvalidArgument", says="--format says what files")
    append(headrace, stream, tmp_path / "odd.name", "--format", "jsonl")
    assert headrace("append", stream, tmp_path / "odd.name", "--format", "csv").status == 2
    fails(headrace, "append", stream, "-", "--format", "npz", code="InvalidArgument", says="not from stdin")
    assert values_of(headrace, stream) == [7, 7, 8]


def test_formats_may_be_mixed_and_a_source_goes_on_in_the_middle_of_a_file(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream)
    np.savez(tmp_path / "b.npz", x=np.array([2]))
    arrow, streamed = ipc(tmp_path / "a.arrow", of_numbers([0, 1])), ipc(tmp_path / "d.arrows", of_numbers([4, 5, 6]), "stream")
    files = [arrow, tmp_path / "b.npz", lines(tmp_path / "c.jsonl", [{"x": [3]}]), streamed]
    few = [arrow, tmp_path / "b.npz", tmp_path / "c.jsonl", ipc(tmp_path / "few.arrows", of_numbers([4, 5]), "stream")]
    assert append(headrace, stream, *few, "--source", "a")["appended"] == 6
    assert append(headrace, stream, *files, "--source", "a") == {"appended": 1, "skipped": 6, "first_step": 6, "steps": 7}
    assert (
        append(headrace, stream, ipc(tmp_path / "e.feather", of_numbers([0, 1, 7])), "--source", "b", "--zstd")["appended"] == 3
    )
    assert append(headrace, stream, ipc(tmp_path / "e.feather", of_numbers([0, 1, 7, 8])), "--source", "b")["skipped"] == 3
    assert values_of(headrace, stream) == [0, 1, 2, 3, 4, 5, 6, 0, 1, 7, 8]
    assert headrace("verify", stream).status == 0


def test_a_wrong_batch_is_named_and_leaves_nothing(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream, "--lanes", "2", "--strands", "1", columns="x:int8,t:bytes,r:ragged:int32")

    def record(**changed: pa.Array | None) -> pa.RecordBatch:
        arrays = {
            "x": pa.array([1, 2], pa.int64()),
            "t": pa.array(["a", "b"]),
            "r": pa.array([[1], []], pa.list_(pa.int32())),
            **changed,
        }
        return pa.record_batch({name: array for name, array in arrays.items() if array is not None})

    ragged = pa.array([[1], [1, 2]], pa.list_(pa.int64()))
    for bad, says in [
        (record(x=pa.array([1, 128])), 'column "x": element 1: 128 does not fit int8'),
        (record(x=pa.array([1.0, 1.5])), "1.5 is not a whole number"),
        (record(x=pa.array([1, None])), 'column "x": element 1 of 2 is null'),
        (record(x=pa.array([[1, 2], [1, None]])), "element 3 of 4 is null"),
        (record(x=pa.array(["a", "b"])), 'column "x": it holds string, not numbers of int8'),
        (record(x=pa.array([1, 2], pa.timestamp("s"))), "it holds timestamp[s], not numbers"),
        (record(x=ragged), "lists of one level must be equally long: one has 1 elements, another 2"),
        (record(x=None), 'column "x": it is missing'),
        (record(y=pa.array([1, 2])), 'there is no column "y"; the stream has x, t, r'),
        (record(t=pa.array([1, 2])), "a bytes column is a column of texts or binaries, not of int64"),
        (record(t=pa.array(["a", "b"]).dictionary_encode()), "write the values themselves"),
        (record(r=pa.array([1, 2])), "a ragged column is a column of lists, not of int64"),
        (record(r=ragged.cast(pa.list_(pa.float64()))), None),
        (record().slice(0, 1), 'column "x": 1 rows cannot be split evenly over the 2 lanes'),
    ]:
        before = headrace("inspect", stream, "--json").json["steps"]
        path = ipc(tmp_path / "bad.arrow", [bad])
        if says is None:
            append(headrace, stream, path)
            continue
        fails(headrace, "append", stream, path, code="InvalidArgument", says=f"{path}, record batch 0: ")
        done = headrace("append", stream, path)
        assert says in done.err, done.err
        assert headrace("inspect", stream, "--json").json["steps"] == before
    nulls = pa.record_batch({**dict(zip("xtr", record().columns, strict=True)), "x": pa.array([1, None], pa.int64())})
    path = ipc(tmp_path / "third.arrow", [record(), record(), nulls, record()])
    before = headrace("inspect", stream, "--json").json["steps"]
    fails(headrace, "append", stream, path, code="InvalidArgument", says=f"{path}, record batch 2: ")
    assert headrace("inspect", stream, "--json").json["steps"] == before + 2
    assert headrace("verify", stream).status == 0


def test_a_file_that_is_cut_or_damaged_is_refused(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream)
    batches = [pa.record_batch({"x": pa.array(range(at, at + 500), pa.int64())}) for at in range(4)]
    whole, ordered = ipc_bytes(batches), ipc_bytes(batches, "stream")
    for cut in (len(whole) - 1, len(whole) // 2, 7, 3):
        (tmp_path / "cut.arrow").write_bytes(whole[:cut])
        fails(headrace, "append", stream, tmp_path / "cut.arrow", code="InvalidArgument", says="cut.arrow")
        assert headrace("inspect", stream, "--json").json["steps"] == 0
    (tmp_path / "cut.arrows").write_bytes(ordered[: len(ordered) * 5 // 8])
    fails(
        headrace,
        "append",
        stream,
        tmp_path / "cut.arrows",
        code="InvalidArgument",
        says="cut.arrows, record batch 2: ",
    )
    assert headrace("inspect", stream, "--json").json["steps"] == 2
    # A file whose footer is missing, on a pipe: its batches are whole, and yet something is.
    done = subprocess.run(
        [headrace.binary, "append", stream, "--json"],
        input=whole[:-6],
        env=headrace.environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"its end is missing" in done.stdout
    for noise in (b"", b"ARROW1 but nothing more", bytes(100), os.urandom(1000)):
        (tmp_path / "noise.arrow").write_bytes(noise)
        fails(headrace, "append", stream, tmp_path / "noise.arrow", code="InvalidArgument", says="noise.arrow")
    fails(headrace, "append", stream, tmp_path / "none.arrow", code="NotFound", says="none.arrow: No such file")
    for at in range(8, len(whole), 97):
        flipped = bytearray(whole)
        flipped[at] ^= 0x55
        (tmp_path / "flipped.arrow").write_bytes(flipped)
        # Arrow has no checksums: other numbers are not noticed, everything else is.
        assert headrace("append", stream, tmp_path / "flipped.arrow").status in (0, 1)
    assert headrace("verify", stream).status == 0


def test_without_headrace_lake_arrow_is_refused_and_the_rest_goes_on(headrace: Headrace, tmp_path: Path) -> None:
    alone = tmp_path / "bin"
    alone.mkdir()
    shutil.copy2(headrace.binary, alone / "headrace")
    headrace.binary = alone / "headrace"
    stream = tmp_path / "s"
    create(headrace, stream)
    path = ipc(tmp_path / "a.arrow", of_numbers([1]))
    fails(
        headrace,
        "append",
        stream,
        path,
        code="Unsupported",
        says=f"{path}: this Headrace was built without what reading Arrow IPC needs",
    )
    append(headrace, stream, lines(tmp_path / "a.jsonl", [{"x": [1]}]))
    assert values_of(headrace, stream) == [1]


def test_ctrl_c_ends_a_wait_for_arrow(headrace: Headrace, tmp_path: Path) -> None:
    stream = tmp_path / "s"
    create(headrace, stream)
    content = ipc_bytes(of_numbers([1, 2]), "stream")
    with subprocess.Popen(
        [headrace.binary, "append", stream, "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=headrace.environment
    ) as process:
        assert process.stdin is not None
        process.stdin.write(content[:-8])
        process.stdin.flush()
        wait_for_steps(headrace, stream, 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130
    assert values_of(headrace, stream) == [1, 2]
