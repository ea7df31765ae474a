"""What a recipe says about bad rows, ends and what is kept, over several windows, producers and starts."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from calls import Headrace
from lakes import QUICK, documents, eventually, make_lake, write_recipe

pytestmark = pytest.mark.slow


def lake_with_bad_rows(folder: Path, rows: int, every: int) -> int:
    """How many lines of it are no JSON."""
    (folder / "lake").mkdir()
    bad = 0
    for part in range(4):
        lines = []
        for document in documents(0, rows)[part::4]:
            if document[1] % every == 7:
                lines.append('{"tokens": [1, 2')
                bad += 1
            else:
                lines.append(json.dumps({"tokens": document}))
        (folder / "lake" / f"part-{part}.jsonl").write_text("\n".join(lines) + "\n")
    return bad


ONE_SOURCE = 'sources:\n  docs: {format: jsonl, files: "lake/*.jsonl"}\n'


def test_bad_rows_are_counted_over_all_windows_of_a_strand(headrace: Headrace, tmp_path: Path) -> None:
    bad = lake_with_bad_rows(tmp_path, 1200, 60)
    assert bad == 20
    words = "strands: 1\nshuffle: {window: 50}\n"
    enough = write_recipe(tmp_path, f"{words}bad_samples: {{skip: {bad}}}", ONE_SOURCE, "enough.yaml")
    done = headrace("produce", enough, "--stream", tmp_path / "enough", "--json", *QUICK)
    assert done.status == 0, done.err
    assert done.json["samples"]["docs"] == 1200 - bad
    # No window has more than a few, all together have too many.
    short = write_recipe(tmp_path, f"{words}bad_samples: {{skip: 12}}", ONE_SOURCE, "short.yaml")
    refused = headrace("produce", short, "--stream", tmp_path / "short", *QUICK)
    assert refused.status == 1
    assert "source docs: strand 0" in refused.err
    assert "the recipe allows 12" in refused.err
    # Whoever takes over counts on: the same end after the same steps, however often it was begun anew.
    steps = 0
    for _ in range(100):
        again = headrace("produce", short, "--stream", tmp_path / "again", "--steps", str(steps + 4), *QUICK)
        if again.status != 0:
            break
        steps = headrace("inspect", tmp_path / "again", "--json").json["steps"]
    assert again.status == 1
    assert "the recipe allows 12" in again.err
    digests = [headrace("digest", tmp_path / name, "--json").json for name in ("short", "again")]
    assert digests[0]["steps"]
    assert digests[0] == digests[1]


def unpacked(recipe: Path) -> Path:
    recipe.write_text("".join(line for line in recipe.read_text().splitlines(keepends=True) if not line.startswith("pack")))
    return recipe


def test_so_many_tokens_without_packing(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path, (2000, 2000, 2000))
    recipe = unpacked(write_recipe(tmp_path, "step: {samples: 8}\nuntil: {tokens: 20000}"))
    done = headrace("produce", recipe, "--stream", tmp_path / "out", "--json", *QUICK)
    assert done.status == 0, done.err
    assert done.json["sealed"]
    made = sum(done.json["tokens"].values())
    blocks = done.json["made"]["blocks"]
    assert 20_000 <= made <= 20_000 + 4 * 2 * made / blocks  # at most the last block of each strand is too many
    # The same with stops and starts, and by several.
    headrace("produce", recipe, "--stream", tmp_path / "other", "--steps", "3", *QUICK)
    again = headrace("produce", recipe, "--stream", tmp_path / "other", "--producers", "2", *QUICK)
    assert again.status == 0, again.err
    assert headrace("digest", tmp_path / "out", "--json").json == headrace("digest", tmp_path / "other", "--json").json
    # More than there is: all of it, and the remainders.
    endless = unpacked(write_recipe(tmp_path, "step: {samples: 8}\nuntil: {tokens: 100M}", name="all.yaml"))
    done = headrace("produce", endless, "--stream", tmp_path / "all", "--json", *QUICK)
    assert done.status == 0, done.err
    samples = 0
    for step in range(done.json["steps"] - 3, done.json["steps"]):
        samples += len(headrace("lineage", tmp_path / "all", "--step", str(step), "--json").json["samples"])
    assert samples > 0
    assert done.json["steps"] == 6000 // 8


def endless(tmp_path: Path, retain: str) -> Path:
    make_lake(tmp_path)
    recipe = write_recipe(tmp_path, f"until: forever\nlead: {{steps: 60}}\nretain: {retain}")
    recipe.write_text(recipe.read_text().replace("weight", "at_end: repeat, weight"))
    return recipe


@pytest.mark.parametrize("retain", ["pins", "all"])
def test_producers_let_go_of_what_no_pin_needs(headrace: Headrace, tmp_path: Path, retain: str) -> None:
    recipe = endless(tmp_path, retain)
    stream = tmp_path / "out"
    assert headrace("produce", recipe, "--stream", stream, "--steps", "50", *QUICK).status == 0
    assert headrace("pin", stream, "ckpt", "--step", "40").status == 0
    before = {path for path in (stream / "data").rglob("*") if path.is_file()}
    words = ["produce", recipe, "--stream", stream, "--collect-every", "200ms", "--grace", "0s", *QUICK]
    with headrace.start(*words) as producer:
        try:
            gone = eventually(lambda: any(not path.exists() for path in before), 120 if retain == "pins" else 3)
        finally:
            producer.terminate()
        _, err = producer.communicate(timeout=120)
    assert producer.returncode == 0, err
    state = headrace("inspect", stream, "--json").json
    if retain == "all":
        assert not gone
        assert state["trim"] == 0
    else:
        assert gone
        assert 0 < state["trim"] <= 40
        assert headrace("cat", stream, "--step", "40").status == 0
        assert headrace("verify", stream).status == 0
        assert [pin["name"] for pin in state["pins"]] == ["ckpt"]


hr = pytest.importorskip("headrace")
pytest.importorskip("headrace._core", reason="THE PACKAGE IS NOT BUILT: what needs it is left out")


def test_some_steps_before_the_reader_are_kept(headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    recipe = endless(tmp_path, "{steps: 20}")
    stream = tmp_path / "out"
    words = ["produce", recipe, "--stream", stream, "--collect-every", "200ms", "--grace", "0s", *QUICK]
    with headrace.start(*words) as producer:
        try:
            assert eventually(lambda: headrace("inspect", stream, "--json").status == 0)
            with hr.Loader(str(stream), timeout=60) as loader:
                steps = iter(loader)
                for _ in range(50):
                    next(steps)
                loader.pin("ckpt-50")
                trim = lambda: headrace("inspect", stream, "--json").json["trim"]  # noqa: E731
                assert eventually(lambda: trim() > 0)
                assert eventually(lambda: loader.pins() == {"ckpt-50": 50, "retain": 30}), loader.pins()
                time.sleep(0.5)
                assert 0 < trim() <= 30
                assert loader.step(30).number == 30
                assert loader.pins() == {"ckpt-50": 50, "retain": 30}
        finally:
            producer.terminate()
        _, err = producer.communicate(timeout=120)
    assert producer.returncode == 0, err


def test_the_loader_takes_broadcast_at_from_the_recipe(
    headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="TORCH IS NOT INSTALLED: what needs it is left out")
    import headrace.torch.loader as torch_loader

    make_lake(tmp_path, (60, 40, 30))
    recipe = write_recipe(tmp_path, "broadcast_at: [tp, pp]")
    assert headrace("produce", recipe, "--stream", tmp_path / "out", *QUICK).status == 0
    mesh = {"dp": (0, 1), "tp": (0, 2)}
    # Nobody knows the process groups: a hint is no reason to fail.
    with torch_loader.Loader(str(tmp_path / "out"), mesh=mesh, role="eval") as loader:
        assert loader._broadcast is None
        assert next(iter(loader)).number == 0
    asked: list[tuple] = []
    monkeypatch.setattr(torch_loader.Broadcast, "along", lambda axes, *rest: asked.append(tuple(axes)))
    for words in ({}, {"broadcast_at": ()}, {"broadcast_at": "tp"}, {"mesh": {"dp": (0, 1)}}):
        torch_loader.Loader(str(tmp_path / "out"), **{"mesh": mesh, "role": "eval", "groups": {"tp": None}, **words}).close()
    assert asked == [("tp",), ("tp",)]  # by the recipe, without the axis that this job does not have; by its program
