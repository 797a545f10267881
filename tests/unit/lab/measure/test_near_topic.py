"""Whether a system knows that it does not know, and what systems that cheat get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srrag.lab.experiment.read_bench import NearTopicBench
from srrag.lab.measure.near_topic import (
    NearTopic,
    near_topic_scores,
    read_near_topic,
    risk_coverage,
    side_of,
    tells_lack,
)
from srrag.lab.measure.scores import by_group

GOOD = [
    NearTopic(f"g{n}", f"Does balance training help in ankle sprain {n}?", "", "", "q")
    for n in range(4)
]
BAD = [
    NearTopic("b0", "Does balance training help in whiplash?", "P", "whiplash", "q"),
    NearTopic("b1", "Does bisoprolol help in ankle sprain?", "I", "bisoprolol", "q"),
    NearTopic("b2", "Which ointment for eczema?", "off_topic", "ointment eczema", "q"),
]


def row(query_id: str, answer: str, note: str = "", *, state: str = "answered") -> Any:
    """An answer as a pipeline gives it."""
    sentences = [] if state == "not" else [{"text": answer, "evidence_ids": ["w"]}]
    return {
        "query_id": query_id, "answer": answer, "answer_note": note, "state": state,
        "sentences": sentences, "reject": None, "evidence": [{"score": 1.0}],
    }  # fmt: skip


def figures(answers: dict[str, Any]) -> dict[str, float]:
    """The mean of each metric."""
    found = near_topic_scores(GOOD + BAD, answers)
    return {each.metric.name: float(each.parts.mean()) for each in found}


def test_a_wrong_answer_is_one_without_a_word_on_what_is_missing() -> None:
    answers = {q.query_id: row(q.query_id, "It helped.") for q in GOOD}
    answers["b0"] = row("b0", "It helped in neck pain.", "Nowhere in the evidence: whiplash.")
    answers["b1"] = row("b1", "Balance training helped.")
    answers["b2"] = row("b2", "", state="not")
    assert figures(answers) == {
        "answered": 1.0,
        "false_notice_rate": 0.0,
        "answered_unanswerable": pytest.approx(2 / 3),
        "wrong_answer_rate": pytest.approx(1 / 3),
    }
    bench = NearTopicBench(GOOD + BAD)
    swapped = by_group(
        near_topic_scores(bench.asked_, answers), bench.groups, resamples=100, seed=0
    )
    assert {name: each["wrong_answer_rate"]["value"] for name, each in swapped.items()} == {
        "P": 0.0,
        "I": 1.0,
        "off_topic": 0.0,
    }


def test_a_system_that_always_abstains_answers_nothing() -> None:
    answers = {q.query_id: row(q.query_id, "", state="not") for q in GOOD + BAD}
    assert figures(answers)["answered"] == 0
    assert figures(answers)["wrong_answer_rate"] == 0


def test_an_echo_is_wrong_each_time() -> None:
    answers = {q.query_id: row(q.query_id, q.text) for q in GOOD + BAD}
    assert figures(answers)["wrong_answer_rate"] == 1


def test_a_system_that_always_says_that_all_is_missing_pays_with_false_notices() -> None:
    answers = {q.query_id: row(q.query_id, "Yes.", f"Nothing on {q.text}") for q in GOOD + BAD}
    assert figures(answers)["wrong_answer_rate"] == 0
    assert figures(answers)["false_notice_rate"] == 1


def test_a_question_without_an_answer_is_not_answered() -> None:
    assert figures({})["answered"] == 0


def test_lack_and_word_stand_in_one_sentence() -> None:
    assert tells_lack(row("q", "x", "Nothing on whiplash."), "whiplash")
    assert not tells_lack(row("q", "No effect was seen. Whiplash was treated."), "whiplash")


def test_the_curve_reads_thresholds_off_the_answerable() -> None:
    sure = {"g0": 0.9, "g1": 0.8, "g2": 0.7, "g3": 0.2, "b0": 0.75, "b1": 0.1, "b2": 0.1}
    answers = {name: row(name, "x") | {"answerable": value} for name, value in sure.items()}
    curve = risk_coverage(GOOD + BAD, answers)
    half = curve["points"][0]
    assert half == {
        "coverage": 0.5, "unanswerable_answered": 0.0, "risk": 0.0, "threshold": 0.8,
    }  # fmt: skip
    assert curve["points"][-1]["unanswerable_answered"] == pytest.approx(1 / 3, abs=1e-4)
    assert curve["auroc"] == pytest.approx(10 / 12, abs=1e-4)


def test_reading(tmp_path: Path) -> None:
    near, beir = tmp_path / "near", tmp_path / "beir"
    near.mkdir()
    beir.mkdir()
    swap = {
        "id": "nt-1", "kind": "near_topic", "swapped": "P", "text": "In whiplash?",
        "absent_term": "whiplash", "from_id": "q1",
    }  # fmt: skip
    off = {
        "id": "nt-2", "kind": "off_topic", "swapped": None, "text": "Acne?",
        "absent_term": "acne", "from_id": None,
    }  # fmt: skip
    lines = "\n".join(map(json.dumps, (swap, off)))
    (near / "queries.jsonl").write_text(lines, "utf-8")
    (beir / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "In pain?"}), "utf-8")
    found = read_near_topic(near, beir)
    assert [each.swapped for each in found] == ["P", "off_topic", ""]
    assert found[0].side == found[2].side == side_of("q1")
    halves = [read_near_topic(near, beir, side) for side in ("develop", "blind") if side]
    assert sum(map(len, halves)) == 3
    with pytest.raises(ValueError, match=r"bench\.side=left"):
        read_near_topic(near, beir, "left")
    (near / "queries.jsonl").write_text(json.dumps(swap | {"swapped": "X"}), "utf-8")
    with pytest.raises(ValueError, match=r"queries\.jsonl:1: swapped is 'X'"):
        read_near_topic(near, beir)
