"""docs/guide/stores.md says what the program does."""

from __future__ import annotations

import re

from calls import ROOT, Headrace

PAGE = (ROOT / "docs" / "guide" / "stores.md").read_text()


def test_every_option_is_in_the_table_and_no_other(headrace: Headrace) -> None:
    refusal = headrace("probe", "s3://lake?qqqqqqqq=1").err
    real = set(re.split(r", ", refusal.split("there are ")[1].strip()))
    table = PAGE.split("## Options")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == real


def test_every_row_of_the_examples_is_what_the_program_prints(headrace: Headrace) -> None:
    shown = headrace("probe", "mem://x", "--rounds", "1").out.splitlines()
    for line in shown:
        if line.startswith("✓"):
            assert line[:62].rstrip() in PAGE
    answer = headrace("bench", "mem://x", "--seconds", "2").out.splitlines()
    for line in answer[1:8]:
        assert line.split("  ")[0] in PAGE
    assert re.sub(r" +", " ", answer[0]) in re.sub(r" +", " ", PAGE)
