"""What reviewers get, and what of their decisions is read, refused and applied."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

from srrag.lab.benchmark.review import (
    SHEET,
    ReviewDecision,
    apply,
    cell_text,
    check_decisions,
    counted,
    in_order,
    read_decisions,
    review_rows,
    revised_ideal,
    revised_nuggets,
    unfilled,
    write_sheet,
)

Row = dict[str, Any]


def question(query_id: str, **changed: Any) -> Row:
    support = {"grade": "A", "support": "strong", "quote": "It helps."}
    gold = [{"unit_id": unit, "doc": f"doc-{unit}", **support} for unit in "uv"]
    return {
        "query_id": query_id, "text": f"Does {query_id} help?", "track": "main",
        "certainty": "sufficient", "certainty_reason": "", "grade": "A", "condition": "AT",
        "picot": {"P": "adults", "I": "rest", "C": None, "O": None, "T": None},
        "exact_answer": "It helps.", "ideal_answer": "It helps.", "gold": gold,
        "nuggets": [{"text": "It helps", "importance": "vital"}],
        "seed": {"unit_id": "u", "doc": "doc-u"}, "counts": {"not_graded": 0}, **changed,
    }  # fmt: skip


WINDOWS = dict.fromkeys(("plain", "lost", "unsure", "hard", "both", "=1+1"), "It helps. Really.")
ROWS = [
    question("plain"),
    question("lost", counts={"not_graded": 2}),
    question("unsure", certainty="uncertain"),
    question("hard", track="challenge"),
    question("both", track="challenge", certainty="uncertain"),
]


def test_challenge_and_uncertain_questions_come_first() -> None:
    assert [row["query_id"] for row in in_order(ROWS)] == [
        "both", "hard", "unsure", "lost", "plain",
    ]  # fmt: skip
    assert [row["look_first"] for row in review_rows(ROWS, WINDOWS)][:2] == [
        "challenge, uncertain", "challenge",
    ]  # fmt: skip


def test_a_reviewer_sees_the_standing_of_papers_that_are_not_in_order() -> None:
    (row,) = review_rows([question("plain")], WINDOWS, {"doc-u": "a preprint"})
    assert row["seed"] == "doc-u – a preprint"
    assert "1. [A] doc-u – a preprint (strong)" in row["gold"] and "] doc-v (" in row["gold"]


def sheet(path: Path, rows: list[Row], **filled: Row) -> Path:
    """The sheet as a reviewer gives it back: columns filled in, by question."""
    write_sheet(path, review_rows(rows, WINDOWS))
    book = load_workbook(path)
    names = [cell.value for cell in book[SHEET][1]]
    for line in book[SHEET].iter_rows(min_row=2):
        for name, value in filled.get(line[0].value, {}).items():
            line[names.index(name)].value = value
    book.save(path)
    return path


def test_a_sheet_comes_back_as_decisions(tmp_path: Path) -> None:
    path = sheet(
        tmp_path / "review.xlsx", ROWS,
        hard={"decision": "Accept "},
        both={"decision": "reject", "comment": "not clinical"},
        plain={"decision": "revise", "revised_nuggets": "It helps adults\nokay: It is cheap"},
    )  # fmt: skip
    decisions, undecided = read_decisions([path])
    assert counted(decisions, undecided) == {
        "accept": 1, "reject": 1, "revise": 1, "without_decision": 2,
    }  # fmt: skip
    check_decisions(decisions, ROWS)
    by_id = {each.query_id: each for each in decisions}
    assert by_id["both"].comment == "not clinical"
    assert revised_nuggets(by_id["plain"]) == [
        {"text": "It helps adults", "importance": "vital"},
        {"text": "It is cheap", "importance": "okay"},
    ]
    assert revised_nuggets(by_id["hard"]) is revised_nuggets(None) is None


def test_texts_never_become_formulas_and_controls_leave(tmp_path: Path) -> None:
    odd = '=HYPERLINK("http://x")\x0b\x00 help?'
    write_sheet(tmp_path / "r.xlsx", review_rows([question("=1+1", text=odd)], WINDOWS))
    cells = load_workbook(tmp_path / "r.xlsx")[SHEET][2]
    assert {cell.data_type for cell in cells if cell.value} == {"s"}
    assert cells[0].value == "=1+1"
    assert cell_text(odd) in {cell.value for cell in cells}
    check_decisions(
        [ReviewDecision("=1+1", "accept", "x", shown={"question": cell_text(odd)})],
        [question("=1+1", text=odd)],
    )


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (['{"query_id": "plain", "decision": "maybe"}'], r":1: decision 'maybe'"),
        (['{"decision": "accept"}'], ":1: there is no query_id"),
        (['{"query_id": "plain", "decision": "accept"}', "", "{"], ":3: not a decision"),
        (["[]"], ":1: not a decision"),
        (['{"query_id": "plain", "decision": "revise"}'], "no revised text"),
        (['{"query_id": "plain", "decision": "accept", "revised_question": "x"}'], "a text in rev"),
        (['{"query_id": "a", "decision": "revise", "revised_certainty": "so"}'], "certainty 'so'"),
        (['{"query_id": "a", "decision": "revise", "wrong_gold": "all"}'], "wrong_gold 'all'"),
        (['{"query_id": "a", "decision": "accept"}'] * 2, ":2: 'a' was decided before, in .*:1"),
    ],
)
def test_what_is_no_decision_is_named_with_its_line(
    tmp_path: Path, lines: list[str], named: str
) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=named):
        read_decisions([path])


@pytest.mark.parametrize("name", ["d.xlsx", "d.jsonl"])
def test_a_file_that_is_none_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04\xff\xfe nothing")
    with pytest.raises(ValueError, match=name):
        read_decisions([tmp_path / name])


def test_decisions_on_other_questions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"f:1: there is no question 'x'"):
        check_decisions([ReviewDecision("x", "accept", "f:1")], ROWS)
    with pytest.raises(ValueError, match=r"decide on: dropped at support"):
        check_decisions([ReviewDecision("x", "accept", "f:1")], ROWS, {"x": "dropped at support"})
    other = {"question": "Does it hurt?"}
    with pytest.raises(ValueError, match="question of 'plain' is not what was reviewed"):
        check_decisions([ReviewDecision("plain", "reject", "f:1", shown=other)], ROWS)


@pytest.mark.parametrize("ending", ["xlsx", "jsonl"])
def test_a_decision_holds_for_the_answers_and_the_gold_that_were_seen(
    tmp_path: Path, ending: str
) -> None:
    """Else `wrong_gold` removes another window, and an accepted yes stands for a no."""
    path = tmp_path / f"d.{ending}"
    if ending == "xlsx":
        sheet(path, ROWS[:1], plain={"decision": "accept"})
    else:
        (row,) = review_rows(ROWS[:1], WINDOWS)
        path.write_text(json.dumps(row | {"decision": "accept"}) + "\n")
    decisions, _ = read_decisions([path])
    check_decisions(decisions, ROWS)
    reordered = {"gold": ROWS[0]["gold"][::-1]}
    for changed in ({"exact_answer": "No."}, {"ideal_answer": "It harms."}, reordered):
        (name,) = changed
        with pytest.raises(ValueError, match=f"{name} of 'plain' is not what was reviewed"):
            check_decisions(decisions, [question("plain", **changed)])
    marks = {"doc-u": "under an expression of concern"}
    with pytest.raises(ValueError, match="gold of 'plain' is not what was reviewed"):
        check_decisions(decisions, ROWS, marks=marks)
    check_decisions(decisions, ROWS, marks={"doc-u": "corrected after publication"})
    refused = [replace(each, decision="reject") for each in decisions]
    check_decisions(refused, [question("plain", exact_answer="No.")])


def referenced(name: str) -> Row:
    """A question with two gold windows, and an exact answer of two statements."""
    exact = [{"text": "Old.", "unit_ids": ["u"]}, {"text": "Two.", "unit_ids": ["v", "u"]}]
    gold = [{"unit_id": unit} for unit in "uv"]
    return {"query_id": name, "text": "Old?", "certainty": "sufficient", "exact": exact,
            "ideal": exact[:1], "gold": gold}  # fmt: skip


def revise(**texts: str) -> Row:
    """The question as it is after a revision."""
    (kept,), _ = apply([ReviewDecision("b", "revise", "f:1", revised=texts)], [referenced("b")])
    return kept


def test_what_was_decided_is_applied() -> None:
    rows = [referenced(name) for name in "abc"]
    kept, refused = apply(
        [ReviewDecision("a", "reject", "x"), ReviewDecision("b", "accept", "x")], rows
    )
    assert (kept, refused) == (rows[1:], rows[:1])
    changed = revise(
        revised_exact_answer="New.", revised_question="New?", revised_certainty="uncertain"
    )
    assert changed == referenced("b") | {
        "text": "New?", "certainty": "uncertain",
        "exact": [{"text": "New.", "unit_ids": ["u", "v"]}], "ideal": [],
    }  # fmt: skip


def test_an_answer_that_is_turned_round_keeps_no_former_ideal_one() -> None:
    """Judges read the ideal answer first, and it would say the opposite."""
    assert revise(revised_exact_answer="It does not.")["ideal"] == []
    texts = {"revised_exact_answer": "It does not.", "revised_ideal_answer": "No effect in trials."}
    changed = revise(**texts)
    assert changed["ideal"] == [{"text": "No effect in trials.", "unit_ids": ["u"]}]
    assert revised_ideal(ReviewDecision("b", "revise", "f:1", revised=texts)) == (
        "No effect in trials."
    )
    assert revise(revised_ideal_answer="So.")["exact"] == referenced("b")["exact"]
    assert revise(revised_question="New?")["ideal"] == referenced("b")["ideal"]


def test_wrong_gold_takes_its_statements_along() -> None:
    changed = revise(wrong_gold="1")
    assert changed["gold"] == [{"unit_id": "v"}]
    assert changed["exact"] == [{"text": "Two.", "unit_ids": ["v"]}]
    assert changed["ideal"] == []
    assert revise(wrong_gold="2")["exact"][1] == {"text": "Two.", "unit_ids": ["u"]}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [("3", "f:1: wrong_gold 3: there are 1 to 2"), ("1, 2", "f:1: wrong_gold leaves no gold")],
)
def test_wrong_gold_that_leaves_nothing_is_named(wrong: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        revise(wrong_gold=wrong)


def test_an_exact_answer_that_loses_its_source_has_to_be_given_anew() -> None:
    row = referenced("b") | {"exact": [{"text": "Old.", "unit_ids": ["u"]}]}
    texts = {"wrong_gold": "1"}
    with pytest.raises(ValueError, match="give revised_exact_answer too"):
        apply([ReviewDecision("b", "revise", "f:1", revised=texts)], [row])
    texts["revised_exact_answer"] = "New."
    ((kept,), _) = apply([ReviewDecision("b", "revise", "f:1", revised=texts)], [row])
    assert kept["exact"] == [{"text": "New.", "unit_ids": ["v"]}]


def test_decisions_as_lines_may_hold_nuggets_as_lists(tmp_path: Path) -> None:
    facts = ["It helps", {"text": "It is cheap", "importance": "okay"}]
    row = {"query_id": "a", "decision": "revise", "revised_nuggets": facts}
    (tmp_path / "d.jsonl").write_text(json.dumps(row) + "\n")
    (decision,), _ = read_decisions([tmp_path / "d.jsonl"])
    assert [each["importance"] for each in revised_nuggets(decision) or []] == ["vital", "okay"]


def test_what_reviewers_filled_in_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "review.xlsx"
    assert unfilled(path) == path
    sheet(path, ROWS)
    assert unfilled(path) == path, "nothing is filled in"
    for number, filled in enumerate(({"comment": "to discuss"}, {"decision": "accept"}), start=2):
        sheet(unfilled(path), ROWS, hard=filled)
        assert unfilled(path) == tmp_path / f"review-{number}.xlsx"
    (tmp_path / "review.jsonl").write_text("{")
    assert unfilled(tmp_path / "review.jsonl").name == "review-2.jsonl", "it cannot be read"
