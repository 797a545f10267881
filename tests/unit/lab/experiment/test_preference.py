"""Preferences of two systems' evidence: both orders are shown, and ties are counted."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from srrag.core.step import Place
from srrag.lab.experiment.preference import Preference, advantage, pair_evidence, preference_figures
from srrag.lab.judges.accuracy import PAIRED, JudgePreference
from srrag.lab.measure.judgements import CASES, JUDGEMENTS
from srrag.llm.read_answer import read
from tests.judged import OTHER, PASSAGE, STATED, case

RESAMPLING = {"resamples": 200, "seed": 0}


def piece(text: str) -> dict[str, Any]:
    return PASSAGE | {"evidence_id": text[:8], "text": text}


def pairs(*others: list[dict[str, Any]]) -> pa.Table:
    """Cases whose own evidence states the first of two nuggets, each beside other evidence."""
    own = [case(query_id=f"q{n}") for n in range(len(others))]
    theirs = [case(query_id=f"q{n}", evidence=each) for n, each in enumerate(others)][::-1]
    tables = [pa.Table.from_pylist(rows, schema=CASES) for rows in (own, theirs)]
    found = pair_evidence(*tables)
    assert found.schema.equals(PAIRED)
    return found


def said(recall: str, precision: str) -> str:
    return f'{{"reason": "so", "recall": "{recall}", "precision": "{precision}"}}'


def judged(table: pa.Table, *texts: str) -> list[tuple[str, float, bool]]:
    judge = JudgePreference()
    answers = [read(text, judge.schema) for text in texts]
    rows = judge.parse(table, judge.prompts(table), answers).to_pylist()
    return [(row["metric"], row["value"], row["reject"] is None) for row in rows]


def test_both_orders_are_shown_and_only_who_wins_in_both_has_won() -> None:
    table = pairs([piece(OTHER)])
    shown, turned = JudgePreference().prompts(table)
    orders = [asked.user.partition("first evidence:")[2] for asked in (shown, turned)]
    assert orders[0].index(STATED) < orders[0].index(OTHER)
    assert orders[1].index(OTHER) < orders[1].index(STATED)
    won = judged(table, said("first", "first"), said("second", "second"))
    assert won == [("preference_recall", 1.0, True), ("preference_precision", 1.0, True)]
    lost = judged(table, said("second", "tie"), said("first", "tie"))
    assert lost == [("preference_recall", 0.0, True), ("preference_precision", 0.5, True)]
    place = judged(table, said("first", "first"), said("first", "tie"))
    assert [value for _, value, _ in place] == [0.5, 0.5], "it prefers the first place"
    broken = judged(table, said("first", "first"), "I cannot say.")
    assert [known for _, _, known in broken] == [False, False]


def test_rules_compare_what_is_stated_of_the_nuggets() -> None:
    """Own evidence states one nugget of two, in one piece of two."""
    table = pairs([piece("The moon is far.")], [piece(STATED), piece(OTHER)], [piece(OTHER)], [])
    rows = JudgePreference().open(Place())(table)
    assert rows.schema.equals(JUDGEMENTS)
    found = {(row["query_id"], row["metric"][11:]): row["value"] for row in rows.to_pylist()}
    assert [found[f"q{n}", "recall"] for n in range(4)] == [1.0, 0.0, 0.5, 1.0]
    assert [found[f"q{n}", "precision"] for n in range(4)] == [1.0, 0.0, 0.0, 1.0]
    none = pa.Table.from_pylist([{**row, "nuggets": []} for row in table.to_pylist()], PAIRED)
    assert set(JudgePreference().open(Place())(none)["value"].to_pylist()) == {0.5}


def test_figures_are_shares_and_the_papers_advantage() -> None:
    texts = [
        said("first", "first"), said("second", "second"),  # both won
        said("first", "second"), said("second", "first"),  # recall won, precision lost
        said("second", "tie"), said("first", "tie"),  # recall lost, precision a tie
        said("first", "first"), "none",  # not judged
    ]  # fmt: skip
    judge, table = JudgePreference(), pairs(*[[piece(OTHER)]] * 4)
    answers = [read(text, judge.schema) for text in texts]
    rows = judge.parse(table, judge.prompts(table), answers)
    found = preference_figures(rows, **RESAMPLING)
    assert {name: each["n"] for name, each in found.items()} == dict.fromkeys(found, 3)
    assert found["recall_win"]["value"] == pytest.approx(2 / 3, abs=1e-4)
    assert found["precision_tie"]["value"] == pytest.approx(1 / 3, abs=1e-4)
    expected = advantage(Preference(2 / 3, 0), Preference(1 / 3, 1 / 3))
    assert found["advantage"]["value"] == pytest.approx(expected, abs=1e-4)
    assert found["advantage"]["low"] <= found["advantage"]["value"] <= found["advantage"]["high"]
    fewer = preference_figures(rows, {"q1", "q2"}, **RESAMPLING)
    assert fewer["advantage"]["value"] == 1.0
    assert fewer["advantage"]["n"] == 1


def test_ties_alone_and_no_question_have_no_advantage() -> None:
    rows = JudgePreference().open(Place())(pairs(case()["evidence"]))
    found = preference_figures(rows, **RESAMPLING)
    assert (found["recall_tie"]["value"], found["advantage"]["value"]) == (1.0, None)
    nothing = preference_figures(rows.slice(0, 0), **RESAMPLING)
    assert {each["value"] for each in nothing.values()} == {None}


def test_a_depth_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="depth"):
        JudgePreference(depth=0)


# Table 2 of the paper: recall win, tie; precision win, tie; the advantage as printed (percent).
TABLE_2 = {
    "MedQA, vector": (48.5, 17.5, 69.0, 2.5, 28.4),
    "MedQA, graph": (41.0, 6.5, 57.0, 1.0, -0.4),
    "NLPEC, vector": (69.2, 8.3, 81.2, 3.1, 58.8),
    "NLPEC, graph": (64.2, 7.4, 73.2, 0.0, 42.4),
    "CMHD, vector": (8.0, 85.0, 14.5, 76.0, 13.2),
    "CMHD, graph": (7.8, 60.4, 19.8, 45.8, -69.8),
    "DDA, vector": (78.0, 18.0, 95.0, 0.0, 90.2),
    "DDA, graph": (31.0, 46.0, 78.0, 1.0, 32.8),
    "CMB-Clin, vector": (83.0, 0.5, 84.5, 0.0, 64.0),
    "CMB-Clin, graph": (72.0, 0.5, 74.0, 0.0, 46.4),
}
MISPRINTS = {"CMHD, graph": -48.8, "CMB-Clin, vector": 67.9}


@pytest.mark.parametrize("row", TABLE_2)
def test_the_printed_advantages_follow_from_their_columns_but_for_two(row: str) -> None:
    *shares, printed = TABLE_2[row]
    recall, precision = (Preference(w / 100, t / 100) for w, t in (shares[:2], shares[2:]))
    found = advantage(recall, precision)
    assert found is not None
    if row in MISPRINTS:
        assert 100 * found == pytest.approx(MISPRINTS[row], abs=0.1)
        assert abs(100 * found - printed) > 3
    else:
        assert 100 * found == pytest.approx(printed, abs=0.15)


def test_ties_and_losses() -> None:
    assert advantage(Preference(0, 1), Preference(0.5, 0)) is None
    assert advantage(Preference(0.5, 0), Preference(0, 1)) is None
    assert advantage(Preference(0, 0.5), Preference(0, 0)) == -1
    assert advantage(Preference(1, 0), Preference(1, 0)) == 1
    assert advantage(Preference(0.5, 0), Preference(0.5, 0)) == 0
    good = Preference(0.5, 0)
    for bad in (Preference(0.8, 0.3), Preference(-0.1, 0.5), Preference(0.5, -0.1)):
        for both in ((bad, good), (good, bad)):
            with pytest.raises(ValueError, match="shares of wins and ties"):
                advantage(*both)
