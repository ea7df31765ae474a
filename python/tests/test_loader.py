"""A loader's promises: each step once and in order, whatever is called when."""

from __future__ import annotations

import gc
import json
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packing import PackedStream, write_numbers

import headrace as hr


def numbers_of(steps: Any) -> list[int]:  # noqa: ANN401
    return [step.number for step in steps]


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def settle(count: int) -> None:
    """Waits for the kernel to take ended threads off its list."""
    deadline = time.monotonic() + 60
    while threads() > count and time.monotonic() < deadline:
        time.sleep(0.01)


def steady_threads() -> int:
    """How many there are once those of the tests before have ended."""
    gc.collect()
    deadline = time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline
        count, until = threads(), time.monotonic() + 0.3
        while threads() == count:
            if time.monotonic() > until:
                return count
            time.sleep(0.01)


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


# --- Iterating -----------------------------------------------------------------------------------------------------------


def test_a_sealed_stream_ends_and_has_a_length(numbers: str) -> None:
    with hr.Loader(numbers) as loader:
        assert len(loader) == 20
        assert numbers_of(loader) == list(range(20))
        assert numbers_of(loader) == []
        assert loader.state_dict()["next_step"] == 20


def test_a_stream_without_steps(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 0)
    with hr.Loader(uri) as loader:
        assert list(loader) == []
        assert len(loader) == 0


def test_an_open_stream_has_no_length(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 2, seal=False)
    with hr.Loader(uri) as loader:
        with pytest.raises(TypeError, match="not sealed"):
            len(loader)
        assert next(iter(loader)).number == 0


def test_break_and_again_goes_on(numbers: str) -> None:
    with hr.Loader(numbers) as loader:
        for step in loader:
            if step.number == 4:
                break
        assert numbers_of(loader) == list(range(5, 20))


def test_two_iterators_share_one_cursor(numbers: str) -> None:
    with hr.Loader(numbers) as loader:
        one, other = iter(loader), iter(loader)
        assert [next(one).number, next(other).number, next(one).number] == [0, 1, 2]


