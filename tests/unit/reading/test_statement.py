"""Which way sentences say that an outcome went, each read by every reader there is."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from srrag.answer.direction import direction

TABLE = Path(__file__).with_name("statements.tsv").read_text("utf-8").splitlines()
ROWS = list(csv.DictReader(TABLE, delimiter="\t", quoting=csv.QUOTE_NONE))
MENDED = re.compile(
    r"\b(?:worse|better|superior|inferior|raised|halved|shortened|eased|doubled|deteriorated|differ)"
)


def test_the_table_holds_good_and_bad_outcomes_each_way() -> None:
    kinds = {(row["direction"], row["better_or_worse"]) for row in ROWS}
    assert len(ROWS) >= 80
    assert {
        (way, value) for way in ("increased", "decreased") for value in ("better", "worse")
    } < kinds


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if MENDED.search(row["sentence"]) and row["outcome"] != "pain threshold"],
    ids=lambda row: row["sentence"],
)
def test_worse_is_more_of_a_harm_and_less_of_a_good(row: dict[str, str]) -> None:
    said = direction(row["sentence"], "", "", row["outcome"])
    assert {"same": "no difference", "": "unclear"}.get(said, said) == row["direction"]
