"""Real processes, killed at random and at each of their store calls in turn: every step is there once and nothing is left.

`HEADRACE_TEST_KILL_AT` lets a process kill itself at its n-th store call (CONTRIBUTING.md).
"""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import servers
from calls import Bucket, Headrace

PATIENCE = 600  # only for what hangs
MOST_ROUNDS = 100


@dataclass
class Place:
    """A stream on a folder or on a real S3 server, and what lies in it."""

    uri: str
    env: dict[str, str]
    folder: Path | None = None
    bucket: Bucket | None = None

    def keys(self, under: str) -> list[str]:
        if self.folder:
            return [str(path) for path in (self.folder / under).rglob("*") if path.is_file()]
        assert self.bucket
        pages = self.bucket.client.get_paginator("list_objects_v2").paginate(
            Bucket=servers.BUCKET, Prefix=f"{self.bucket.prefix}/{under}/"
        )
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


@dataclass
class Job:
    """A command that is started again and again until it gets through."""

    words: list[str]
    ways: Iterator[
        str | float
    ]  # how each life ends: HEADRACE_TEST_KILL_AT, or seconds until SIGKILL; at the end of it, by itself
    process: subprocess.Popen[str] | None = None
    until: float = 0
    done: bool = False
    repeat: bool = False  # goes on for as long as the others
    answers_wanted: int = 0  # of one that repeats: the others' end is not enough
    answers: list[str] = field(default_factory=list)


class Massacre:
    """Runs jobs side by side and counts how many of their lives ended by SIGKILL."""

    def __init__(self, headrace: Headrace, env: dict[str, str]) -> None:
        self.headrace = headrace
        self.env = env
        self.kills = 0

    def start(self, job: Job) -> None:
        way = next(job.ways, None)
        env = {**self.env, "HEADRACE_TEST_KILL_AT": way} if isinstance(way, str) else self.env
        job.until = time.monotonic() + way if isinstance(way, float) else float("inf")
        job.process = self.headrace.start(*job.words, env=env)

    def look_after(self, job: Job) -> None:
        assert job.process
        if job.process.poll() is None:
            if time.monotonic() < job.until:
                return
            job.process.kill()
        out, err = job.process.communicate()
        if job.process.returncode == -signal.SIGKILL:
            self.kills += 1
        else:
            assert job.process.returncode == 0, (job.words, err)
            job.answers.append(out)
            job.done = not job.repeat
        if not job.done:
            self.start(job)

    def run(self, jobs: list[Job]) -> None:
        end = time.monotonic() + PATIENCE
        try:
            for job in jobs:
                self.start(job)
            while not all(len(job.answers) >= job.answers_wanted if job.repeat else job.done for job in jobs):
                assert time.monotonic() < end, [job.words for job in jobs if not job.done]
                for job in jobs:
                    if not job.done:
                        self.look_after(job)
                time.sleep(0.002)
        finally:
            for job in jobs:
                if job.process and job.process.poll() is None:
                    job.process.kill()
                    job.process.communicate()


def every_call(first: int, step: int, last: int) -> Iterator[str]:
    """Before and after every `step`-th call."""
    for at in range(first, last + 1, step):
        yield str(at)
        yield f"{at}+"


def at_random(seed: int, times: int, longest: float) -> Iterator[float]:
    dice = random.Random(seed)
    return (dice.uniform(0.005, longest) for _ in range(times))


def steps_of(producer: int, first: int, count: int) -> list[str]:
    return [json.dumps({"x": [first + i, producer]}) for i in range(count)]


def make(headrace: Headrace, place: Place, order: str, strands: int) -> None:
    shape = ("--lanes", "2", "--strands", str(strands), "--order", order, "--columns", "x:int64")
    done = headrace("create", place.uri, *shape, "--no-probe", env=place.env)
    assert done.status == 0, done.err


def appending(place: Place, order: str, producer: int, path: Path) -> list[str]:
    # In planned order each process has a strand of its own, so that the stream is the same however they run.
    strand = ["--strand", str(producer)] if order == "planned" else []
    return ["append", place.uri, str(path), "--source", path.stem, *strand, "--json"]


def digests(headrace: Headrace, place: Place) -> list[str]:
    done = headrace("digest", place.uri, "--json", env=place.env)
    assert done.status == 0, done.err
    return done.json["steps"]


def check_nothing_is_left(headrace: Headrace, place: Place) -> None:
    assert headrace("gc", place.uri, "--grace", "0", "--json", env=place.env).status == 0
    verified = headrace("verify", place.uri, "--json", env=place.env)
    assert verified.status == 0, verified.out
    assert len(place.keys("data")) == verified.json["chunks"]
    assert len(place.keys("index")) == verified.json["segments"]
    assert place.keys("pending") == []
    again = headrace("gc", place.uri, "--grace", "0", "--json", env=place.env).json
    assert (again["orphans"], again["intents"], again["segments"], again["chunks"]) == (0, 0, 0, 0)


