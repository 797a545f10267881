from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srrag.lab.benchmark.release import public_row, read_public, rebuilt

WINDOW = "Pain fell by 29 points with strength training at three months in adults with heel pain."
TEXT = f"# Trial\n\n{WINDOW}\n"
START = TEXT.index(WINDOW)


def row(**changed: Any) -> dict[str, Any]:
    gold = {
        "doc": "trial", "doc_id": "d", "unit_id": "u", "grade": "C", "support": "strong",
        "relevance": 2, "char_start": START, "char_end": START + len(WINDOW), "quote": WINDOW,
        "reason": "It says: pain fell by 29 points with strength training at three months.",
    }  # fmt: skip
    return {
        "query_id": "q", "text": "Does strength training lower heel pain?", "condition": "PHP",
        "grade": "C", "certainty": "sufficient", "track": "main", "split": "train",
        "picot": {"P": "adults", "I": "strength training", "C": None, "O": "pain", "T": None},
        "exact_answer": "Yes, by 29 points.", "ideal_answer": f"Grade C: {WINDOW}",
        "nuggets": [{"text": "By 29 points", "importance": "vital"}],
        "statements": [{"part": "ideal", "text": WINDOW, "grade": "C", "sources": []}],
        "gold": [gold], "seed": {"doc": "trial"}, **changed,
    }  # fmt: skip


def test_what_is_public_holds_no_text_of_a_window() -> None:
    public, withheld = public_row(row(), [WINDOW], 8)
    assert public is not None
    assert withheld == public["withheld"] == ["ideal_answer", "statements"]
    assert (public["exact_answer"], public["ideal_answer"]) == ("Yes, by 29 points.", "")
    assert public["statements"] == []
    text = json.dumps(public)
    assert WINDOW[:40] not in text
    assert "pain fell" not in text.casefold(), "nor the reason of a model that saw the window"


def test_a_question_that_copies_its_window_is_left_out() -> None:
    assert public_row(row(text=f"Is it true that {WINDOW}"), [WINDOW], 8) == (None, ["question"])
    kept, withheld = public_row(row(), [WINDOW], None)
    assert kept is not None and kept["ideal_answer"]
    assert withheld == []


def test_the_same_corpus_gives_the_quotes_back(tmp_path: Path) -> None:
    public, _ = public_row(row(), [WINDOW], 8)
    (tmp_path / "p.jsonl").write_text(json.dumps(public) + "\n")
    rows = read_public(tmp_path / "p.jsonl")
    found, lost = rebuilt(rows, {"trial": TEXT})
    assert not lost
    assert [gold["quote"] for gold in found[0]["gold"]] == [WINDOW]
    assert rebuilt(rows, {}) == ([], {"document_missing": 1, "without_gold": 1})
    assert rebuilt(rows, {"trial": "x" + TEXT}) == ([], {"text_differs": 1, "without_gold": 1})


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", "not a public question"),
        ("[]", "no JSON object"),
        ("{}", "'query_id' is missing"),
        ('{"query_id": "q"}', "'text' is missing"),
        (json.dumps(row()), "'sha256' of gold is missing"),
        (json.dumps(row(gold=[row()["gold"][0] | {"sha256": "", "char_start": "1"}])), "a span"),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str, named: str) -> None:
    (tmp_path / "p.jsonl").write_text(line + "\n")
    with pytest.raises(ValueError, match=rf"p\.jsonl:1: .*{named}"):
        read_public(tmp_path / "p.jsonl")
