"""A bench of the vetoes: sentences that no paper gives beside fair ones, written over abstracts.

`advice.tsv` has a sentence a line: its half, the abstract in Evidence Inference that it cites, its
kind. The seen half was in sight when the vetoes were written; the blind half, over other abstracts,
was written after them. It was in sight when names with a capital were read more closely, before
which the second blind part was written: commands, firms and fair sentences over ten abstracts more.
The third, of commands and fair sentences alone, was written before orders were read by their verbs,
the fourth after that. `-s` prints the rates by kind.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from srrag.answer.support.vetoes import veto

BENCH = Path(__file__).with_name("advice.tsv")
FAIR = "fair"


def sources_by_document(articles: Path) -> dict[str, list[str]]:
    """The question and text of each abstract, as an answer that cites it has them."""
    told = (json.loads(line) for line in articles.read_text("utf-8").splitlines())
    return {
        row["id"]: [
            f"{row['title']}?",
            "\n".join([row["title"], str(row["year"]), *(s["text"] for s in row["sections"])]),
        ]
        for row in told
    }


@pytest.mark.parametrize(
    ("half", "through", "wrongly", "least"),
    [
        ("seen", 0.08, 0.0, 80),
        ("blind", 0.12, 0.01, 80),
        ("second", 0.13, 0.0, 29),
        ("third", 0.33, 0.0, 65),
        ("fourth", 0.25, 0.03, 41),
    ],
)
def test_few_inventions_pass_and_few_fair_sentences_are_held_back(
    half: str, through: float, wrongly: float, least: int, shared_data: Path
) -> None:
    sources = sources_by_document(shared_data / "evidence_inference" / "articles.jsonl")
    with BENCH.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["half"] == half]
    every = Counter(row["kind"] for row in rows)
    held = Counter(row["kind"] for row in rows if veto(row["sentence"], sources[row["document"]]))
    for kind, number in every.items():
        print(f"{half} {kind}: {held[kind]} of {number} held back")
    inventions = every.total() - every[FAIR]
    passed = inventions - (held.total() - held[FAIR])
    print(
        f"{half}: {passed} of {inventions} let through, {held[FAIR]} of {every[FAIR]} wrongly held"
    )
    assert min(inventions, every[FAIR]) >= least
    assert passed <= through * inventions
    assert held[FAIR] <= wrongly * every[FAIR]
