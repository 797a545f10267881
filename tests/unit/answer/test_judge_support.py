"""A model judges what the rules let through; without a usable verdict the answer stays."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from srrag.answer.check_support import CheckSupport, gate_of, support_line
from srrag.answer.cited import ABSTENTION
from srrag.answer.compose import ComposeAnswer
from srrag.answer.judge_support import JudgedSentence, JudgeSupport
from srrag.answer.streaming import AnswerStream
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import Completion, read
from srrag.schema import sentence_row
from srrag.step import Place
from tests.unit.answer.test_check_support import FAR, GOOD, OTHER, cited, composed, pipeline
from tests.unit.answer.test_compose import FINDING, QUESTION, evidence, questions
from tests.unit.answer.test_support_gate import by_words

STEP = JudgeSupport(engine=HttpEngine(model="m"))


@pytest.fixture(autouse=True)
def vectors_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """No network is read: cosines are overlaps of words."""
    monkeypatch.setattr(CheckSupport, "encode_at", lambda self, at: by_words)


def checked(completion: str) -> pa.Table:
    return CheckSupport().open(Place())(composed(completion))


def said(**verdicts: str) -> Completion:
    """Verdicts by number: e1="supports"."""
    found = [{"n": int(name[1:]), "verdict": verdict} for name, verdict in verdicts.items()]
    return read(json.dumps({"verdicts": found}), JudgedSentence)


def judged(table: pa.Table, *completions: Completion) -> dict[str, Any]:
    rows: list[dict[str, Any]] = STEP.parse(table, STEP.prompts(table), completions).to_pylist()
    return rows[0]


WHOLE = cited((GOOD, [1]), (FINDING, [1]), evidence=((OTHER, [2]),))
"""A sentence in other words, and two quotes."""


def test_what_is_no_quote_is_asked_with_what_it_cites_alone() -> None:
    (prompt,) = STEP.prompts(checked(WHOLE))
    assert GOOD in prompt.user
    assert [json.loads(line)["n"] for line in prompt.user.splitlines() if line[0] == "{"] == [1]


def test_a_supported_sentence_stays_and_is_counted() -> None:
    table = checked(WHOLE)
    row = judged(table, said(e1="supports"))
    assert row.pop("support_asked") == 1
    assert row == table.to_pylist()[0]


@pytest.mark.parametrize("verdict", ["silent", "contradicts"])
def test_a_sentence_falls_with_its_last_citation(verdict: str) -> None:
    row = judged(checked(WHOLE), said(e1=verdict))
    assert row["answer"] == f"{FINDING} [1]\n\n{OTHER} [2]"
    assert [each["text"] for each in row["sentences"]] == [FINDING, OTHER]
    assert row["unsupported"] == [{"text": GOOD, "fault": "judged", "evidence_ids": ["e1"]}]
    assert row["support"] == {
        "sentences": 3, "kept_sentences": 2, "citations": 3, "kept_citations": 2,
    }  # fmt: skip
    assert support_line(row["unsupported"]) == (
        "Left out: 1 sentence (not supported by what was cited, a model judged)."
    )


def test_a_citation_falls_alone_and_what_the_rules_dropped_stays_listed() -> None:
    two = replace_citations(checked(cited((GOOD, [1]), (FAR, [1]))), ["e1", "e2"])
    row = judged(two, said(e1="supports", e2="silent"))
    assert row["sentences"] == [sentence_row(GOOD, ["e1"])]
    assert [(each["text"], each["fault"]) for each in row["unsupported"]] == [
        (FAR, "unsupported"), (GOOD, "citation"),
    ]  # fmt: skip
    assert row["answer"] == f"{GOOD} [1]"


def test_with_nothing_left_there_is_an_abstention() -> None:
    row = judged(checked(cited((GOOD, [1]))), said(e1="silent"))
    assert (row["answer"], row["sentences"], row["state"]) == (ABSTENTION, [], "not")
    assert row["support"]["kept_sentences"] == 0


def test_a_lost_verdict_leaves_the_answer_and_rejects_the_step() -> None:
    table = checked(WHOLE)
    row = judged(table, read('{"verdicts": [', JudgedSentence))
    assert row["reject"]["stage"] == "support"
    assert row["answer"] == table["answer"][0].as_py()
    assert row["support_asked"] == 0
    assert STEP.auxiliary


@pytest.mark.parametrize(
    ("verdicts", "fault"),
    [
        ({"e1": "supports"}, None),
        ({}, "invalid_citation"),
        ({"e2": "supports"}, "invalid_citation"),
        ({"e1": "supports", "e2": "silent"}, "invalid_citation"),
    ],
)
def test_each_number_needs_one_verdict(verdicts: dict[str, str], fault: str | None) -> None:
    table = checked(WHOLE)
    (prompt,) = STEP.prompts(table)
    found = STEP.check(table, prompt, said(**verdicts).value)
    assert (found and found.kind) == fault


NEAR = "Mortality of older patients in hospital is lowered by stroke units."
"""The other window in other words."""


def test_a_lost_verdict_costs_its_question_all_and_no_other() -> None:
    """Of two questions with two sentences each, one loses one verdict."""
    both = cited((GOOD, [1]), evidence=((NEAR, [2]),))
    table = pa.concat_tables([checked(both), checked(both)])
    prompts = STEP.prompts(table)
    assert [(each.row, each.slot) for each in prompts] == [
        (0, "support.0"), (0, "support.1"), (1, "support.0"), (1, "support.1"),
    ]  # fmt: skip
    lost = read("", JudgedSentence)
    said_ = [lost, said(e2="silent"), said(e1="supports"), said(e2="silent")]
    first, second = STEP.parse(table, prompts, said_).to_pylist()
    assert first["answer"] == table["answer"][0].as_py() and first["support_asked"] == 0
    assert first["reject"]["stage"] == "support"
    assert second["answer"] == f"{GOOD} [1]" and second["support_asked"] == 2
    assert second["reject"] is None
    assert STEP.check(table, prompts[0], said(e1="supports").value) is None
    assert STEP.check(table, prompts[3], said(e1="silent").value) is not None
    assert STEP.check(table, prompts[3], said(e2="silent").value) is None


def test_verdicts_may_come_in_any_order() -> None:
    table = replace_citations(checked(cited((GOOD, [1]))), ["e1", "e2"])
    (prompt,) = STEP.prompts(table)
    assert STEP.check(table, prompt, said(e2="silent", e1="supports").value) is None


def test_a_sentence_that_cites_nothing_is_not_asked_about() -> None:
    table = replace_citations(checked(cited((GOOD, [1]))), [])
    assert STEP.prompts(table) == []


def test_by_rules_nothing_is_asked_and_nothing_changes() -> None:
    table = checked(WHOLE)
    step = JudgeSupport()
    assert step.off
    out = step.open(Place())(table)
    assert out.select(table.column_names).equals(table)


def test_a_draft_is_held_back_until_the_model_has_judged() -> None:
    written: list[str] = []
    made = pipeline(ComposeAnswer(), CheckSupport(), STEP)
    stream = AnswerStream(written.append, gate=gate_of(made.answer, Place()))
    (prompt,) = ComposeAnswer().prompts(questions((QUESTION, evidence(FINDING, OTHER))))
    stream(prompt, 0, WHOLE)
    assert written == []
    stream.finish("The end.")
    assert written == ["The end."]
    off = pipeline(ComposeAnswer(), CheckSupport(), replace(STEP, engine=JudgeSupport().engine))
    AnswerStream(written.append, gate=gate_of(off.answer, Place()))(prompt, 0, WHOLE)
    assert "".join(written[1:]).startswith(GOOD)


def replace_citations(table: pa.Table, ids: list[str]) -> pa.Table:
    """The same answer, whose first sentence cites these."""
    (row,) = table.to_pylist()
    row["sentences"][0]["evidence_ids"] = ids
    marks = "".join(f"[{name[1:]}]" for name in ids)
    row["answer"] = row["answer"].replace("[1]", marks, 1)
    return pa.Table.from_pylist([row], schema=table.schema)
