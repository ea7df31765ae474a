"""Packed streams for tests: documents in sequences, the way that producers store them, and what must come out, told naively."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import headrace as hr

COLUMNS = {
    "tokens": "uint16",
    "cu_seqlens": "int32",
    "source": "int16",
    "loss_mask": "uint8",
    "step_stats": "int64",
    "id": "bytes",
}


@dataclass
class Document:
    source: int  # −1: padding
    tokens: list[int]
    counts: list[int]  # 1: this token is a target that counts
    id: str


Sequence = list[Document]


def random_sequence(rng: np.random.Generator, length: int, sources: int, name: str) -> Sequence:
    documents, used = [], 0
    while used < length:
        size = int(rng.integers(1, length // 2 + 1))
        if used + size > length or rng.random() < 0.1:
            rest = length - used
            documents.append(Document(-1, [0] * rest, [0] * rest, ""))
            break
        tokens = [int(token) for token in rng.integers(1, 60000, size)]
        counts = [int(rng.random() < 0.8) for _ in range(size)]
        documents.append(Document(int(rng.integers(0, sources)), tokens, counts, f"{name}-{len(documents)}"))
        used += size
    return documents


def naive(sequences: list[Sequence]) -> dict[str, list[list[int]]]:
    """Labels, both ways, and positions: token by token, as the words of the contract have them."""
    out: dict[str, list[list[int]]] = {"tokens": [], "labels": [], "unshifted": [], "position_ids": []}
    for sequence in sequences:
        rows: dict[str, list[int]] = {name: [] for name in out}
        for document in sequence:
            for i, token in enumerate(document.tokens):
                rows["tokens"].append(token)
                rows["position_ids"].append(i)
                real = document.source >= 0
                following = i + 1 < len(document.tokens)
                rows["labels"].append(document.tokens[i + 1] if real and following and document.counts[i + 1] else -100)
                rows["unshifted"].append(token if real and i > 0 and document.counts[i] else -100)
        for name, row in rows.items():
            out[name].append(row)
    return out


def boundaries(sequences: list[Sequence]) -> list[int]:
    bounds = [0]
    for sequence in sequences:
        for document in sequence:
            bounds.append(bounds[-1] + len(document.tokens))
    return bounds


def label_tokens(sequences: list[Sequence]) -> int:
    return sum(label != -100 for row in naive(sequences)["labels"] for label in row)


def columns_of(step: list[list[Sequence]], sources: int) -> dict[str, Any]:
    """A step, given as the sequences of every lane, as `hr.Writer.append` takes it."""
    everything = [sequence for lane in step for sequence in lane]
    stats = [label_tokens(everything), len(everything)]
    for source in range(sources):
        documents = [d for sequence in everything for d in sequence if d.source == source]
        stats += [len(documents), sum(len(d.tokens) for d in documents)]
    return {
        "tokens": hr.PerLane([[[t for d in sequence for t in d.tokens] for sequence in lane] for lane in step]),
        "cu_seqlens": hr.PerLane([boundaries(lane) for lane in step]),
        "source": hr.PerLane([[d.source for sequence in lane for d in sequence] for lane in step]),
        "loss_mask": hr.PerLane([[[c for d in sequence for c in d.counts] for sequence in lane] for lane in step]),
        "step_stats": hr.PerLane([stats for _ in step]),
        "id": hr.PerLane([[d.id for sequence in lane for d in sequence] for lane in step]),
    }


@dataclass
class PackedStream:
    uri: str
    steps: list[list[list[Sequence]]]  # [step][lane][sequence]
    sources: int


def write_packed(
    folder: Path, steps: int = 6, lanes: int = 12, sequences: int = 2, length: int = 32, sources: int = 3, seal: bool = True
) -> PackedStream:
    rng = np.random.default_rng(17)
    made = []
    with hr.Writer(str(folder), lanes=lanes, columns=COLUMNS, probe=False, strands=2) as writer:
        for s in range(steps):
            step = [[random_sequence(rng, length, sources, f"{s}-{lane}-{i}") for i in range(sequences)] for lane in range(lanes)]
            writer.append(columns_of(step, sources))
            made.append(step)
        if seal:
            writer.seal()
    return PackedStream(str(folder), made, sources)


def write_numbers(folder: Path | str, steps: int, lanes: int = 4, seal: bool = True, width: int = 1, **how: Any) -> str:  # noqa: ANN401
    """A stream in which lane l of step s holds 1000·s + l."""
    with hr.Writer(str(folder), lanes=lanes, columns={"x": "int64"}, probe=False, **{"strands": 2, **how}) as writer:
        for s in range(steps):
            writer.append({"x": np.repeat(1000 * s + np.arange(lanes), width).reshape(lanes, width)})
        if seal:
            writer.seal()
    return str(folder)
