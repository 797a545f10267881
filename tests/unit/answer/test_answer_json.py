from __future__ import annotations

from typing import Any

from srrag.answer.answer_json import answer_json, trace_json

STEP = {"step": "SearchSparse", "seconds": 0.0123456, "rows_in": 1, "rows_out": 1, "items": 4}
ROW: dict[str, Any] = {
    "text": "Does it help?",
    "answer": "It does. [2]",
    "state": "answered",
    "answer_note": "",
    "model": "rules",
    "sentences": [{"text": "It does.", "evidence_ids": ["e2"]}],
    "evidence": [
        {"evidence_id": "e1", "unit_id": "u1", "grade": ""},
        {"evidence_id": "e2", "unit_id": "u2", "grade": "C"},
    ],
    "hits": [{"unit_id": "u2", "rank": 1, "score": 0.5}],
    "trace": [STEP, {**STEP, "step": "ComposeAnswer", "items": -1}],
}


def test_citations_are_numbers_and_evidence_has_what_was_said_of_it() -> None:
    quote = {"text": "It does.", "char_start": 0, "char_end": 8, "parts": ["O"]}
    other = {"part": "P", "asked": "adults", "found": "boys"}
    row = {
        **ROW,
        "notice": "It is about boys.",
        "snippets": [{"evidence_id": "e2", **quote}],
        "mismatches": [{"evidence_id": "e1", **other}],
    }
    told = answer_json(row)
    assert told["sentences"] == [{"text": "It does.", "citations": [2]}]
    first, second = told["evidence"]
    assert (first["number"], first["study"], first["quotes"]) == (1, "", [])
    assert first["mismatches"] == [other]
    assert (second["number"], second["study"]) == (2, "randomised trial")
    assert second["quotes"] == [quote] and second["mismatches"] == []
    assert told["notice"] == "It is about boys."


def test_a_pipeline_without_snippets_or_notice_has_none() -> None:
    told = answer_json(ROW)
    assert "notice" not in told
    assert all(item["quotes"] == item["mismatches"] == [] for item in told["evidence"])


def test_steps_have_milliseconds_and_items_only_where_they_wrote_a_list() -> None:
    first, last = answer_json(ROW)["trace"]["steps"]
    assert first == {"step": "SearchSparse", "ms": 12.35, "rows_in": 1, "rows_out": 1, "items": 4}
    assert "items" not in last


def test_rounds_have_their_own_steps_and_what_is_empty_is_left_out() -> None:
    rounds = [{"round": 1, "question": "a"}, {"round": 2, "question": "b"}]
    inner = [{**STEP, "step": name} for name in ("A", "B", "A", "B")]
    anchors = {"P": ["adults"], "I": []}
    told = trace_json(
        {**ROW, "rounds": rounds, "search_trace": inner, "anchors": anchors, "subquestions": []}
    )
    assert [[step["step"] for step in each["steps"]] for each in told["rounds"]] == [["A", "B"]] * 2
    assert told["anchors"] == anchors and "subquestions" not in told
    assert [item["unit_id"] for item in told["why"]] == ["u1", "u2"]
    assert "rounds" not in trace_json(ROW)
