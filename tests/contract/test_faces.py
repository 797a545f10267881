"""Every face × every field of an answer: it shows the field, or names it as left out, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from srrag.answer.clinical import clinical_reading
from srrag.answer.evidence import Evidence, EvidenceQuote, LeftOutPaper, papers_of
from srrag.answer.record import (
    AnswerFinding,
    AnswerNote,
    AnswerRecord,
    AnswerSentence,
    AnswerSupport,
    FailedStep,
    StepTime,
)
from srrag.core.schema import ANSWER
from srrag.lab.report.drilldown import LEFT_OUT as REPORT_LEFT_OUT
from srrag.library.results import CitedReply
from srrag.library.terminal import headed, readable
from srrag.serve.api.chat import extension, sources

SRRAG = Path(__file__).resolve().parents[2] / "srrag"
LEFT_OUT = {
    "id": "of a request",
    "rewritten_from": "said before the answer comes",
    "sentences": "their words and numbers are the answer's",
    "verdict": "the first sentence says it, and how far it goes; a word alone says too much",
    "findings": "the answer says them, or those that come nearest",
    "choice": "`option` is its text",
    "evidence": "told by paper, with the numbers that the answer cites",
    "left_out": "named by a note",
    "support": "what it dropped is told by a note",
    "degraded": "told by notes",
    "trace": "told by `trace=true`",
    "why": "told by `trace=true`",
    "expansion": "told by `trace=true`",
    "clinical": "the page shows it",
    "off": "the terminal tells it",
    "usage": "a figure for programs",
    "batch_rows": "a figure for programs",
    "version": "a figure for programs",
    "pipeline": "who asks chose it",
}
"""Fields of an answer that a text does not show, with the reason."""
HTML_LEFT_OUT = {name: why for name, why in LEFT_OUT.items() if name != "evidence"}
TERMINAL_LEFT_OUT = {
    **{name: why for name, why in LEFT_OUT.items() if name != "off"},
    "error": "an error of the command",
}
CHAT_LEFT_OUT = {
    **LEFT_OUT,
    "question": "the client has it",
    "rewritten_from": "the reply begins with how the follow-up was read",
    "error": "an error of the API",
}
"""Fields that the text of a chat does not show; its field `srrag` holds all."""
COPIED_LEFT_OUT = {
    **LEFT_OUT,
    "rewritten_from": "the question stands as it was read",
    "clinical": "the text is a part of it",
    "model": "its last line says that a machine answered",
    "error": "an error of the API",
}
"""Fields that the text which the question page copies does not show."""
_PROGRAMS = "a figure for programs"
ASK_LEFT_OUT = {
    "verdict": LEFT_OUT["verdict"],
    "choice": "`option` is its text",
    "papers": "the page lists the evidence, each with its paper and status",
    "left_out": "named by a note",
    "support": "what it dropped and put right is told by a note",
    "degraded": "told by notes",
    "usage": _PROGRAMS,
    "batch_rows": _PROGRAMS,
    "expansion": "the report and a terminal tell it",
    "off": "the page says who wrote the answer",
}
"""Fields of an answer that the question page does not show, with the reason."""
RUNS_LEFT_OUT = {
    **{
        name: ASK_LEFT_OUT[name] for name in ("choice", "papers", "left_out", "support", "degraded")
    },
    **dict.fromkeys(("usage", "batch_rows", "id", "pipeline", "version", "off"), _PROGRAMS),
    "error": "a failed row has its reject",
    "model": "told once for a run",
    "why": "the question page tells it",
    "expansion": "the report tells it",
    "clinical": "the question page reads it",
    "rewritten_from": "a stored run has no conversation",
}
"""Fields of an answer that the page of stored runs does not show, with the reason."""
NAMES = [each.name for each in fields(AnswerRecord)]
EVIDENCE = (
    Evidence(
        number=1, evidence_id="e", doc_id="d", title="Lamps", source_id="p-1", standing="retracted",
        standing_link="pmid:9",
        quotes=(EvidenceQuote(char_start=0, char_end=1, text="m-evidence"),),
    ),
)  # fmt: skip
FULL = AnswerRecord(
    question="m-question", answer="m-answer [1]", state="partly", verdict="no difference", choice=1,
    option="m-option", sentences=(AnswerSentence(text="m-sentences", citations=(1,)),),
    findings=(AnswerFinding(text="m-findings", kind="result", number=1, start=0, end=1),),
    missing="m-missing", evidence=EVIDENCE, papers=papers_of(EVIDENCE, [1]),
    left_out=(
        LeftOutPaper(doc_id="x", source_id="x", pmid="", title="m-left_out", standing="deleted",
                     standing_link=""),
    ),
    notes=(AnswerNote(kind="evidence", text="m-notes"),),
    support=AnswerSupport(sentences=71, kept_sentences=70, repaired_sentences=69), model="m-model",
    degraded=(FailedStep(step="m-degraded", fault="f"),), usage={"calls": 73}, batch_rows=74,
    trace=(StepTime(step="m-trace", ms=1.0, rows_in=1, rows_out=1),), why=({"unit_id": "m-why"},),
    expansion={"keywords": ["m-expansion"]}, off=("m-off",), rewritten_from="m-rewritten_from",
    id="m-id", pipeline="m-pipeline", version="m-version",
)  # fmt: skip
TELLS = {
    **{name: f"m-{name}" for name in NAMES},
    "state": "Answered in part", "verdict": "no difference", "choice": "1", "error": "m-error",
    "papers": "RETRACTED (PMID 9)", "support": "71", "usage": "73", "batch_rows": "74",
    "clinical": "Bottom line",
}  # fmt: skip
"""What a face that shows a field holds."""
REPLY = CitedReply(**{name: getattr(FULL, name) for name in NAMES})
FAILED = CitedReply(question="m-question", error="m-error")
FACES: dict[str, tuple[Callable[[], str], Mapping[str, str]]] = {
    "terminal": (
        lambda: headed(FULL.question) + FULL.answer + readable(FULL),
        TERMINAL_LEFT_OUT,
    ),
    "Python": (lambda: str(REPLY) + str(FAILED), LEFT_OUT),
    "notebook": (lambda: REPLY._repr_html_() + FAILED._repr_html_(), HTML_LEFT_OUT),
    "chat": (lambda: FULL.answer + sources(FULL), CHAT_LEFT_OUT),
    "copied": (lambda: clinical_reading(FULL).text, COPIED_LEFT_OUT),
}
PAGES = {
    "ask": (
        ["serve/page/ask.js", "serve/page/paper.js", "serve/page/reading.js",
         "serve/page/evidence.js"],
        "reply|shown|data", ASK_LEFT_OUT,
    ),
    "runs": (["serve/page/runs.js", "serve/page/evidence.js"], "side|reply", RUNS_LEFT_OUT),
    "report": (["lab/report/page/report.js"], "detail", REPORT_LEFT_OUT),
}  # fmt: skip


@pytest.mark.parametrize("face", FACES)
def test_a_text_tells_each_field_or_names_it_as_left_out(face: str) -> None:
    render, left_out = FACES[face]
    text = render()
    silent = {name for name in NAMES if TELLS[name].lower() not in text.lower()}
    assert silent - {*left_out} == set(), "neither shown nor left out"
    assert {*left_out} <= {*NAMES} and all(left_out.values()), "each with a reason"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_reads_each_field_or_names_it_as_left_out(page: str) -> None:
    files, names, left_out = PAGES[page]
    script = "\n".join((SRRAG / file).read_text("utf-8") for file in files)
    read = {*re.findall(rf"\b(?:{names})\??\.(\w+)", script)}
    for taken in re.findall(rf"\{{([^{{}}]*)\}} = (?:{names})\b(?!\.)", script):
        read |= {part.split(":")[0].strip() for part in taken.split(",")}
    assert {*NAMES} - read - {*left_out} == set(), "neither shown nor left out"
    assert {*left_out} & read == set(), "left out, yet read"
    assert {*left_out} <= {*NAMES} and all(left_out.values()), "each with a reason"


def test_every_program_gets_all_fields_in_one_shape() -> None:
    jsonschema.validate(FULL.json, AnswerRecord.schema())
    assert [*FULL.json] == NAMES and [*AnswerRecord.schema()["properties"]] == NAMES
    assert REPLY.json == extension(FULL, []) == FULL.json


def test_every_column_of_an_answer_comes_into_the_record() -> None:
    """A column that the record does not read changes nothing of it."""
    values: dict[str, Any] = {
        "answer": "m-answer", "state": "partly", "verdict": "yes", "missing": "m-missing",
        "sentences": [{"text": "m-said", "part": "answer", "evidence_ids": [], "places": []}],
        "findings": [{"text": "m-f", "kind": "result", "evidence_id": "e", "start": 0, "end": 1}],
        "choice": 0, "answer_note": "m-note", "model": "m-model",
    }  # fmt: skip
    blank: dict[str, Any] = {
        "text": "Q?", "options": ["yes"], "evidence": [], "answer": "", "state": "not",
        "sentences": [], "answer_note": "", "model": "", "choice": -1,
    }  # fmt: skip
    assert {field.name for field in ANSWER} == {*values}
    for name, value in values.items():
        assert AnswerRecord.of({**blank, name: value}) != AnswerRecord.of(blank), name


def test_a_field_that_no_face_knows_is_found() -> None:
    """The check above can fail: an answer without its notes is one that no text tells."""
    text = FULL.answer + sources(replace(FULL, notes=()))
    assert TELLS["notes"] not in text and "notes" not in CHAT_LEFT_OUT
