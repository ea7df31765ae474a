"""A training loop on a real S3 server whose network misbehaves: it waits, recovers, and loses nothing."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from calls import Bucket
from flaky_proxy import FlakyProxy

import headrace as hr

pytestmark = pytest.mark.slow


@pytest.fixture
def options(reference: Bucket) -> dict[str, str]:
    environment = reference.env
    return {
        "access_key_id": environment["AWS_ACCESS_KEY_ID"],
        "secret_access_key": environment["AWS_SECRET_ACCESS_KEY"],
        "region": environment["AWS_REGION"],
        "endpoint": reference.endpoint,
    }


@pytest.fixture
def proxy(reference: Bucket) -> Iterator[FlakyProxy]:
    with FlakyProxy(reference.endpoint) as proxy:
        yield proxy


def write(uri: str, options: dict[str, str], steps: int, seal: bool = True) -> None:
    with hr.Writer(uri, lanes=2, columns={"x": "int64"}, probe=False, strands=1, storage_options=options) as writer:
        for s in range(steps):
            writer.append({"x": np.full((2, 20_000), s)})
        if seal:
            writer.seal()


def test_a_bad_network_costs_time_and_nothing_else(reference: Bucket, options: dict[str, str], proxy: FlakyProxy) -> None:
    write(reference.uri, options, 60)

    def misbehave(mode: str) -> None:
        """Until it has struck some times."""
        enough, until = proxy.struck + 4, time.monotonic() + 240
        proxy.mode = mode
        while proxy.struck < enough and time.monotonic() < until:
            time.sleep(0.01)
        proxy.mode = "pass"

    # A window of three steps: when trouble begins, most of the requests are still to come.
    with hr.Loader(reference.uri, window="1MB", storage_options={**options, "endpoint": proxy.endpoint}) as loader:
        plan = {3: "503", 15: "reset", 27: "down", 39: "503"}
        troubles = []
        got = []
        for step in loader:
            if step.number in plan:
                troubles.append(threading.Thread(target=misbehave, args=(plan[step.number],)))
                troubles[-1].start()
            assert (step["x"] == step.number).all()
            got.append(step.number)
            if step.number in (14, 26, 38):  # one after the other
                troubles[-1].join()
        for trouble in troubles:
            trouble.join()
        assert got == list(range(60))
        assert proxy.struck >= 16
        assert loader.stats()["wait_seconds"] > 0.05  # the least pause before another attempt


def patiently(steps: Iterator[hr.Step]) -> hr.Step:
    """The next one: a loader with little patience may be asked again, on a busy machine more than once."""
    for _ in range(40):
        with contextlib.suppress(hr.Stalled):
            return next(steps)
    pytest.fail("no step comes")


def test_a_store_that_stays_away_is_said_so(reference: Bucket, options: dict[str, str], proxy: FlakyProxy) -> None:
    write(reference.uri, options, 10)
    short = {**options, "endpoint": proxy.endpoint, "retries": "1"}
    with hr.Loader(reference.uri, window=1, timeout=3, storage_options=short) as loader:
        steps = iter(loader)
        assert patiently(steps).number == 0
        proxy.mode = "down"
        with pytest.raises(hr.Stalled, match="the store's last answer"):
            list(steps)
        reached = loader.state_dict()["next_step"]
        proxy.mode = "pass"
        assert patiently(steps).number == reached


@pytest.mark.parametrize("where", ["next", "open"])
def test_ctrl_c_is_answered_while_a_store_hangs(
    reference: Bucket, options: dict[str, str], proxy: FlakyProxy, where: str
) -> None:
    write(reference.uri, options, 5)
    code = f"""
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import headrace as hr
import headrace.loader
options = { ({**options, "endpoint": proxy.endpoint})!r}
if {where!r} == "next":
    loader = hr.Loader({reference.uri!r}, window=1, storage_options=options)
    steps = iter(loader)
    next(steps)
print("ready", flush=True)
while sys.stdin.readline() == "go\\n":
    try:
        print("going", flush=True)
        while {where!r} == "next":
            next(steps)
        hr.Loader({reference.uri!r}, storage_options=options)
    except KeyboardInterrupt:
        print(time.monotonic(), flush=True)
if {where!r} == "next":
    loader.close()
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    proxy.mode = "hang"
    delays: list[float] = []
    # A busy machine may be late now and then, but not always.
    while sum(delay < 0.1 for delay in delays) < 3 and len(delays) < 7:
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout.readline() == "going\n"
        time.sleep(0.5)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        delays.append(float(process.stdout.readline()) - sent)
    assert sum(delay < 0.1 for delay in delays) >= 3, delays
    process.stdin.close()
    # The session's pin is given two seconds; whoever waits for the store waits for minutes.
    assert process.wait(60) == 0