def test_several_threads_get_each_step_once(numbers: str) -> None:
    got: list[int] = []
    with hr.Loader(numbers) as loader:
        workers = [threading.Thread(target=lambda: got.extend(numbers_of(loader))) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert sorted(got) == list(range(20))


def test_an_eval_loader_can_be_iterated_again(numbers: str) -> None:
    with hr.Loader(numbers, role="eval") as loader:
        assert numbers_of(loader) == list(range(20))
        assert numbers_of(loader) == list(range(20))
        first = iter(loader)
        assert next(first).number == 0
        second = iter(loader)
        assert next(second).number == 0
        with pytest.raises(hr.InvalidArgument, match="one at a time"):
            next(first)
    with hr.Loader(numbers, role="eval") as loader:
        loader.seek(15)
        assert numbers_of(loader) == numbers_of(loader) == [15, 16, 17, 18, 19]


def test_look_back(numbers: str) -> None:
    with hr.Loader(numbers) as loader:
        steps = iter(loader)
        next(steps)
        assert loader.step(17)["x"].ravel().tolist() == [17000, 17001, 17002, 17003]
        assert next(steps).number == 1
        loader.seek(10)
        assert next(steps).number == 10
        loader.skip(range(11, 14))
        loader.skip(range(15, 16))
        assert numbers_of(steps) == [14, 16, 17, 18, 19]
        assert loader.state_dict()["skipped"] == [[11, 14], [15, 16]]
        with pytest.raises(hr.NotFound, match="the stream ends after 20 steps"):
            loader.step(20)
        with pytest.raises(hr.InvalidArgument):
            loader.seek(-1)
        with pytest.raises(hr.InvalidArgument):
            loader.skip([1, 2])  # type: ignore[arg-type]


# --- State ---------------------------------------------------------------------------------------------------------------


def test_the_state_is_small_json_and_the_same_on_every_rank(numbers: str) -> None:
    states = set()
    for rank in range(4):
        with hr.Loader(numbers, dp=(rank, 4)) as loader:
            steps = iter(loader)
            for _ in range(7):
                next(steps)
            states.add(json.dumps(loader.state_dict()))
    assert len(states) == 1
    state = json.loads(states.pop())
    assert set(state) == {"version", "stream", "next_step", "skipped"}
    assert state["next_step"] == 7
    assert len(json.dumps(state)) < 200


def test_another_number_of_ranks_goes_on_with_the_same_samples(numbers: str) -> None:
    with hr.Loader(numbers, dp=(0, 4)) as loader:
        steps = iter(loader)
        for _ in range(3):
            next(steps)
        loader.skip(range(5, 7))
        state = loader.state_dict()
    for size in (1, 2):
        got = []
        for rank in range(size):
            with hr.Loader(numbers, dp=(rank, size)) as loader:
                loader.load_state_dict(state)
                got.append({step.number: step["x"].ravel().tolist() for step in loader})
        assert list(got[0]) == [3, 4, *range(7, 20)]
        for number in got[0]:
            assert [x for part in got for x in part[number]] == [1000 * number + lane for lane in range(4)]


def test_saved_right_after_loaded_is_what_was_loaded(numbers: str) -> None:
    with hr.Loader(numbers) as loader:
        state = {**loader.state_dict(), "next_step": 9, "skipped": [[11, 12]]}
        loader.load_state_dict(state)
        assert loader.state_dict() == state
        loader.load_state_dict({**state, "next_step": 8})
        assert numbers_of(loader) == [8, 9, 10, *range(12, 20)]


def test_a_state_may_be_loaded_after_iter_but_not_after_the_first_step(numbers: str) -> None:
    with hr.Loader(numbers) as loader:
        state = {**loader.state_dict(), "next_step": 9}
        steps = iter(loader)
        loader.load_state_dict(state)
        assert next(steps).number == 9
        with pytest.raises(hr.InvalidArgument, match=r"seek\(n\)"):
            loader.load_state_dict(state)
        assert next(steps).number == 10


def test_the_state_at_the_end_gives_an_empty_loop(numbers: str) -> None:
    with hr.Loader(numbers) as loader:
        list(loader)
        state = loader.state_dict()
    with hr.Loader(numbers) as loader:
        loader.load_state_dict(state)
        assert list(loader) == []
        assert loader.state_dict() == state


def test_what_is_read_ahead_is_not_in_the_state(numbers: str) -> None:
    with hr.Loader(numbers) as loader:
        next(iter(loader))
        wait_until(lambda: loader.stats()["ready_steps"] >= 10)
        assert loader.state_dict()["next_step"] == 1


def test_manual_acknowledgement_counts_what_is_done(numbers: str) -> None:
    with hr.Loader(numbers, ack="manual") as loader:
        steps = iter(loader)
        for _ in range(5):  # a framework that fetches ahead
            next(steps)
        assert loader.state_dict()["next_step"] == 0
        loader.done(1)
        assert loader.state_dict()["next_step"] == 2
        loader.done(0)
        assert loader.state_dict()["next_step"] == 2
        with pytest.raises(hr.InvalidArgument, match="not handed out yet"):
            loader.done(5)
    with hr.Loader(numbers) as loader, pytest.raises(hr.InvalidArgument, match="manual"):
        loader.done(0)


def test_a_wrong_state_is_refused(numbers: str, packed: PackedStream) -> None:
    with hr.Loader(numbers) as loader, hr.Loader(packed.uri) as other:
        state = loader.state_dict()
        with pytest.raises(hr.InvalidArgument, match="its steps are others"):
            loader.load_state_dict(other.state_dict())
        with pytest.raises(hr.Unsupported, match="version 2"):
            loader.load_state_dict({**state, "version": 2})
        for wrong in ({}, {**state, "next_step": -1}, {**state, "next_step": "a"}, {**state, "skipped": [1]}, None):
            with pytest.raises(hr.InvalidArgument):
                loader.load_state_dict(wrong)  # type: ignore[arg-type]


# --- Memory --------------------------------------------------------------------------------------------------------------


def test_views_are_not_copies_and_cannot_be_written(numbers: str) -> None:
    with hr.Loader(numbers, dp=(1, 4)) as loader:
        step = next(iter(loader))
        (lane,) = step.lanes()
        assert step["x"].__array_interface__["data"] == lane["x"].__array_interface__["data"]
        assert step["x"].__array_interface__["data"][0] % 64 == 0
        assert not step["x"].flags.owndata
        with pytest.raises(ValueError, match="read-only"):
            step["x"][0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            step["x"].flags.writeable = True


def test_a_column_of_several_lanes_is_no_copy_either(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 30, lanes=6, width=50, block_steps=3)
    with hr.Loader(uri, dp=(1, 2)) as loader:
        for step in loader:
            whole = step["x"]
            assert whole.shape == (3 * 50,) or whole.shape == (3, 50)
            lanes = [lane["x"] for lane in step.lanes()]
            assert np.array_equal(np.concatenate([lane.ravel() for lane in lanes]), whole.ravel())
            assert all(np.shares_memory(whole, lane) for lane in lanes)
            assert whole.flags.c_contiguous
            assert not whole.flags.writeable


@pytest.mark.parametrize("dp", [(1, 2), (0, 1)])
def test_views_outlive_the_step_the_loader_and_the_files(tmp_path: Path, dp: tuple[int, int]) -> None:
    uri = write_numbers(tmp_path / "s", 30, lanes=2, width=5000, block_steps=3)
    views = []
    loader = hr.Loader(uri, dp=dp)
    for step in loader:
        views.append(step["x"])
        del step
    loader.close()
    del loader
    subprocess.run(["rm", "-r", tmp_path / "s"], check=True)
    gc.collect()
    junk = [np.full(50_000, 7) for _ in range(50)]
    for number, view in enumerate(views):
        assert (view.reshape(-1, 5000) == 1000 * number + np.arange(2)[dp[0] :, None]).all()
    del junk


@pytest.mark.slow
def test_nothing_leaks_over_many_steps(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 2000, lanes=2, width=200, block_steps=20)

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    marks = []
    # A small window: how deep the loader reads ahead, and so how many threads it has, depends on the machine's mood otherwise.
    with hr.Loader(uri, role="eval", window="1MB") as loader:
        for _ in range(100):  # 200,000 steps; every thread's heap is warm after the first half
            total = 0
            for step in loader:
                total += int(step["x"][0, 0]) + len(list(step.lanes()))
            gc.collect()
            marks.append((resident(), descriptors(), threads()))
    # How much of it is in use moves with the machine's mood, a leak goes one way: the least at the end, the most before.
    for what, allowed in enumerate((10e6, 2, 4)):
        assert min(mark[what] for mark in marks[75:]) - max(mark[what] for mark in marks[25:50]) <= allowed, marks
    assert max(mark[2] for mark in marks) < threads() + 40, marks


def test_no_thread_survives_close(numbers: str) -> None:
    before = steady_threads()
    for _ in range(3):
        loader = hr.Loader(numbers)
        next(iter(loader))
        assert threads() > before
        loader.close()
        loader.close()
        settle(before)
        assert threads() == before
    # Nor one that nobody closed.
    loader = hr.Loader(numbers)
    next(iter(loader))
    del loader
    gc.collect()
    settle(before)
    assert threads() == before


def test_close_ends_the_wait_of_another_thread(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 1, seal=False)
    loader = hr.Loader(uri)
    failures: list[Exception] = []

    def train() -> None:
        try:
            list(loader)
        except hr.Error as error:
            failures.append(error)

    worker = threading.Thread(target=train)
    worker.start()
    time.sleep(0.3)
    loader.close()
    worker.join(60)  # it would have waited for five minutes
    assert not worker.is_alive()
    assert "closed" in str(failures[0])
    with pytest.raises(hr.Error, match="closed"):
        next(iter(loader))


# --- Processes -----------------------------------------------------------------------------------------------------------


def run_python(code: str, *arguments: str) -> subprocess.Popen[str]:
    code = "import sys, os, signal, time, threading\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + code
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize("waiting_in", ["next(steps)", "loader.pin('a' * 10); next(steps)"])
def test_ctrl_c_is_answered_at_once(tmp_path: Path, waiting_in: str) -> None:
    uri = write_numbers(tmp_path / "s", 1, seal=False)
    code = f"""
import headrace as hr
loader = hr.Loader(sys.argv[1])
steps = iter(loader)
next(steps)
while True:
    try:
        print("ready", flush=True)
        {waiting_in}
    except KeyboardInterrupt:
        print(time.monotonic(), flush=True)
    if sys.stdin.readline() != "again\\n":
        break
print(loader.state_dict()["next_step"], flush=True)
loader.close()
"""
    process = run_python(code, uri)
    assert process.stdin is not None
    assert process.stdout is not None
    delays: list[float] = []
    # A busy machine may be late now and then, but not always.
    while sum(delay < 0.1 for delay in delays) < 3 and len(delays) < 7:
        if delays:
            process.stdin.write("again\n")
            process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        delays.append(float(process.stdout.readline()) - sent)
    assert sum(delay < 0.1 for delay in delays) >= 3, delays
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "1\n", "")


def test_a_handler_may_close_the_loader(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 1, seal=False)
    code = """
import headrace as hr
loader = hr.Loader(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: loader.close())
print("ready", flush=True)
try:
    list(loader)
except hr.Error as error:
    print(error)
"""
    process = run_python(code, uri)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert "closed" in out, err


def test_the_end_of_the_interpreter_is_clean(numbers: str) -> None:
    # In the middle of reading, with views alive, with nothing closed.
    code = """
import headrace as hr
loaders = [hr.Loader(sys.argv[1]) for _ in range(3)]
views = [next(iter(loader))["x"] for loader in loaders]
"""
    process = run_python(code, numbers)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_fork_is_refused_with_words_that_help(numbers: str) -> None:
    code = """
import headrace as hr
loader = hr.Loader(sys.argv[1])
step = next(iter(loader))
child = os.fork()
if child == 0:
    uses = (lambda: next(iter(loader)), loader.state_dict, lambda: loader.pin("x"), lambda: loader.step(1), loader.stats)
    for use in uses:
        try:
            use()
            print("used")
        except hr.Error as error:
            assert "num_workers=0" in str(error) and "fork" in str(error), error
    print(step["x"].ravel().tolist())
    loader.close()
    own = hr.Loader(sys.argv[1])  # one of its own is fine
    print(next(iter(own)).number)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print(next(iter(loader)).number)
"""
    process = run_python(code, numbers)
    out, err = process.communicate(timeout=60)
    assert out.splitlines() == ["[0, 1, 2, 3]", "0", "1"], err
    assert process.returncode == 0


def test_a_loader_is_not_sent_to_other_processes(numbers: str) -> None:
    with hr.Loader(numbers) as loader, pytest.raises(TypeError, match="num_workers=0"):
        pickle.dumps(loader)


def test_starting_is_quick(numbers: str) -> None:
    # The import by what it takes of a processor, the first step in time, for somebody might wait: the best of several.
    code = """
begin = time.process_time()
import headrace
light = time.process_time() - begin
import headrace.loader
begin = time.perf_counter()
next(iter(headrace.Loader(sys.argv[1])))["x"]
print(light, time.perf_counter() - begin)
"""
    times: list[list[float]] = []
    while not times or (len(times) < 10 and (min(t[0] for t in times) > 0.15 or min(t[1] for t in times) > 0.3)):
        out, err = run_python(code, numbers).communicate(timeout=60)
        times.append([float(t) for t in out.split()])
        assert len(times[-1]) == 2, err
    assert min(t[0] for t in times) < 0.3
    assert min(t[1] for t in times) < 0.6


# --- What goes wrong -----------------------------------------------------------------------------------------------------


def test_damage_is_named_at_its_step(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 6, width=200)
    [victim] = (tmp_path / "s" / "data").rglob("1-3-*")
    raw = bytearray(victim.read_bytes())
    raw[len(raw) // 2] ^= 1
    victim.unlink()
    victim.write_bytes(raw)
    with hr.Loader(uri) as loader:
        steps = iter(loader)
        assert [next(steps).number for _ in range(3)] == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(hr.Corrupt, match=victim.name):
                next(steps)
        assert loader.state_dict()["next_step"] == 3
        loader.seek(4)
        assert numbers_of(steps) == [4, 5]


def test_a_stall_says_who_is_late(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 3, seal=False, order="planned")
    with hr.Loader(uri, timeout=0.6, warn_after=0.2) as loader:
        steps = iter(loader)

        def patiently() -> hr.Step:
            """The next one; on a busy machine even what is there may take longer than such a short patience lasts."""
            deadline = time.monotonic() + 60
            while True:
                try:
                    return next(steps)
                except hr.Stalled:
                    assert time.monotonic() < deadline

        began = time.monotonic()
        for _ in range(3):
            patiently()
        before, begin = loader.stats()["wait_seconds"], time.monotonic()
        with pytest.raises(hr.Stalled, match=r"block 3 is missing; strand 1 makes it"):
            next(steps)
        now = time.monotonic()
        assert 0.5 < now - begin < 60
        waited = loader.stats()["wait_seconds"]
        assert 0.5 < waited - before <= now - begin
        assert waited <= now - began
        with hr.Writer(uri) as writer:
            writer.append({"x": [[3], [3], [3], [3]]})
        assert patiently().number == 3


def test_steps_that_come_later_are_seen(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 1, seal=False)

    def produce() -> None:
        with hr.Writer(uri) as writer:
            for i in range(1, 6):
                time.sleep(0.05)
                writer.append({"x": np.full((4, 1), i)})
            writer.seal()

    producer = threading.Thread(target=produce)
    with hr.Loader(uri) as loader:
        producer.start()
        assert numbers_of(loader) == list(range(6))
        producer.join()
        assert len(loader) == 6


def test_no_stream_no_loader(tmp_path: Path) -> None:
    with pytest.raises(hr.NotFound, match="there is no stream at"):
        hr.Loader(str(tmp_path))
    with pytest.raises(hr.InvalidArgument):
        hr.Loader("ftp://somewhere")
    with pytest.raises(hr.InvalidArgument):
        hr.Loader()


# --- Pins ----------------------------------------------------------------------------------------------------------------


def test_pins_follow_the_checkpoints(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 20, seal=False)
    with hr.Loader(uri) as loader, hr.Loader(uri, dp=(1, 2)) as peer:
        steps = iter(loader)
        next(steps)
        wait_until(lambda: len(loader.pins()) > 0)
        ((session, held),) = loader.pins().items()
        assert session.startswith("session-")
        assert held == 0
        next(iter(peer))
        for n in range(1, 6):
            next(steps)
            loader.pin(f"ckpt-{n}")
        # Its checkpoints have taken over; the other rank never had a session of its own.
        assert loader.pins() == {f"ckpt-{n}": n + 1 for n in range(1, 6)}
        peer.pin("ckpt-5", 6)
        assert loader.pins()["ckpt-5"] == 6
        loader.pin("best", 3)
        loader.pin("ckpt-5")
        loader.keep_last(2)
        assert loader.pins() == {"ckpt-4": 5, "ckpt-5": 6, "best": 3}
        next(steps)
        loader.pin("ckpt-6")
        assert loader.pins() == {"ckpt-5": 6, "ckpt-6": 7, "best": 3}
        assert loader.unpin("best") is True
        assert loader.unpin("best") is False
        with pytest.raises(hr.InvalidArgument):
            loader.keep_last(0)


def test_keep_last_keeps_what_was_pinned_last_after_going_back(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 30)
    with hr.Loader(uri) as loader:
        for n in (20, 25):
            loader.pin(f"ck-{n}", n)
    with hr.Loader(uri) as loader:  # a resume at 20
        loader.keep_last(2)
        assert set(loader.pins()) == {"ck-20", "ck-25"}, "nothing is let go before this loader has pinned"
        loader.seek(21)
        loader.pin("ck-21")
        assert set(loader.pins()) == {"ck-25", "ck-21"}
        loader.pin("ck-22", 22)
        assert set(loader.pins()) == {"ck-21", "ck-22"}
    with hr.Loader(uri) as loader:
        loader.keep_last(1)
        loader.pin("ck-3", 3)
        assert loader.pins() == {"ck-3": 3}
        loader.pin("other-1", 5)
        assert loader.pins() == {"ck-3": 3, "other-1": 5}


@pytest.mark.parametrize("rank", [0, 1])
def test_a_pin_that_an_earlier_run_made_counts_as_made_now(tmp_path: Path, rank: int) -> None:
    uri = write_numbers(tmp_path / "s", 30)
    with hr.Loader(uri, dp=(0, 2)) as loader:
        for n in (20, 25):
            loader.pin(f"ck-{n}", n)
    with hr.Loader(uri, dp=(rank, 2)) as loader:
        loader.pin("ck-21", 21)
        loader.keep_last(1)
        loader.pin("ck-25", 25)
        assert loader.pins() == {"ck-25": 25}
    if rank == 0:
        with hr.Loader(uri, dp=(0, 2)) as loader:
            loader.pin("ck-22", 22)
            loader.pin("ck-25", 25)
        with hr.Loader(uri, dp=(0, 2)) as loader:
            loader.keep_last(2)
            loader.pin("ck-26", 26)
            assert set(loader.pins()) == {"ck-25", "ck-26"}


def test_an_eval_loader_holds_nothing(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 3)
    with hr.Loader(uri, role="eval") as loader:
        list(loader)
        time.sleep(0.2)
        assert loader.pins() == {}


def test_a_job_that_ends_leaves_no_pin(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 3)
    with hr.Loader(uri) as loader:
        list(loader)
        wait_until(lambda: len(loader.pins()) == 1)
    with hr.Loader(uri, role="eval") as loader:
        assert loader.pins() == {}


# --- The writer ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_source_is_appended_exactly_once_however_often_it_is_started(tmp_path: Path) -> None:
    uri = str(tmp_path / "s")
    for stop in (3, 3, 7, 10):
        with hr.Writer(uri, lanes=2, columns={"x": "int64"}, source="mine", probe=False) as writer:
            done = writer.done
            for seq in range(max(0, done - 2), stop):  # begins a little before, to be sure
                assert writer.append({"x": [seq, seq]}, seq=seq) == (seq >= done)
            with pytest.raises(hr.InvalidArgument, match="does not follow"):
                writer.append({"x": [0, 0]}, seq=stop + 1)
    with hr.Writer(uri, source="other") as writer:
        assert writer.done == 0
        writer.append({"x": [100, 100]}, seq=0)
        writer.seal()
    with hr.Loader(uri) as loader:
        assert [step["x"].tolist() for step in loader] == [[i, i] for i in [*range(10), 100]]


def test_a_stream_of_another_shape_is_not_written_to(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 1, seal=False)
    with pytest.raises(hr.Conflict, match="4 lanes, columns x:int64"):
        hr.Writer(uri, lanes=2, columns={"x": "int64"})
    with pytest.raises(hr.InvalidArgument, match="both"):
        hr.Writer(uri, lanes=2)
    with pytest.raises(hr.NotFound):
        hr.Writer(str(tmp_path / "nothing"))
    with pytest.raises(hr.InvalidArgument, match="no type"):
        hr.Writer(str(tmp_path / "t"), lanes=2, columns={"x": "int7"})


def test_metrics_are_counted(numbers: str) -> None:
    from headrace import _core

    with hr.Loader(numbers) as loader:
        list(loader)
    text = _core.prometheus()
    for name in (
        "headrace_loader_wait_seconds_total",
        "headrace_loader_step 19",
        "headrace_frontier_step 20",
        "headrace_steps_ahead 0",
    ):
        assert name in text


def test_a_pin_that_is_not_there_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with hr.Loader(write_numbers(tmp_path / "s", 3)) as loader:
        next(iter(loader))
        loader.pin("ckpt-1")
        assert loader.unpin("zz") is False
        assert "has no pin zz; its pins are: ckpt-1" in caplog.text


def test_keep_last_says_that_names_have_to_end_in_numbers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with hr.Loader(write_numbers(tmp_path / "s", 3)) as loader:
        next(iter(loader))
        loader.keep_last(1)
        loader.pin("ckpt-1")
        assert "keep_last" not in caplog.text
        loader.pin("best")
        loader.pin("best")
        assert caplog.text.count("keep_last(1) lets no pin like best go") == 1


@pytest.mark.parametrize("value", [[1] * 8, ["a", 7], "text", b"text", 3, [None]])
def test_a_column_of_bytes_takes_bytes_and_text_only(tmp_path: Path, value: object) -> None:
    with (
        hr.Writer(str(tmp_path / "s"), lanes=1, columns={"text": bytes}, probe=False) as writer,
        pytest.raises(hr.InvalidArgument, match="column 'text' holds bytes"),
    ):
        writer.append({"text": value})


def test_a_column_of_bytes_takes_all_kinds_of_bytes(tmp_path: Path) -> None:
    with hr.Writer(str(tmp_path / "s"), lanes=1, columns={"text": bytes}, probe=False) as writer:
        writer.append({"text": ["ä", b"b", bytearray(b"c"), memoryview(b"d"), np.array([101], np.uint8)]})
    with hr.Loader(str(tmp_path / "s"), role="eval", timeout=60) as loader:
        assert [bytes(row) for row in loader.step(0)["text"]] == ["ä".encode(), b"b", b"c", b"d", b"e"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"timeout": "soon"}, "timeout= is a time"),
        ({"timeout": None}, "timeout= is a time"),
        ({"timeout": float("nan")}, "timeout= is a time"),
        ({"warn_after": -1}, "warn_after= is a time"),
        ({"collect": "yes"}, "collect= is a time"),
        ({"window": "much"}, "window= is a size"),
        ({"window": -1}, "window= is a size"),
        ({"window": None}, "window= is a size"),
        ({"recipe": 7}, "a recipe is an hr.Recipe, a dict"),
        ({"recipe": {"sourcse": []}}, "a recipe has no key sourcse; did you mean sources"),
    ],
)
def test_wrong_arguments_are_told_what_they_should_be(numbers: str, given: dict, words: str) -> None:
    with pytest.raises(hr.InvalidArgument, match=words):
        hr.Loader(numbers, **given)


