"""Metrics over HTTP, asked for and read as Prometheus does, while producers and loaders are at work."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from calls import Headrace, binary
from lakes import make_lake, write_recipe
from prometheus_client.parser import text_string_to_metric_families
from servers import free_port


def scrape(url: str, seconds: float = 0) -> dict[str, dict[tuple, float]]:
    """Samples by name and labels, once there are any."""
    until = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                text = answer.read().decode()
            break
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
    samples: dict[str, dict[tuple, float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in ("counter", "gauge", "histogram")
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in samples.setdefault(sample.name, {}), "a sample stands there twice"
            samples[sample.name][labels] = sample.value
    return samples


def value(samples: dict[str, dict[tuple, float]], name: str, **labels: str) -> float:
    return samples[name][tuple(sorted(labels.items()))]


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A recipe that is made for ever, a few steps ahead of its pin."""
    make_lake(tmp_path)
    recipe = write_recipe(tmp_path, "until: forever\nlead: {steps: 24}")
    recipe.write_text(recipe.read_text().replace("weight", "at_end: repeat, weight"))
    return recipe


def produce_words(recipe: Path, stream: Path, *more: str) -> list[str]:
    return ["produce", str(recipe), "--stream", str(stream), "--no-probe", *more]


def test_a_producer_is_watched_while_it_works(headrace: Headrace, endless: Path, tmp_path: Path) -> None:
    port = free_port()
    at = f"127.0.0.1:{port}"
    producer = headrace.start(*produce_words(endless, tmp_path / "out", "--metrics", at))
    try:
        # As far ahead as it may be, it rests: nothing moves between one look and the next.
        seen = scrape(f"http://{at}/metrics", 120)
        until = time.monotonic() + 120
        while True:
            assert time.monotonic() < until
            inspected = headrace("inspect", tmp_path / "out", "--json")
            before, seen = seen, scrape(f"http://{at}/metrics")
            steps = inspected.json["steps"] if inspected.status == 0 else 0
            rests = before.get("headrace_producer_steps_total") == seen.get("headrace_producer_steps_total")
            if steps >= 20 and rests and value(seen, "headrace_frontier_step") == steps:
                break
            time.sleep(0.2)
        assert {source for ((_, source),) in seen["headrace_source_tokens_total"]} == {"web", "code", "books"}
        tokens = sum(seen["headrace_source_tokens_total"].values())
        assert tokens + value(seen, "headrace_producer_padding_tokens_total") == pytest.approx(
            value(seen, "headrace_producer_steps_total") * 8 * 64
        )
        assert value(seen, "headrace_step_cost_spread_ratio") >= 1
        assert value(seen, "headrace_commit_duration_seconds_count") >= 4
        assert value(seen, "headrace_commit_duration_seconds_bucket", le="+Inf") == value(
            seen, "headrace_commit_duration_seconds_count"
        )
        assert value(seen, "headrace_commit_conflicts_total") == 0
        creates = {dict(labels)["outcome"] for labels in seen["headrace_store_requests_total"] if dict(labels)["op"] == "create"}
        assert "created" in creates
        assert sum(seen["headrace_store_read_bytes_total"].values()) > 0
        assert sum(seen["headrace_store_request_duration_seconds_count"].values()) > 0
        [(labels, one)] = seen["headrace_build_info"].items()
        assert one == 1
        version = headrace("--version").out.split()[1]
        assert dict(labels)["version"] == version
        assert value(seen, "process_resident_memory_bytes") > 1e6
        with urllib.request.urlopen(f"http://{at}/healthz", timeout=60) as answer:
            assert answer.read() == b"ok\n"
        for path, method, status in (("/", "GET", 404), ("/metrics", "POST", 405)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(f"http://{at}{path}", method=method), timeout=60)
            assert refused.value.code == status
        # Counters only ever grow.
        later = scrape(f"http://{at}/metrics")
        for name in ("headrace_source_tokens_total", "headrace_store_requests_total"):
            assert all(later[name][labels] >= before for labels, before in seen[name].items())
    finally:
        producer.send_signal(signal.SIGTERM)
        _, err = producer.communicate(timeout=120)
    assert producer.returncode == 0, err
    with pytest.raises(urllib.error.URLError):
        scrape(f"http://{at}/metrics")


