"""From a lake to a stream: the same bytes whoever makes it, every row once, and a way back from each step to its rows."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from calls import Bucket, Headrace
from lakes import QUICK, documents, make_lake, write_parquet, write_recipe

import headrace as hr


def produce(headrace: Headrace, recipe: Path, stream: str | Path, *words: str, env: dict[str, str] | None = None) -> dict:
    done = headrace("produce", recipe, "--stream", stream, "--json", *QUICK, *words, env=env)
    assert done.status == 0, done.err
    return done.json


def digest(headrace: Headrace, stream: str | Path, env: dict[str, str] | None = None) -> dict:
    done = headrace("digest", stream, "--json", env=env)
    assert done.status == 0, done.err
    return done.json


def all_samples(headrace: Headrace, stream: Path, steps: int) -> list[dict]:
    """The lineage of everything, read as people read it: Parquet files of the stream."""
    samples = []
    for file in (stream / "lineage").rglob("*"):
        if file.is_file():
            samples += pq.read_table(file).to_pylist()
    shown = headrace("lineage", stream, "--step", str(steps - 1), "--json")
    assert shown.status == 0, shown.err
    assert set(shown.json["samples"][0]) == {
        "source",
        "file",
        "row",
        "start",
        "length",
        "lane",
        "sequence",
        "position",
        "mixture",
    }
    return samples


def test_every_row_is_in_the_stream_once(headrace: Headrace, tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    answer = produce(headrace, write_recipe(tmp_path), tmp_path / "out")
    assert answer["sealed"]
    covered: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for sample in all_samples(headrace, tmp_path / "out", answer["steps"]):
        covered.setdefault((sample["source"], sample["file"], sample["row"]), []).append((sample["start"], sample["length"]))
    assert Counter(source for source, _, _ in covered) == {name: len(docs) for name, docs in lake.items()}
    tokens: Counter[str] = Counter()
    for (source, _, _), pieces in covered.items():
        end = 0
        for start, length in sorted(pieces):
            assert start == end  # nothing twice, nothing left out
            end = start + length
        tokens[source] += end
    assert tokens == {name: sum(map(len, docs)) for name, docs in lake.items()}
    assert headrace("verify", tmp_path / "out").status == 0


def test_what_lineage_says_is_what_stands_there(headrace: Headrace, tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    rows = {f"part-{i:03}.parquet": lake["web"][i::3] for i in range(3)}
    rows |= {f"part-{i}.jsonl": lake["code"][i::2] for i in range(2)} | {"all.arrow": lake["books"]}
    answer = produce(headrace, write_recipe(tmp_path, "keep: [id]"), tmp_path / "out")
    for step in range(0, answer["steps"], 5):
        samples = headrace("lineage", tmp_path / "out", "--step", str(step), "--json").json["samples"]
        for lane in headrace("cat", tmp_path / "out", "--step", str(step), "--json").json["lanes"]:
            here = [s for s in samples if (s["lane"], s["sequence"], s["position"]) == (lane["lane"], 0, 0)]
            if not here:  # padding, in the last step
                continue
            first = here[0]
            document = rows[Path(first["file"]).name][first["row"]]
            shown = lane["columns"]["tokens"]["values"]
            count = min(len(shown), first["length"])
            assert document[first["start"] : first["start"] + count] == shown[:count]
            # What is kept stands beside its document.
            assert f"{document[0]}-{document[1]}" in str(lane["columns"]["id"]["values"][0])


@pytest.mark.slow
def test_the_same_stream_whoever_makes_it(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path, (500, 400, 200))
    recipe = write_recipe(tmp_path, "keep: [id]")
    undisturbed = tmp_path / "undisturbed"
    produce(headrace, recipe, undisturbed)
    wanted = digest(headrace, undisturbed)
    chance = random.Random(5)
    # Each number of producers with each number of threads, five times.
    for run, (count, threads) in enumerate([(count, threads) for count in (1, 2, 5) for threads in ("1", "4")] * 5):
        stream = tmp_path / f"run-{run}"
        words = [str(recipe), "--stream", str(stream), *QUICK]
        running: list[subprocess.Popen] = []
        for _ in range(count):
            running.append(headrace.start("produce", *words, "--threads", threads))
        # Some are killed, and others come.
        for _ in range(chance.randrange(4)):
            time.sleep(chance.uniform(0.0, 0.3))
            victim = chance.choice(running)
            victim.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM]))
            running.append(headrace.start("produce", *words, "--threads", threads))
        for process in running:
            _, err = process.communicate(timeout=300)
            assert process.returncode in (0, -signal.SIGKILL, -signal.SIGTERM), err
        assert headrace("verify", stream).status == 0
        assert digest(headrace, stream) == wanted, f"run {run} differs"


def test_a_producer_that_is_stopped_goes_on_where_it_was(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path)
    recipe = write_recipe(tmp_path)
    first = produce(headrace, recipe, tmp_path / "out", "--steps", "5")
    assert first["steps"] >= 5
    assert not first["sealed"]
    produce(headrace, recipe, tmp_path / "out")
    produce(headrace, recipe, tmp_path / "other")
    assert digest(headrace, tmp_path / "out") == digest(headrace, tmp_path / "other")


def test_on_a_real_store(headrace: Headrace, bucket: Bucket, tmp_path: Path) -> None:
    make_lake(tmp_path, (60, 40, 30))
    recipe = write_recipe(tmp_path)
    # Of moto's creators at the same moment more than one may win: it cannot have several producers.
    producers = "1" if bucket.server == "moto" else "2"
    produce(headrace, recipe, bucket.uri, "--producers", producers, env=bucket.env)
    produce(headrace, recipe, tmp_path / "out")
    assert digest(headrace, bucket.uri, bucket.env) == digest(headrace, tmp_path / "out")


def test_shares_follow_the_weights_until_a_source_ends(headrace: Headrace, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a", documents(0, 3000))
    write_parquet(tmp_path / "b", documents(1, 3000))
    sources = """
    sources:
      a: {format: parquet, files: "a/*.parquet", weight: 0.75}
      b: {format: parquet, files: "b/*.parquet", weight: 0.25}
    """
    answer = produce(headrace, write_recipe(tmp_path, "until: {steps: 40}", sources), tmp_path / "out")
    assert answer["steps"] == 40
    assert answer["sealed"]
    tokens = answer["tokens"]
    assert tokens["a"] / (tokens["a"] + tokens["b"]) == pytest.approx(0.75, abs=0.02)


def test_a_new_mixture_holds_from_a_committed_step(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path, (2000, 2000, 2000))
    recipe = write_recipe(tmp_path, "until: {steps: 60}")
    produce(headrace, recipe, tmp_path / "out", "--steps", "10")
    done = headrace("mix", tmp_path / "out", "--set", "web=0,code=1,books=0", "--json")
    assert done.status == 0, done.err
    first = done.json["first_step"]
    assert first >= 10
    produce(headrace, recipe, tmp_path / "out")
    for step in (first, 59):
        samples = headrace("lineage", tmp_path / "out", "--step", str(step), "--json").json["samples"]
        assert {s["mixture"] for s in samples} == {1}
        # From the very step on that was announced.
        assert {s["source"] for s in samples if s["start"] == 0} == {"code"}
    before, mixture = headrace("inspect", tmp_path / "out", "--json").json["mixtures"]
    assert (before["number"], before["first_step"]) == (0, 0)
    assert set(before["schedule"][0]["weights"]) == {"web", "code", "books"}
    assert sum(before["schedule"][0]["weights"].values()) == pytest.approx(1)
    assert "mixture   0 from step 0 on: books 0." in headrace("inspect", tmp_path / "out").out
    assert (mixture["number"], mixture["first_step"]) == (1, first)
    assert mixture["schedule"] == [{"from_step": 0, "weights": {"web": 0, "code": 1, "books": 0}}]
    assert f"mixture   1 from step {first} on: books 0.0, code 1.0, web 0.0" in headrace("inspect", tmp_path / "out").out


def test_other_weights_in_the_recipe_of_a_living_stream(headrace: Headrace, tmp_path: Path) -> None:
    """They change nothing, and that is said; once, and only where somebody changed them."""
    make_lake(tmp_path)
    recipe = write_recipe(tmp_path, "until: {steps: 12}")
    begun = headrace("produce", recipe, "--stream", tmp_path / "out", "--steps", "3", *QUICK)
    assert "weights" not in begun.err
    assert headrace("mix", tmp_path / "out", "--set", "web=0.5,code=0.5,books=0").status == 0
    assert "weights" not in headrace("produce", recipe, "--stream", tmp_path / "out", "--steps", "6", *QUICK).err
    recipe.write_text(recipe.read_text().replace("weight: 0.5", "weight: 0.1"))
    done = headrace("produce", recipe, "--stream", tmp_path / "out", *QUICK)
    assert done.status == 0, done.err
    assert "the weights in the recipe are not those of the stream" in done.err
    assert "headrace mix" in done.err


def test_a_source_is_added_to_a_living_stream(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path, (2000, 2000, 2000))
    recipe = write_recipe(tmp_path, "until: {steps: 60}")
    produce(headrace, recipe, tmp_path / "out", "--steps", "10")
    write_parquet(tmp_path / "new", documents(7, 3000))
    more = write_recipe(
        tmp_path,
        "until: {steps: 60}",
        recipe.read_text()[recipe.read_text().index("sources:") :]
        + '  new: {format: parquet, files: "new/*.parquet", weight: 1}\n',
        name="more.yaml",
    )
    refused = headrace("produce", more, "--stream", tmp_path / "out", *QUICK)
    assert refused.status == 1
    assert "headrace mix" in refused.err
    assert headrace("mix", tmp_path / "out", "--recipe", more).status == 0
    produce(headrace, more, tmp_path / "out")
    late = headrace("lineage", tmp_path / "out", "--step", "59", "--json").json["samples"]
    assert "new" in {s["source"] for s in late}
    with hr.Loader(str(tmp_path / "out"), dp=(0, 1), role="eval") as loader:
        assert set(loader.step(0).sources) == {"web", "code", "books"}
        assert set(loader.step(59).sources) == {"web", "code", "books", "new"}
        assert loader.step(59).sources["new"]["samples"] > 0


@pytest.mark.parametrize(
    ("change", "named"), [("seed: 18", "seed"), ("pack: {length: 32}", "pack"), ("lanes: 2\nstrands: 2", "lanes")]
)
def test_another_recipe_is_refused_with_what_differs(headrace: Headrace, tmp_path: Path, change: str, named: str) -> None:
    make_lake(tmp_path, (100, 100, 100))
    produce(headrace, write_recipe(tmp_path), tmp_path / "out", "--steps", "2")
    refused = headrace("produce", write_recipe(tmp_path, change, name="other.yaml"), "--stream", tmp_path / "out", *QUICK)
    assert refused.status == 1
    assert named in refused.err
    assert "another recipe" in refused.err


def test_a_file_that_changed_is_named(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path)
    recipe = write_recipe(tmp_path)
    produce(headrace, recipe, tmp_path / "out", "--steps", "2")
    changed = tmp_path / "web" / "part-001.parquet"
    changed.unlink()
    write_parquet(tmp_path / "else", documents(9, 500), files=1)
    (tmp_path / "else" / "part-000.parquet").rename(changed)
    refused = headrace("produce", recipe, "--stream", tmp_path / "out", *QUICK)
    assert refused.status == 1
    assert "part-001.parquet" in refused.err


@pytest.mark.parametrize("strands", [1, 4])
@pytest.mark.parametrize("how", ["touched", "removed", "truncated"])
def test_a_file_that_changed_before_a_resume_is_named(headrace: Headrace, tmp_path: Path, how: str, strands: int) -> None:
    """It is no lost race: another try does not help, and must not fill the log."""
    write_parquet(tmp_path / "web", documents(0, 400), files=1)
    sources = 'sources:\n  web: {format: parquet, files: "web/*.parquet"}\n'
    recipe = write_recipe(tmp_path, f"strands: {strands}\nshuffle: {{window: 100000}}", sources)
    stream = tmp_path / "out"
    produce(headrace, recipe, stream, "--steps", "4")
    file = tmp_path / "web" / "part-000.parquet"
    if how == "touched":
        os.utime(file, (file.stat().st_atime, file.stat().st_mtime + 10))
    elif how == "removed":
        file.unlink()
    else:
        os.truncate(file, file.stat().st_size // 2)
    before = {path for path in stream.rglob("*") if "data" not in path.parts}
    refused = headrace("produce", recipe, "--stream", stream, *QUICK, timeout=60)
    assert refused.status == 1
    assert "part-000.parquet has changed since the inventory" in refused.err
    assert len({path for path in stream.rglob("*") if "data" not in path.parts} - before) < 10 * strands


def test_what_is_held_out_is_never_trained_on(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path)
    recipe = write_recipe(tmp_path, "holdout: {fraction: 0.2, by: id}")
    train = produce(headrace, recipe, tmp_path / "train")
    held = produce(headrace, recipe, tmp_path / "held", "--split", "holdout")

    def rows(stream: Path, steps: int) -> set[tuple[str, str, int]]:
        return {(s["source"], s["file"], s["row"]) for s in all_samples(headrace, stream, steps)}

    trained, kept = rows(tmp_path / "train", train["steps"]), rows(tmp_path / "held", held["steps"])
    assert not trained & kept
    assert len(trained | kept) == 900
    assert len(kept) == pytest.approx(180, abs=60)


def test_without_packing_a_step_holds_whole_documents(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path)
    recipe = write_recipe(tmp_path, "step: {samples: 20}")
    recipe.write_text("".join(line for line in recipe.read_text().splitlines(keepends=True) if not line.startswith("pack")))
    answer = produce(headrace, recipe, tmp_path / "out")
    assert answer["sealed"]
    assert len(all_samples(headrace, tmp_path / "out", answer["steps"])) == 900


def test_the_plan_is_shown_before_anything_is_written(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path, (3000, 3000, 3000))
    recipe = write_recipe(tmp_path)
    plan = headrace("plan", recipe, "--steps", "20", "--json")
    assert plan.status == 0, plan.err
    assert plan.json["steps"] == 20
    for name, weight in (("web", 0.5), ("code", 0.3), ("books", 0.2)):
        assert plan.json["sources"][name]["share"] == pytest.approx(weight, abs=0.03)
    assert plan.json["spread"]["after"] <= plan.json["spread"]["before"] + 1e-9
    text = headrace("plan", recipe, "--steps", "20")
    assert text.status == 0
    assert "web" in text.out
    assert not (tmp_path / ".headrace").exists()


def test_a_wrong_recipe_is_refused_before_anything_is_written(headrace: Headrace, tmp_path: Path) -> None:
    make_lake(tmp_path)
    recipe = write_recipe(tmp_path, "shufle: {window: 3}")
    refused = headrace("produce", recipe, "--stream", tmp_path / "out")
    assert refused.status == 1
    assert "recipe.yaml:" in refused.err
    assert "shuffle" in refused.err
    assert not (tmp_path / "out").exists()
