"""`headrace probe` against servers that lie: each is refused with its own reason. Those that merely have trouble pass."""

from __future__ import annotations

import liar_server
import pytest
from calls import Done, Headrace

pytestmark = pytest.mark.slow

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


def probe(headrace: Headrace, server: liar_server.LiarServer) -> Done:
    uri = f"s3://{server.bucket}/some/prefix?endpoint={server.endpoint}"
    credentials = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    return headrace("probe", uri, "--json", "--rounds", "5", env=credentials, timeout=300)


def test_every_lie_has_its_reason() -> None:
    assert set(REASONS) | set(liar_server.HARMLESS) == set(liar_server.LIES)


@pytest.mark.parametrize("lie", REASONS)
def test_a_liar_is_refused_with_its_own_reason(lie: str, headrace: Headrace) -> None:
    name, words = REASONS[lie]
    with liar_server.running(lie) as server:
        done = probe(headrace, server)
    assert done.status == 1, done
    assert done.json["safe"] is False
    broken = [check for check in done.json["checks"] if check["verdict"] == "failed"]
    assert broken[0]["name"] == name, done
    assert words in broken[0]["seen"]


@pytest.mark.parametrize("trouble", liar_server.HARMLESS)
def test_a_store_that_merely_has_trouble_passes(trouble: str, headrace: Headrace) -> None:
    with liar_server.running(trouble) as server:
        done = probe(headrace, server)
        left = sorted(server.objects.objects)
    assert done.status == 0, done
    assert done.json["safe"] is True
    assert {check["verdict"] for check in done.json["checks"]} == {"passed"}
    assert left == [], "it cleans up after itself"


def test_a_liar_is_cleaned_up_as_well(headrace: Headrace) -> None:
    with liar_server.running("lost-list-entries") as server:
        assert probe(headrace, server).status == 1
        assert sorted(server.objects.objects) == []