def test_times_may_be_written_as_people_do(numbers: str) -> None:
    with hr.Loader(numbers, timeout="5s", warn_after="200ms", collect="10m", window="64MB") as loader:
        assert next(iter(loader)).number == 0


def test_steps_are_whole_numbers(numbers: str) -> None:
    with hr.Loader(numbers, ack="manual") as loader:
        for call in (loader.seek, loader.step, loader.done, lambda step: loader.pin("x", step)):
            for wrong in ("3", 3.5, [3]):
                with pytest.raises(hr.InvalidArgument, match="a step is a whole number"):
                    call(wrong)
        loader.seek(np.int64(3))
        assert loader.state_dict()["next_step"] == 3
        json.dumps(loader.state_dict())


def test_misspelt_arguments_are_told_the_right_one(numbers: str) -> None:
    with pytest.raises(TypeError, match="no argument 'windw': did you mean 'window'"):
        hr.Loader(numbers, windw="1MB")
    with pytest.raises(TypeError, match=r"no argument 'device': .*headrace\.torch"):
        hr.Loader(numbers, device="cuda")
    with pytest.raises(TypeError, match="no argument 'zzz': it has uri, recipe"):
        hr.Loader(numbers, zzz=1)

    class Mine(hr.Loader):
        def __init__(self, uri: str, windw: int) -> None:
            super().__init__(uri, window=windw)

    with Mine(numbers, windw=1000_000) as loader:
        assert next(iter(loader)).number == 0
        with pytest.raises(TypeError, match="for step in loader"):
            loader[0]


def test_beyond_the_end_of_a_sealed_stream_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = write_numbers(tmp_path / "s", 5)
    with hr.Loader(uri) as loader:
        state = loader.state_dict()
        with pytest.raises(hr.InvalidArgument, match="sealed and has 5 steps"):
            loader.seek(6)
        with pytest.raises(hr.InvalidArgument, match="sealed and has 5 steps"):
            loader.load_state_dict({**state, "next_step": 10**6})
        loader.load_state_dict({**state, "next_step": 5})
        assert list(loader) == []
    with hr.Loader(uri) as loader:
        loader.skip(range(3, 10))
        assert len(list(loader)) == 3
        state = loader.state_dict()
    with hr.Loader(uri) as loader:  # it is beyond the end because the rest is left out
        loader.load_state_dict(state)
        assert list(loader) == []
    assert "will come" not in caplog.text


def test_waiting_beyond_what_becomes_the_end_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = write_numbers(tmp_path / "s", 3, seal=False)
    with hr.Loader(uri) as loader:
        loader.seek(100)
        with hr.Writer(uri, probe=False) as writer:
            writer.seal()
        assert list(loader) == []
    assert "no step 100 will come" in caplog.text
    assert "sealed with 3 steps" in caplog.text
