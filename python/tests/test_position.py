"""The first rank of a job writes down where it is, for producers and for people."""

from __future__ import annotations

import json
import time
from pathlib import Path

from packing import write_numbers

import headrace as hr


def reports(uri: str) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(Path(uri, "status").glob("loader-*"))]


def wait_for(uri: str, count: int) -> list[dict]:
    deadline = time.monotonic() + 120
    while len(reports(uri)) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    return reports(uri)


def test_a_job_says_where_it_is_until_it_ends(tmp_path: Path) -> None:
    uri = write_numbers(tmp_path / "s", 6)
    with hr.Loader(uri, dp=(0, 2)) as first, hr.Loader(uri, dp=(1, 2)) as second, hr.Loader(uri, role="eval") as held_out:
        assert reports(uri) == [], "nobody has asked for a step yet"
        for loader in (first, second, held_out):
            loader.seek(2)
            next(iter(loader))
        said = wait_for(uri, 2)
        assert sorted(report["reader"] for report in said) == ["eval", "train"], "one rank speaks for a job"
        for report in said:
            assert set(report) == {"role", "id", "reader", "next_step", "steps_per_second", "counter"}
            assert report["role"] == "loader"
            assert report["next_step"] in (2, 3)
    assert reports(uri) == []