def test_a_port_that_is_taken_is_an_error_that_names_it(headrace: Headrace, endless: Path, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        at = f"127.0.0.1:{other.getsockname()[1]}"
        refused = headrace(*produce_words(endless, tmp_path / "out", "--metrics", at))
        assert refused.status == 1
        assert at in refused.err
        assert "port" in refused.err
        assert not (tmp_path / "out").exists()
        # The variable is for many processes: the same port is no reason to die.
        done = headrace(*produce_words(endless, tmp_path / "out", "--steps", "2"), env={"HEADRACE_METRICS": at})
        assert done.status == 0, done.err
    wrong = headrace(*produce_words(endless, tmp_path / "out", "--metrics", "nine"))
    assert wrong.status == 1
    assert "HOST:PORT" in wrong.err


def test_several_producers_have_a_port_each(headrace: Headrace, endless: Path, tmp_path: Path) -> None:
    port = free_port(2)
    words = produce_words(endless, tmp_path / "out", "--producers", "2", "--metrics", f"127.0.0.1:{port}")
    producers = headrace.start(*words)
    try:
        for i in range(2):
            assert "headrace_build_info" in scrape(f"http://127.0.0.1:{port + i}/metrics", 120)
    finally:
        producers.send_signal(signal.SIGTERM)
        _, err = producers.communicate(timeout=120)
    assert producers.returncode == 0, err


hr = pytest.importorskip("headrace")
pytest.importorskip("headrace._core", reason="THE PACKAGE IS NOT BUILT: what needs it is left out")


@pytest.fixture
def stream(headrace: Headrace, tmp_path: Path) -> str:
    make_lake(tmp_path)
    done = headrace(*produce_words(write_recipe(tmp_path), tmp_path / "out"))
    assert done.status == 0, done.err
    return str(tmp_path / "out")


def test_a_loader_is_watched_while_it_trains(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADRACE_METRICS", "LOCAL_RANK", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with hr.Loader(stream, metrics="127.0.0.1:0", role="eval") as loader:
        url = loader.metrics_url
        steps = iter(loader)
        before = scrape(url).get("headrace_loader_steps_total", {}).get((), 0)
        for number in range(7):
            assert next(steps).number == number
        seen = scrape(url)
        assert value(seen, "headrace_loader_steps_total") == before + 7
        assert value(seen, "headrace_loader_step") == 6
        assert value(seen, "headrace_frontier_step") == len(loader)
        assert value(seen, "headrace_steps_ahead") == len(loader) - 7
        assert value(seen, "headrace_loader_wait_seconds_total") > 0
        assert sum(seen["headrace_store_read_bytes_total"].values()) > 0
        # A second loader of the process does not need a second server.
        with hr.Loader(stream, metrics="127.0.0.1:0", role="eval") as second:
            assert second.metrics_url == url
        assert scrape(url)
    assert loader.metrics_url is None
    with pytest.raises(urllib.error.URLError):
        scrape(url)
    with hr.Loader(stream, role="eval") as quiet:
        assert quiet.metrics_url is None
    with pytest.raises(hr.InvalidArgument, match="HOST:PORT"):
        hr.Loader(stream, metrics="nine")


RANK = """
import sys, time, urllib.request, headrace as hr
with hr.Loader(sys.argv[1], dp=(int(sys.argv[2]), 2)) as loader:
    next(iter(loader))
    print(loader.metrics_url, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("with_local_rank", [True, False])
def test_ranks_of_one_machine_share_the_variable(stream: str, with_local_rank: bool) -> None:
    port = free_port(4)
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    ranks = []
    for rank in range(2):
        environment["HEADRACE_METRICS"] = f"127.0.0.1:{port}"
        if with_local_rank:
            environment["LOCAL_RANK"] = str(rank)
        words = [sys.executable, "-c", RANK, stream, str(rank)]
        ranks.append(subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    try:
        urls = [rank.stdout.readline().strip() for rank in ranks]
        assert sorted(urls) == [f"http://127.0.0.1:{port + i}/metrics" for i in range(2)]
        if with_local_rank:
            assert urls == sorted(urls)
        for url in urls:
            assert value(scrape(url), "headrace_loader_step") == 0
    finally:
        for rank in ranks:
            rank.communicate(timeout=120)
    assert [rank.returncode for rank in ranks] == [0, 0]


def test_producers_beside_a_loader_leave_the_ports_to_the_ranks(endless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_BIN", str(binary()))
    for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    port = free_port(33)  # producers take those from the 33rd on
    monkeypatch.setenv("HEADRACE_METRICS", f"127.0.0.1:{port}")
    with hr.Loader(str(endless.parent / "out"), recipe=endless, timeout=60) as loader:
        next(iter(loader))
        assert loader.metrics_url == f"http://127.0.0.1:{port}/metrics"
        assert value(scrape(f"http://127.0.0.1:{port + 32}/metrics", 120), "headrace_producer_steps_total") > 0
