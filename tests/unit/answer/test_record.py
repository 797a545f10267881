from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from srrag.answer.evidence import EvidenceQuote, Paper, papers_of
from srrag.answer.record import AnswerFinding, AnswerRecord, TextPlace, paper_line, written_by

STEP = {"step": "SearchSparse", "seconds": 0.0123456, "rows_in": 1, "rows_out": 1, "items": 4}
ROW: dict[str, Any] = {
    "text": "Does it help?",
    "answer": "It does. [2]",
    "state": "answered",
    "answer_note": "",
    "model": "rules",
    "sentences": [{"text": "It does.", "evidence_ids": ["e2"]}],
    "evidence": [
        {"evidence_id": "e1", "unit_id": "u1", "grade": "", "text": "Boys improved."},
        {"evidence_id": "e2", "unit_id": "u2", "grade": "C", "text": "It does."},
    ],
    "hits": [{"unit_id": "u2", "rank": 1, "score": 0.5}],
    "trace": [STEP, {**STEP, "step": "ComposeAnswer", "items": -1}],
}


def test_citations_are_numbers_and_evidence_has_what_was_said_of_it() -> None:
    quote = {"text": "It does.", "char_start": 0, "char_end": 8, "parts": ["O"]}
    row = {
        **ROW,
        "snippets": [{"evidence_id": "e2", **quote}],
    }
    told = AnswerRecord.of(row)
    (sentence,) = told.sentences
    assert (sentence.text, sentence.part, sentence.citations) == ("It does.", "answer", (2,))
    first, second = told.evidence
    assert (first.number, first.study, first.quotes) == (1, "", ())
    assert (second.number, second.study) == (2, "randomised trial")
    assert second.quotes == (EvidenceQuote(**{**quote, "parts": ("O",)}),)  # type: ignore[arg-type]
    assert [item.number for item in told.cited] == [2]


def test_places_and_findings_lead_to_the_text_of_their_evidence() -> None:
    place = {"evidence_id": "e2", "start": 0, "end": 7}
    told = AnswerRecord.of(
        {
            **ROW,
            "sentences": [{**ROW["sentences"][0], "part": "answer", "places": [place]}],
            "findings": [{"text": "It helps.", "kind": "result", **place}],
        }
    )
    assert told.sentences[0].places == (TextPlace(number=2, start=0, end=7),)
    assert told.findings == (
        AnswerFinding(text="It helps.", kind="result", number=2, start=0, end=7),
    )
    assert told.evidence[1].text[0:7] == "It does"


def test_windows_of_one_paper_are_one_paper_with_its_publication_status() -> None:
    of_one = {"doc_id": "d", "title": "Lamps", "standing": "retracted", "standing_link": "pmid:9"}
    row = {**ROW, "evidence": [{**item, **of_one} for item in ROW["evidence"]]}
    told = AnswerRecord.of(row)
    (paper,) = told.papers
    assert (paper.numbers, paper.cited, paper.status) == ((1, 2), True, "retracted (PMID 9)")
    assert told.notes[0].kind == "publication" and "[2]: retracted (PMID 9)." in told.notes[0].text
    assert not papers_of(told.evidence, [])[0].cited


def test_a_rejected_row_is_an_answer_with_its_error() -> None:
    lost = {"stage": "answer", "reason": "timeout", "detail": "no answer in 5 s"}
    told = AnswerRecord.of({"text": "Does it?", "reject": lost})
    assert (told.error, told.answer, told.state) == ("answer: no answer in 5 s", "", "not")


def test_a_column_of_evidence_that_the_record_does_not_know_is_an_error() -> None:
    odd = {**ROW["evidence"][0], "colour": "blue"}
    with pytest.raises(TypeError, match="colour"):
        AnswerRecord.of({**ROW, "evidence": [odd, ROW["evidence"][1]]})


def test_steps_have_milliseconds_and_items_only_where_they_wrote_a_list() -> None:
    first, last = AnswerRecord.of(ROW).trace
    assert (first.step, first.ms, first.items) == ("SearchSparse", 12.35, 4)
    assert last.items is None


def test_rounds_have_their_own_steps_and_what_is_empty_is_left_out() -> None:
    rounds = [{"round": 1, "question": "a"}, {"round": 2, "question": "b"}]
    inner = [{**STEP, "step": name} for name in ("A", "B", "A", "B")]
    anchors = {"P": ["adults"], "I": []}
    row = {**ROW, "rounds": rounds, "search_trace": inner, "anchors": anchors, "subquestions": []}
    told = AnswerRecord.of(row, explained=True)
    assert told.expansion is not None and told.why is not None
    steps = [[step["step"] for step in each["steps"]] for each in told.expansion["rounds"]]
    assert steps == [["A", "B"]] * 2
    assert told.expansion["anchors"] == anchors and "subquestions" not in told.expansion
    assert [item["unit_id"] for item in told.why] == ["u1", "u2"]
    assert AnswerRecord.of(ROW).expansion is None


def test_the_json_of_an_answer_is_what_its_schema_says() -> None:
    answer = AnswerRecord.of(ROW, explained=True).json
    schema = AnswerRecord.schema()
    jsonschema.validate(json.loads(json.dumps(answer)), schema)
    assert set(answer) == set(schema["properties"]), "every key is always there"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**answer, "state": "perhaps"}, schema)


def test_a_papers_line_names_its_design_beside_its_grade() -> None:
    paper = Paper(
        numbers=(1, 3), cited=True, title="Braces", year=2020, source_id="s1", pmid="7", grade="C",
        study="randomised trial", status="retracted",
    )  # fmt: skip
    assert paper_line(paper) == (
        "[1][3] RETRACTED grade C, randomised trial: Braces (PMID 7, 2020)"
    )
    assert (
        paper_line(replace(paper, grade="", status=""))
        == "[1][3] not graded: Braces (PMID 7, 2020)"
    )


def test_the_writer_is_named_as_a_reader_knows_it() -> None:
    names = ("rules", "http: gpt-5@r1", "med42 (recorded)", "")
    assert [written_by(name) for name in names] == [
        "Written by rules.",
        "Written by the language model gpt-5@r1.",
        "Written by med42 (recorded).",
        "",
    ]
