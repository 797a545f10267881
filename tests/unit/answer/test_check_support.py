from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from srrag.answer.check_support import UNSUPPORTED, CheckSupport, gate_of, support_line
from srrag.answer.cited import ABSTENTION, PARTIAL, CitedAnswer
from srrag.answer.compose import ComposeAnswer
from srrag.answer.free_citation import ComposeFreely, freed
from srrag.answer.select import SelectEvidence
from srrag.answer.streaming import AnswerStream, read_prompt
from srrag.llm.completion import read
from srrag.pipeline import Pipeline
from srrag.retrieve.search_sparse import SearchSparse
from srrag.step import Place
from tests.unit.answer.test_compose import FINDING, QUESTION, evidence, questions
from tests.unit.answer.test_support_gate import by_words

OTHER = "Stroke units lower mortality of older patients in hospital."
GOOD = "Balance training reduces recurrent ankle sprains."
TURNED = "Balance training increases recurrent ankle sprains by a third."
FAR = "Zinc shortens the common cold of schoolchildren in winter."


@pytest.fixture(autouse=True)
def vectors_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """No network is read: cosines are overlaps of words."""
    monkeypatch.setattr(CheckSupport, "encode_at", lambda self, at: by_words)


def cited(
    *answer: tuple[str, list[int]],
    evidence: tuple[tuple[str, list[int]], ...] = (),
    insufficient: bool = False,
) -> str:
    paragraphs = {
        name: [{"text": text, "cites": cites} for text, cites in said]
        for name, said in (("answer", answer), ("evidence", evidence), ("limits", ()))
    }
    return json.dumps({**paragraphs, "insufficient": insufficient, "missing": ""})


def composed(completion: str) -> pa.Table:
    step = ComposeAnswer()
    batch = questions((QUESTION, evidence(FINDING, OTHER)))
    return step.parse(batch, step.prompts(batch), [read(completion, CitedAnswer)])


def gated(completion: str) -> dict[str, Any]:
    out = CheckSupport().open(Place())(composed(completion))
    rows: list[dict[str, Any]] = out.to_pylist()
    return rows[0]


def test_what_is_supported_stays_as_it_is() -> None:
    whole = cited((FINDING, [1]), evidence=((OTHER, [2]),))
    row = gated(whole)
    assert row["answer"] == composed(whole)["answer"][0].as_py()
    assert row["unsupported"] == []
    assert row["support"] == {
        "sentences": 2, "kept_sentences": 2, "citations": 2, "kept_citations": 2,
    }  # fmt: skip


def test_citations_go_then_sentences_and_paragraphs_stay() -> None:
    row = gated(cited((GOOD, [1]), (TURNED, [1]), evidence=((FAR, [1, 2]), (OTHER, [1, 2]))))
    assert row["answer"] == f"{GOOD} [1]\n\n{OTHER} [2]"
    assert [each["text"] for each in row["sentences"]] == [GOOD, OTHER]
    assert row["sentences"][1]["evidence_ids"] == ["e2"]
    assert row["state"] == "answered"
    assert row["support"] == {
        "sentences": 4, "kept_sentences": 2, "citations": 6, "kept_citations": 2,
    }  # fmt: skip
    faults = [(each["text"], each["fault"]) for each in row["unsupported"]]
    assert faults == [(TURNED, "unsupported"), (FAR, "unsupported"), (OTHER, "citation")]


def test_with_nothing_left_there_is_an_abstention() -> None:
    row = gated(cited((TURNED, [1]), (QUESTION, [1, 2])))
    assert (row["answer"], row["sentences"], row["state"]) == (ABSTENTION, [], "not")
    assert row["answer_note"] == UNSUPPORTED
    assert row["support"]["kept_sentences"] == 0


def test_an_answer_in_part_stays_one() -> None:
    row = gated(cited((FINDING, [1]), (TURNED, [1]), insufficient=True))
    assert row["answer"] == f"{FINDING} [1]\n\n{PARTIAL}"
    assert row["state"] == "partly"


def test_an_abstention_has_nothing_to_check() -> None:
    row = gated(cited(insufficient=True))
    assert row["answer"] == ABSTENTION
    assert set(row["support"].values()) == {0}


def test_an_answer_that_is_not_made_of_its_sentences_is_an_error() -> None:
    table = composed(cited((FINDING, [1]), (TURNED, [1])))
    place = table.column_names.index("answer")
    other = table.set_column(place, table.schema.field("answer"), pa.array(["Something else."]))
    with pytest.raises(ValueError, match="does not hold its sentence"):
        CheckSupport().open(Place())(other)


def test_the_line_for_the_reader_counts_by_fault() -> None:
    assert support_line([]) == ""
    row = gated(cited((GOOD, [1, 2]), (TURNED, [1]), (FAR, [2])))
    assert support_line(row["unsupported"]) == (
        "Left out: 2 sentences (not supported by what was cited); "
        "1 citation that did not support the sentence."
    )


def pipeline(*answer: Any) -> Pipeline:
    return Pipeline(rank=(SearchSparse(into="hits"),), answer=(SelectEvidence(), *answer))


def test_a_pipeline_knows_what_a_step_revises() -> None:
    made = pipeline(ComposeAnswer(), CheckSupport())
    assert {"support", "unsupported"} <= set(made.writes.names)
    with pytest.raises(ValueError, match="CheckSupport reads column 'answer'"):
        pipeline(CheckSupport())


def test_free_citations_are_counted_without_the_gate() -> None:
    steps = freed(pipeline(ComposeAnswer(), CheckSupport())).answer
    assert [type(step) for step in steps] == [SelectEvidence, ComposeFreely]


def streamed(whole: str, step: int) -> tuple[list[str], str]:
    """What is heard of an answer that comes in pieces, and its text at the end."""
    written: list[str] = []
    gate = gate_of(pipeline(ComposeAnswer(), CheckSupport()).answer, Place())
    stream = AnswerStream(written.append, gate=gate)
    (prompt,) = ComposeAnswer().prompts(questions((QUESTION, evidence(FINDING, OTHER))))
    for start in range(0, len(whole), step):
        stream(prompt, 0, whole[start : start + step])
    heard = [*written]
    stream.finish(gated(whole)["answer"])
    return heard, "".join(written)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_stream_holds_a_sentence_back_until_it_has_passed(step: int) -> None:
    whole = cited((GOOD, [1]), (TURNED, [1]), evidence=((FAR, [1, 2]), (OTHER, [1, 2])))
    heard, end = streamed(whole, step)
    assert end == "".join(heard) == f"{GOOD} [1]\n\n{OTHER} [2]"
    assert "Zinc" not in end


def test_a_stream_of_nothing_supported_is_silent_until_the_abstention() -> None:
    heard, end = streamed(cited((TURNED, [1]), (FAR, [2])), 5)
    assert (heard, end) == ([], ABSTENTION)


def test_the_prompt_tells_question_and_windows() -> None:
    items = [each | {"title": "A [INST] title"} for each in evidence(FINDING)]
    (prompt,) = ComposeAnswer().prompts(questions(('Is "x" <b>it</b>?', items)))
    question, (window,) = read_prompt(prompt.user)
    assert question == 'Is "x" ‹b>it‹/b>?'
    assert (window.title, window.text) == ("A (INST] title", FINDING)


def test_a_gate_needs_a_step() -> None:
    assert gate_of(pipeline(ComposeAnswer()).answer, Place()) is None
    assert replace(CheckSupport()) == CheckSupport()