def massacre(
    headrace: Headrace,
    tmp_path: Path,
    place: Place,
    quiet: Place,
    order: str,
    per_round: int,
    ways: Callable[[int], list[Iterator[str | float]]],
    wanted_kills: int,
) -> None:
    """Fills `place` while everybody is killed and `quiet` in peace, and compares them.

    It goes round by round, for as long as it takes to kill enough: how far a life gets depends on the machine.
    """
    rounds: list[list[Path]] = []
    count = len(ways(0)) - 1
    for where in (place, quiet):
        make(headrace, where, order, count)

    killing = Massacre(headrace, place.env)
    reader = Job(["digest", place.uri, "--json"], iter(()), repeat=True, answers_wanted=1)
    while killing.kills < wanted_kills:
        assert len(rounds) < MOST_ROUNDS, f"only {killing.kills} died"
        files = [tmp_path / f"{p}.{len(rounds)}.jsonl" for p in range(count)]
        for p, path in enumerate(files):
            path.write_text("\n".join(steps_of(p, len(rounds) * per_round, per_round)) + "\n")
        *ends, collectors_ends = ways(len(rounds))
        collector = Job(["gc", place.uri, "--grace", "0", "--json"], collectors_ends, repeat=True)
        producers = [Job(appending(place, order, p, path), ends[p]) for p, path in enumerate(files)]
        killing.run([*producers, collector, reader])
        rounds.append(files)

    peaceful = [[Job(appending(quiet, order, p, files[p]), iter(())) for p in range(count)] for files in rounds]
    # In arrival order one after the other, so that everybody's steps stand together.
    for jobs in peaceful if order == "planned" else [[files[p]] for p in range(count) for files in peaceful]:
        Massacre(headrace, quiet.env).run(jobs)

    per_producer = len(rounds) * per_round
    wanted, found = digests(headrace, quiet), digests(headrace, place)
    assert len(wanted) == len(set(wanted)) == count * per_producer
    if order == "planned":
        assert found == wanted
    else:
        assert sorted(found) == sorted(wanted)
        for p in range(count):
            own = wanted[p * per_producer : (p + 1) * per_producer]
            assert [step for step in found if step in set(own)] == own
    for answer in reader.answers:
        steps = json.loads(answer)["steps"]
        assert steps == found[: len(steps)], "a reader saw something else than what is there now"
    check_nothing_is_left(headrace, place)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["planned", "arrival"])
def test_killed_at_every_call_on_a_folder(headrace: Headrace, tmp_path: Path, order: str) -> None:
    place, quiet = (Place(str(tmp_path / name), {}, folder=tmp_path / name) for name in ("killed", "quiet"))

    # A few calls are enough to get going; from there on every life gets a little further than the one before.
    def ways(_: int) -> list[Iterator[str | float]]:
        return [*(every_call(1 + p, 1, 34 + p) for p in range(3)), itertools.cycle(every_call(1, 1, 16))]

    massacre(headrace, tmp_path, place, quiet, order, 60, ways, wanted_kills=200)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["planned", "arrival"])
def test_killed_at_random_on_a_folder(headrace: Headrace, tmp_path: Path, order: str) -> None:
    place, quiet = (Place(str(tmp_path / name), {}, folder=tmp_path / name) for name in ("killed", "quiet"))

    def ways(turn: int) -> list[Iterator[str | float]]:
        return [*(at_random(10 * turn + p, 25, 0.12) for p in range(3)), at_random(10 * turn + 9, 1000, 0.1)]

    massacre(headrace, tmp_path, place, quiet, order, 120, ways, wanted_kills=50)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["planned", "arrival"])
def test_killed_on_a_bucket(headrace: Headrace, reference: Bucket, tmp_path: Path, order: str) -> None:
    place, quiet = (
        Place(
            reference.uri.replace("?", f"/{name}?"),
            reference.env,
            bucket=Bucket(**{**vars(reference), "prefix": f"{reference.prefix}/{name}"}),
        )
        for name in ("killed", "quiet")
    )

    def ways(turn: int) -> list[Iterator[str | float]]:
        producers = [every_call(2, 3, 36), every_call(3, 3, 37), at_random(10 * turn + 3, 20, 0.25)]
        return [*producers, itertools.cycle(every_call(1, 2, 16))]

    massacre(headrace, tmp_path, place, quiet, order, 40, ways, wanted_kills=50)


def test_wrong_words_for_the_moment_of_death(headrace: Headrace, tmp_path: Path) -> None:
    for words in ("0", "x", "", "+"):
        done = headrace("inspect", tmp_path, env={"HEADRACE_TEST_KILL_AT": words})
        assert done.status == 1, words
        assert "HEADRACE_TEST_KILL_AT" in done.err
