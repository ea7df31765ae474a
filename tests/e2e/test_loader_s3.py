"""A training loop on a real S3 server whose network misbehaves: it waits, recovers, and loses nothing."""

from __future__ import annotations

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

    def misbehave() -> None:
        for mode, seconds in (
            ("503", 1.0),
            ("pass", 0.3),
            ("reset", 1.0),
            ("pass", 0.3),
            ("down", 3.0),
            ("pass", 0.3),
            ("503", 1.0),
        ):
            proxy.mode = mode
            time.sleep(seconds)
        proxy.mode = "pass"

    with hr.Loader(reference.uri, window="1MB", storage_options={**options, "endpoint": proxy.endpoint}) as loader:
        trouble = threading.Thread(target=misbehave)
        got = []
        for step in loader:
            if step.number == 3:
                trouble.start()
            assert (step["x"] == step.number).all()
            got.append(step.number)
            time.sleep(0.02)
        trouble.join()
        assert got == list(range(60))
        assert proxy.struck > 5
        assert loader.stats()["wait_seconds"] > 1


def test_a_store_that_stays_away_is_said_so(reference: Bucket, options: dict[str, str], proxy: FlakyProxy) -> None:
    write(reference.uri, options, 10)
    short = {**options, "endpoint": proxy.endpoint, "retries": "1"}
    with hr.Loader(reference.uri, window=1, timeout=3, storage_options=short) as loader:
        steps = iter(loader)
        assert next(steps).number == 0
        proxy.mode = "down"
        with pytest.raises(hr.Stalled, match="the store's last answer"):
            list(steps)
        reached = loader.state_dict()["next_step"]
        proxy.mode = "pass"
        assert next(steps).number == reached


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
try:
    if {where!r} == "next":
        loader = hr.Loader({reference.uri!r}, window=1, storage_options=options)
        steps = iter(loader)
        next(steps)
        print("ready", flush=True)
        sys.stdin.readline()
        print("going", flush=True)
        while True:
            next(steps)
    sys.stdout.write("ready\\n"); sys.stdout.flush()
    sys.stdin.readline()
    print("going", flush=True)
    hr.Loader({reference.uri!r}, storage_options=options)
except KeyboardInterrupt:
    answered = time.monotonic()
    if {where!r} == "next":
        loader.close()
    print(answered, time.monotonic(), flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    proxy.mode = "hang"
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "going\n"
    time.sleep(0.5)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    answered, closed = (float(t) for t in process.stdout.readline().split())
    assert answered - sent < 0.1
    assert closed - sent < 2.6  # the session's pin is given two seconds
    assert process.wait(10) == 0
