#!/usr/bin/env python3
"""The same tokens from the same S3 server through Headrace and through the loaders that people use today, in one run.

    python bench/bench_other_loaders.py [--megabytes 512] [--rounds 3] [--only NAME,…] [--json]

Sequences of 8192 int32 tokens, in batches of 8, come from versitygw on loopback as torch tensors: mosaicml-streaming, litdata,
webdataset and Hugging Face datasets through torch's DataLoader, each in its own format, uncompressed, in shards of 64 MB, cold
(nothing cached on this machine; a loader that keeps files has them in memory), and with several settings, of which the best
counts. Every reader is a process of its own.

  samples/s    from the first call, after the imports, to the last batch. Target: 3 times the best of the others, or 0.85 of
               what `headrace bench` says that this server gives on these cores, whichever is less
  CPU          seconds per GB of tokens, of the process and its workers, without the imports. Target: an eighth of the best
  memory       the most that the process and its workers have together (each page counted once: PSS)

Readers take turns, and a figure is the median over the rounds. A reader that cannot run is named with the reason. Exit status 1
if a target is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import io
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import answer, servers, versitygw

LENGTH, BATCH, LANES, BLOCK_STEPS = 8192, 8, 8, 64
SHARD_BYTES = 64_000_000
SPEED_TARGET, SERVER_TARGET, CPU_TARGET = 3.0, 0.85, 1 / 8
PREFIX = f"bench-loaders-{os.getpid()}"


def sequence(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 50_257, LENGTH, np.int32)


def settings_of(**choices: list[Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{}]
    for name, values in choices.items():
        found = [{**one, name: value} for one in found for value in values]
    return found


def with_workers(count: int) -> dict[str, int]:
    return {"num_workers": count, "prefetch_factor": 8} if count else {"num_workers": 0}


# --- Readers: each has `write` (into a local folder that is uploaded) and `read` (tensors of [8, 8192]) ----------------------


class Headrace:
    imports = ("torch", "headrace.torch")
    settings = settings_of(window=["16MB", "32MB", "64MB"])

    @staticmethod
    def write(_folder: Path, samples: int, place: dict[str, str]) -> None:
        import headrace as hr

        uri = f"{place['uri']}/headrace?endpoint={place['endpoint']}"
        with hr.Writer(
            uri, lanes=LANES, columns={"tokens": "int32"}, probe=False, strands=1, block_steps=BLOCK_STEPS, order="planned"
        ) as writer:
            for first in range(0, samples, BATCH):
                writer.append({"tokens": np.stack([sequence(first + i) for i in range(BATCH)])})
            writer.seal()

    @staticmethod
    def read(place: dict[str, str], _cache: str, window: str) -> Iterator[Any]:
        from headrace.torch import Loader

        # As they are stored, which is what the others hand out, too.
        with Loader(f"{place['uri']}/headrace?endpoint={place['endpoint']}", views=True, dp=(0, 1), window=window) as loader:
            for step in loader:
                yield step["tokens"]


class Mosaic:
    imports = ("torch.utils.data", "streaming")
    settings = settings_of(workers=[0, 2, 4])

    @staticmethod
    def write(folder: Path, samples: int, _place: dict[str, str]) -> None:
        from streaming import MDSWriter

        with MDSWriter(out=str(folder), columns={"tokens": f"ndarray:int32:{LENGTH}"}, size_limit=SHARD_BYTES) as out:
            for i in range(samples):
                out.write({"tokens": sequence(i)})

    @staticmethod
    def read(place: dict[str, str], cache: str, workers: int) -> Iterator[Any]:
        from streaming import StreamingDataset
        from torch.utils.data import DataLoader

        os.environ["S3_ENDPOINT_URL"] = place["endpoint"]
        data = StreamingDataset(
            remote=f"{place['uri']}/mosaic", local=cache, shuffle=False, batch_size=BATCH, predownload=64 * BATCH
        )
        for batch in DataLoader(data, batch_size=BATCH, **with_workers(workers)):
            yield batch["tokens"]


def _whole(index: int) -> np.ndarray:
    return sequence(index)


class Litdata:
    imports = ("torch", "litdata")
    settings = settings_of(workers=[0, 1, 2])

    @staticmethod
    def write(folder: Path, samples: int, _place: dict[str, str]) -> None:
        import litdata

        os.environ.setdefault("DATA_OPTIMIZER_CACHE_FOLDER", str(folder.parent / "litdata-cache"))
        litdata.optimize(
            fn=_whole,
            inputs=list(range(samples)),
            output_dir=str(folder),
            chunk_size=SHARD_BYTES // 4 // LENGTH * LENGTH,  # in tokens
            item_loader=litdata.TokensLoader(block_size=LENGTH),
            num_workers=1,
            start_method="fork",
        )

    @staticmethod
    def read(place: dict[str, str], cache: str, workers: int) -> Iterator[Any]:
        import litdata
        from litdata.streaming import downloader

        # It has no setting that lets its own S3 client speak to a server without TLS.
        downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
        data = litdata.StreamingDataset(
            f"{place['uri']}/litdata",
            cache_dir=cache,
            item_loader=litdata.TokensLoader(block_size=LENGTH),
            storage_options={"endpoint_url": place["endpoint"]},
            max_pre_download=4,
        )
        yield from litdata.StreamingDataLoader(data, batch_size=BATCH, **with_workers(workers))


def _from_bytes(sample: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(sample["bin"], np.int32)


def _stack(samples: list[np.ndarray]) -> Any:  # noqa: ANN401
    import torch

    return torch.from_numpy(np.stack(samples))


class Webdataset:
    imports = ("torch", "webdataset")
    settings = settings_of(workers=[0, 1, 4])

    @staticmethod
    def write(folder: Path, samples: int, _place: dict[str, str]) -> None:
        per_shard = SHARD_BYTES // (4 * LENGTH)
        for shard in range(-(-samples // per_shard)):
            with tarfile.open(folder / f"{shard:06d}.tar", "w") as tar:
                for i in range(shard * per_shard, min(samples, (shard + 1) * per_shard)):
                    data = sequence(i).tobytes()
                    member = tarfile.TarInfo(f"{i:09d}.bin")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))

    @staticmethod
    def read(place: dict[str, str], _cache: str, workers: int) -> Iterator[Any]:
        import webdataset as wds

        # Its own way to S3 is a command whose output it reads. curl is the quickest one: `aws s3 cp` starts a Python each time.
        client = s3(place["endpoint"])
        keys = [
            one["Key"]
            for one in client.list_objects_v2(Bucket=servers.BUCKET, Prefix=f"{place['prefix']}/webdataset/")["Contents"]
        ]
        urls = [client.generate_presigned_url("get_object", Params={"Bucket": servers.BUCKET, "Key": key}) for key in keys]
        data = wds.WebDataset([f"pipe:curl -s -f '{url}'" for url in urls], shardshuffle=False)
        data = data.map(_from_bytes).batched(BATCH, collation_fn=_stack)
        yield from wds.WebLoader(data, batch_size=None, **with_workers(workers))


def _from_tables(tables: list[Any]) -> Any:  # noqa: ANN401
    import torch

    return torch.from_numpy(np.stack([table["tokens"].combine_chunks().flatten().to_numpy() for table in tables]))


class HuggingFace:
    imports = ("torch.utils.data", "datasets", "s3fs")
    settings = settings_of(form=["arrow"], workers=[0, 1, 2]) + settings_of(form=["torch"], workers=[2])

    @staticmethod
    def write(folder: Path, samples: int, _place: dict[str, str]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        per_shard = SHARD_BYTES // (4 * LENGTH)
        for shard in range(-(-samples // per_shard)):
            numbers = range(shard * per_shard, min(samples, (shard + 1) * per_shard))
            values = pa.array(np.concatenate([sequence(i) for i in numbers]))
            lists = pa.ListArray.from_arrays(pa.array(np.arange(len(numbers) + 1, dtype=np.int32) * LENGTH), values)
            table = pa.table({"tokens": lists})
            pq.write_table(table, folder / f"{shard:06d}.parquet", compression="none", use_dictionary=False, row_group_size=512)

    @staticmethod
    def read(place: dict[str, str], _cache: str, workers: int, form: str) -> Iterator[Any]:
        import datasets
        from torch.utils.data import DataLoader

        credentials = {"key": servers.ACCESS_KEY, "secret": servers.SECRET_KEY}
        data = datasets.load_dataset(
            "parquet",
            data_files=f"{place['uri']}/huggingface/*.parquet",
            split="train",
            streaming=True,
            storage_options={**credentials, "client_kwargs": {"endpoint_url": place["endpoint"], "region_name": servers.REGION}},
        )
        if form == "torch":  # int64, whatever is stored
            for batch in DataLoader(data.with_format("torch"), batch_size=BATCH, **with_workers(workers)):
                yield batch["tokens"]
        else:
            tables = data.with_format("arrow")
            yield from DataLoader(tables, batch_size=BATCH, collate_fn=_from_tables, **with_workers(workers))


READERS: dict[str, Any] = {
    "headrace": Headrace,
    "mosaic": Mosaic,
    "litdata": Litdata,
    "webdataset": Webdataset,
    "huggingface": HuggingFace,
}


# --- One reader, in a process of its own ------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def as_reader(name: str, place: dict[str, str], settings: dict[str, Any]) -> None:
    warnings.simplefilter("ignore")
    reader = READERS[name]
    for module in reader.imports:
        importlib.import_module(module)
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    samples, total, first = 0, 0, 0.0
    cache = tempfile.mkdtemp(prefix="headrace-bench-cache-", dir="/dev/shm")
    gc.collect()
    gc.freeze()  # what the imports have left is nobody's work below
    try:
        before, began = cpu_seconds(), time.perf_counter()
        for batch in reader.read(place, cache, **settings):
            if batch.shape[1] != LENGTH or batch.dtype not in (torch.int32, torch.int64):
                sys.exit(f"{name} hands out {tuple(batch.shape)} of {batch.dtype}")
            first = first or time.perf_counter() - began
            samples += batch.shape[0]
            total += sum(batch.numpy()[:, 0].tolist())  # cheaply: it is charged to everybody
        seconds = time.perf_counter() - began
        del batch
        gc.collect()  # ends workers that are still there, so that they are counted
        cpu = cpu_seconds() - before
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    print(json.dumps({"samples": samples, "total": total, "seconds": seconds, "first": first, "cpu": cpu}), flush=True)


def proportional_bytes(root: int) -> int:
    """Memory of a process and all that descend from it, each page counted once."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    total, left = 0, [root]
    while left:
        process = left.pop()
        left += children.get(process, [])
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def run_reader(name: str, place: dict[str, str], settings: dict[str, Any]) -> dict[str, float]:
    words = [sys.executable, __file__, "--read", name, "--place", json.dumps(place), "--settings", json.dumps(settings)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True)
        peak, over = [0], threading.Event()

        def watch() -> None:
            while not over.wait(0.25):
                peak[0] = max(peak[0], proportional_bytes(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        late = threading.Timer(180, process.kill)
        late.start()
        assert process.stdout is not None
        output = process.stdout.read()
        process.wait()
        late.cancel()
        over.set()
        watcher.join()
        if process.returncode != 0 or not output.strip():
            errors.seek(0)
            lines = errors.read().strip().splitlines() or [f"it ended with status {process.returncode}"]
            raise RuntimeError(max(lines[-30:], key=lambda line: "Error" in line)[:300])
    return {**json.loads(output.strip().splitlines()[-1]), "peak_bytes": peak[0]}


# --- All of them --------------------------------------------------------------------------------------------------------------


def s3(endpoint: str) -> Any:  # noqa: ANN401
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=servers.REGION,
        aws_access_key_id=servers.ACCESS_KEY,
        aws_secret_access_key=servers.SECRET_KEY,
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )


def write(name: str, place: dict[str, str], samples: int) -> None:
    """In a process of its own: some of these libraries leave threads and processes behind."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-write-", dir="/dev/shm"))
    try:
        (folder / "out").mkdir()
        words = ["--write", name, "--place", json.dumps(place), "--folder", str(folder / "out"), "--samples", str(samples)]
        run = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, timeout=300)
        if run.returncode != 0:
            raise RuntimeError((run.stderr.strip().splitlines() or ["no reason given"])[-1][:300])
        client = s3(place["endpoint"])
        for file in sorted((folder / "out").rglob("*")):
            if file.is_file():
                client.upload_file(str(file), servers.BUCKET, f"{place['prefix']}/{name}/{file.relative_to(folder / 'out')}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def server_rate(place: dict[str, str]) -> float:
    """Bytes a second that this server gives, by `headrace bench`, for reads of whole chunks."""
    uri = f"{place['uri']}/server?endpoint={place['endpoint']}"
    phases = answer("src/cli/headrace", "bench", uri, "--seconds", 10, "--json")["phases"]
    return max(level["bytes_per_second"] for level in phases["object_reads"]["levels"])


def measure(options: argparse.Namespace, endpoint: str) -> dict[str, Any]:
    place = {"uri": f"s3://{servers.BUCKET}/{PREFIX}", "prefix": PREFIX, "endpoint": endpoint}
    chunk = BATCH * BLOCK_STEPS
    samples = options.megabytes * 1_000_000 // (4 * LENGTH) // chunk * chunk
    names = options.only.split(",") if options.only else list(READERS)
    result: dict[str, Any] = {"samples": samples, "bytes": samples * 4 * LENGTH, "readers": {}, "failed": {}}
    runs: dict[str, list[tuple[dict[str, Any], list[dict[str, float]]]]] = {}
    expected = sum(int(sequence(i)[0]) for i in range(samples))
    for name in names:
        try:
            write(name, place, samples)
            runs[name] = [(settings, []) for settings in READERS[name].settings]
        except Exception as error:
            result["failed"][name] = f"could not write: {error}"
    rates = []
    for _ in range(options.rounds):
        rates.append(server_rate(place))
        for name, tried in list(runs.items()):
            for settings, answers in tried:
                if name in result["failed"]:
                    continue
                try:
                    got = run_reader(name, place, settings)
                except RuntimeError as error:
                    result["failed"][name] = f"could not read: {error}"
                    continue
                if (got["samples"], got["total"]) != (samples, expected):
                    result["failed"][name] = f"handed out {got['samples']:.0f} of {samples} samples, or others"
                    continue
                answers.append(got)
                print(f"  {name} {settings}: {samples / got['seconds']:.0f} samples/s, {got['cpu']:.2f} s", file=sys.stderr)
    gigabytes = result["bytes"] / 1e9
    for name, tried in runs.items():
        if name in result["failed"]:
            continue

        def median(answers: list[dict[str, float]], key: Callable[[dict[str, float]], float]) -> float:
            return statistics.median(key(one) for one in answers)

        figures = [
            {
                "settings": settings,
                "samples_per_second": median(answers, lambda one: samples / one["seconds"]),
                "cpu_seconds_per_gb": median(answers, lambda one: one["cpu"] / gigabytes),
                "peak_bytes": median(answers, lambda one: one["peak_bytes"]),
                "first_batch_seconds": median(answers, lambda one: one["first"]),
            }
            for settings, answers in tried
        ]
        result["readers"][name] = {
            "fastest": max(figures, key=lambda one: one["samples_per_second"]),
            "leanest": min(figures, key=lambda one: one["cpu_seconds_per_gb"]),
            "all": figures,
        }
    result["server_samples_per_second"] = statistics.median(rates) / (4 * LENGTH)
    return result


def report(result: dict[str, Any]) -> bool:
    readers, megabytes = result["readers"], result["bytes"] / 1e6
    print(f"{result['samples']} sequences of {LENGTH} tokens ({megabytes:.0f} MB) from versitygw; best settings of each")
    print(f"  {'':12} {'samples/s':>10} {'MB/s':>6} {'CPU s/GB':>9} {'memory':>8} {'first batch':>12}  settings")
    for name, found in sorted(readers.items(), key=lambda one: -one[1]["fastest"]["samples_per_second"]):
        fast, lean = found["fastest"], found["leanest"]
        words = ", ".join(f"{key} {value}" for key, value in fast["settings"].items())
        if lean is not fast:
            words += "; CPU: " + ", ".join(f"{key} {value}" for key, value in lean["settings"].items())
        rate = fast["samples_per_second"]
        print(
            f"  {name:12} {rate:10.0f} {rate * 4 * LENGTH / 1e6:6.0f} {lean['cpu_seconds_per_gb']:9.2f}"
            f" {fast['peak_bytes'] / 1e6:5.0f} MB {fast['first_batch_seconds'] * 1e3:9.0f} ms  {words}"
        )
    for name, why in result["failed"].items():
        print(f"  {name:12} did not run: {why}")
    server_gives = result["server_samples_per_second"]
    print(f"  `headrace bench`: the server gives {server_gives:.0f} samples/s ({server_gives * 4 * LENGTH / 1e6:.0f} MB/s)")
    others = [found for name, found in readers.items() if name != "headrace"]
    if "headrace" not in readers or not others:
        return "headrace" not in result["failed"]
    best = max(one["fastest"]["samples_per_second"] for one in others)
    least = min(one["leanest"]["cpu_seconds_per_gb"] for one in others)

    def is_fast(one: dict[str, Any]) -> bool:
        return one["samples_per_second"] >= min(SPEED_TARGET * best, SERVER_TARGET * server_gives)

    # One setting is judged by both: of those that are fast enough, the leanest.
    ours = min(readers["headrace"]["all"], key=lambda one: (not is_fast(one), one["cpu_seconds_per_gb"]))
    speed, share = ours["samples_per_second"] / best, ours["samples_per_second"] / server_gives
    cpu = ours["cpu_seconds_per_gb"] / least
    fast, lean = is_fast(ours), cpu <= CPU_TARGET
    print("  with " + ", ".join(f"{key} {value}" for key, value in ours["settings"].items()) + ":")
    print(
        f"  speed: {speed:.2f} times the best of the others (target {SPEED_TARGET}), {share:.2f} of the server"
        f" (or {SERVER_TARGET}){'' if fast else '   MISSED'}"
    )
    print(f"  CPU: 1/{1 / cpu:.1f} of the best of the others (target 1/{1 / CPU_TARGET:.0f}){'' if lean else '   MISSED'}")
    return fast and lean


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=512, help="of tokens (512)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="some of them: " + ", ".join(READERS))
    parser.add_argument("--json", action="store_true")
    for hidden in ("--read", "--write", "--place", "--settings", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--samples", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        as_reader(options.read, json.loads(options.place), json.loads(options.settings))
        return 0
    if options.write:
        READERS[options.write].write(Path(options.folder), options.samples, json.loads(options.place))
        return 0
    with versitygw() as endpoint:
        result = measure(options, endpoint)
    if options.json:
        print(json.dumps(result))
        return 0
    return 0 if report(result) else 1


if __name__ == "__main__":
    sys.exit(main())
