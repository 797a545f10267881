from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import load_workbook

from srrag.core.errors import UsageError
from srrag.core.schema import empty_value
from srrag.lab.benchmark.release import ideal_text, public_row, question_row, read_public, rebuilt
from srrag.lab.benchmark.review import SHEET
from srrag.lab.benchmark.sample import GOLD, NUGGETED
from srrag.lab.experiment.benchmark_files import (
    LEFT_OUT,
    TRAIN,
    VALIDATION,
    Release,
    rebuild,
    shared_documents,
    split_questions,
    write,
)
from srrag.storage.store import Store

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


def test_what_a_guideline_and_an_ungraded_letter_say_has_the_guidelines_grade() -> None:
    grades = {"letter": "", "guideline": "A"}
    both = [{"text": "Both.", "unit_ids": ["letter", "guideline"]}]
    one = [{"text": "One.", "unit_ids": ["letter"]}]
    paragraphs = ideal_text([*one, *both], grades).split("\n\n")
    assert paragraphs == ["Grade A, guideline or consensus: Both.", "Without a grade: One."]
    blank = {field.name: empty_value(field.type) for field in NUGGETED}
    empty = {field.name: empty_value(field.type) for field in GOLD.value_type}
    gold = [
        empty | {"unit_id": name, "grade": grade, "support": "strong"}
        for name, grade in grades.items()
    ]
    picot = dict.fromkeys("PICOT", "")
    made = question_row(
        {**blank, "picot": picot, "gold": gold, "exact": both, "ideal": one}, "rules"
    )
    assert [each["grade"] for each in made["statements"]] == ["A", ""]


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


def test_a_public_copy_is_not_written_over_the_benchmark_that_was_made(tmp_path: Path) -> None:
    (tmp_path / "public.jsonl").write_text("")
    (tmp_path / "rejects.parquet").write_text("")
    (tmp_path / "benchmark.jsonl").write_text("")
    with pytest.raises(UsageError, match="holds a benchmark that was made here"):
        rebuild(tmp_path / "public.jsonl", Store(tmp_path / "R"), "default", tmp_path)


def test_a_sheet_that_was_filled_in_stays_as_it_is(tmp_path: Path) -> None:
    asked = row(
        split="", review={"decision": "", "comment": ""}, certainty_reason="",
        counts={"not_graded": 0}, seed={"doc": "trial", "unit_id": "u"}, track="challenge",
    )  # fmt: skip
    release = Release(tmp_path, 0.2, 12, 0)
    texts = {"q": [WINDOW, WINDOW]}
    assert write(release, [asked], texts, [])["review"] == f"{tmp_path}/review.xlsx"
    book = load_workbook(tmp_path / "review.xlsx")
    names = [cell.value for cell in book[SHEET][1]]
    book[SHEET].cell(2, names.index("decision") + 1).value = "accept"
    book.save(tmp_path / "review.xlsx")
    filled = (tmp_path / "review.xlsx").read_bytes()
    for _ in range(2):
        assert write(release, [asked], texts, [])["review"] == f"{tmp_path}/review-2.xlsx"
    assert (tmp_path / "review.xlsx").read_bytes() == filled


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


def test_the_papers_proportion_where_nothing_is_shared() -> None:
    split = split_questions({f"q{n}": [f"d{n}"] for n in range(1637)}, 0.2, seed=42)
    assert split.sizes() == {TRAIN: 1310, VALIDATION: 327, LEFT_OUT: 0}
    assert (split.moved, split.left_out) == (0, 0)


def test_questions_with_a_common_document_stay_together_and_moves_are_counted() -> None:
    documents = {f"q{n}": [f"d{n // 4}"] for n in range(100)}
    split = split_questions(documents, 0.2)
    assert split.sizes() == {TRAIN: 80, VALIDATION: 20, LEFT_OUT: 0}
    assert split.moved > 0
    assert all(len({split.sides[f"q{g * 4 + i}"] for i in range(4)}) == 1 for g in range(25))


def test_a_chain_is_cut_and_what_hangs_on_both_sides_is_left_out() -> None:
    chain = {f"q{n:03}": [f"d{n}", f"d{n + 1}"] for n in range(100)}
    split = split_questions(chain, 0.2)
    assert split.sizes()[VALIDATION] == 20
    assert split.left_out == split.sizes()[LEFT_OUT] <= 2
    assert shared_documents(chain, split.sides) == []


def test_one_document_in_all_questions_leaves_no_validation() -> None:
    split = split_questions({f"q{n}": ["d", f"e{n}"] for n in range(9)}, 0.2)
    assert split.sizes() == {TRAIN: 9, VALIDATION: 0, LEFT_OUT: 0}


DOCUMENTS = st.dictionaries(
    st.integers(0, 200).map(str), st.lists(st.sampled_from("abcdefghijkl"), max_size=4), max_size=40
)


@given(DOCUMENTS, st.floats(0, 0.9), st.integers(0, 9))
def test_no_document_is_on_both_sides_whatever_is_shared(
    documents: dict[str, list[str]], share: float, seed: int
) -> None:
    split = split_questions(documents, share, seed)
    assert split.sides.keys() == documents.keys()
    assert shared_documents(documents, split.sides) == []
    assert split.sizes()[VALIDATION] <= round(share * len(documents))
    backwards = dict(reversed(documents.items()))
    assert split_questions(backwards, share, seed) == split
