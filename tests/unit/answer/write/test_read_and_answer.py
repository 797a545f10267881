from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from srrag.answer.select.papers import GatherPapers
from srrag.answer.write.cited import ABSTENTION, NO_EVIDENCE, by_paper
from srrag.answer.write.papers_answer import ChosenFromPapers, PapersAnswer
from srrag.answer.write.read_and_answer import ReadAndAnswer, SearchAgain, merged
from srrag.core.pipeline import Pipeline
from srrag.core.rows import with_columns
from srrag.core.schema import CONVERSATION, EVIDENCE, NO_CHOICE, empty_value, sentence_row
from srrag.core.step import Place
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import NOT_ASKED, Completion, Fault, Prompt, Rules
from srrag.llm.read_answer import read
from srrag.retrieve.questions import question_table
from srrag.retrieve.search import SearchSparse
from srrag.storage.store import Store

BLANK = {field.name: empty_value(field.type) for field in EVIDENCE.value_type}
FIRST = (
    "48 adults with heel pain were randomised. At 3 months pain was 29 points lower (P = 0.016)."
)
SECOND = "Adults should train."
UNSAID = empty_value(CONVERSATION)
STEP = ReadAndAnswer(engine=HttpEngine(model="m", revision="r"))


def questions(papers: int = 2, options: tuple[str, ...] = (), said: object = UNSAID) -> pa.Table:
    evidence = [
        BLANK | {"evidence_id": "a", "grade": "C", "title": "Heel pain", "text": FIRST},
        BLANK | {"evidence_id": "b", "grade": "A", "title": "Guideline", "text": SECOND},
    ]
    return pa.table(
        {
            "text": ["Does training help heel pain?"],
            "options": pa.array([list(options)], pa.list_(pa.string())),
            "conversation": pa.array([said], CONVERSATION),
            "evidence": pa.array([evidence[:papers]], EVIDENCE),
        }
    )


def told(**changes: Any) -> dict[str, Any]:
    return {
        "findings": [{"sentences": ["1.2"], "says": "29 points lower", "kind": "result"}],
        "state": "answered",
        "verdict": "yes",
        "answer": [{"text": "Training lowered pain by 29 points.", "sentences": ["1.2", "1.1"]}],
        "evidence": [{"text": "A guideline advises it.", "sentences": ["2.1"]}],
        "limits": [{"text": "No interval is given.", "sentences": ["1"]}],
        "missing": "",
    } | changes


def answered(table: pa.Table, value: dict[str, Any], step: ReadAndAnswer = STEP) -> dict[str, Any]:
    (prompt,) = step.prompts(table)
    completion = read(json.dumps(value), prompt.schema)
    assert completion.fault is None, completion.fault
    row: dict[str, Any] = step.parse(table, [prompt], [completion]).to_pylist()[0]
    return row


def fault(value: dict[str, Any]) -> Fault | None:
    (prompt,) = STEP.prompts(questions())
    return STEP.check(questions(), prompt, read(json.dumps(value), prompt.schema).value)


def test_sentences_have_the_papers_and_the_places_that_they_rest_on() -> None:
    row = answered(questions(), told())
    assert row["answer"] == (
        "Training lowered pain by 29 points. [1]\n\n- A guideline advises it. [2]\n\n"
        "Limits: No interval is given. [1]"
    )
    first, second, limit = row["sentences"]
    assert [each["part"] for each in row["sentences"]] == ["answer", "evidence", "limits"]
    assert [FIRST[each["start"] : each["end"]] for each in first["places"]] == [
        "At 3 months pain was 29 points lower (P = 0.016).",
        "48 adults with heel pain were randomised.",
    ]
    assert second["places"] == [{"evidence_id": "b", "start": 0, "end": len(SECOND)}]
    assert (limit["evidence_ids"], limit["places"]) == (["a"], [])
    (finding,) = row["findings"]
    assert FIRST[finding["start"] : finding["end"]].startswith("At 3 months")
    assert (row["state"], row["verdict"], row["model"]) == ("answered", "yes", STEP.engine.name)
    assert (row["invalid_citations"], row["dropped_sentences"], row["reject"]) == (0, 0, None)


def test_an_answer_in_part_says_so_and_what_is_missing() -> None:
    row = answered(questions(), told(state="partly", missing="Nothing on runners."))
    assert (row["state"], row["missing"]) == ("partly", "Nothing on runners.")


def test_where_nothing_answers_what_comes_nearest_is_shown() -> None:
    """An answer or limits that a model writes in spite of its own `state` are padding."""
    row = answered(questions(), told(state="not", missing="No paper is on runners."))
    assert row["answer"] == f"{ABSTENTION}\n\nNearest:\n- A guideline advises it. [2]"
    assert ([each["part"] for each in row["sentences"]], row["verdict"]) == (["evidence"], "")
    assert row["missing"] == "No paper is on runners."
    assert len(row["findings"]) == 1
    assert fault(told(state="not", answer=[])) is None


def test_pieces_of_a_paper_are_no_papers() -> None:
    table = questions()
    evidence = [each | {"doc_id": "d"} for each in table["evidence"].to_pylist()[0]]
    one = with_columns(table, pa.table({"evidence": pa.array([evidence], EVIDENCE)}))
    told = [STEP.prompts(each)[0].user for each in (table, one)]
    assert "Papers, 2 in all:" in told[0]
    assert "Papers, 1 in all, in pieces numbered to 2;" in told[1]


def test_bad_numbers_cost_themselves() -> None:
    numbers = ["1.2", "1.9", "7.1", "x"]
    row = answered(questions(), told(answer=[{"text": "It helps.", "sentences": numbers}]))
    assert row["sentences"][0]["evidence_ids"] == ["a"]
    assert row["invalid_citations"] == 3
    row = answered(questions(), told(limits=[{"text": "Nobody knows.", "sentences": ["9.9"]}]))
    assert [each["part"] for each in row["sentences"]] == ["answer", "evidence"]
    assert row["dropped_sentences"] == 1


def test_an_answer_that_cites_nothing_is_asked_for_once_more_and_then_not_shown() -> None:
    bad = told(answer=[{"text": "It helps.", "sentences": ["9.9"]}])
    assert (found := fault(bad)) is not None and found.kind == "uncited"
    assert fault(told()) is None
    row = answered(questions(), bad)
    assert (row["answer"], row["state"], row["verdict"]) == (ABSTENTION, "not", "")
    assert row["answer_note"]


def test_numbers_without_quotation_marks_are_read() -> None:
    row = answered(questions(), told(answer=[{"text": "It helps.", "sentences": [1.2, 2]}]))
    assert row["sentences"][0]["evidence_ids"] == ["a", "b"]


def test_an_option_is_chosen_before_the_sentences_are_written() -> None:
    table = questions(options=("yes", "no"))
    (prompt,) = STEP.prompts(table)
    assert 'Options: ["yes", "no"]' in prompt.user
    assert [*ChosenFromPapers.model_fields][:4] == ["findings", "state", "verdict", "choice"]
    assert answered(table, told(choice=2))["choice"] == 1
    assert answered(table, told(choice=3))["choice"] == NO_CHOICE
    assert answered(table, told(choice=1, state="not"))["choice"] == NO_CHOICE
    assert answered(questions(), told())["choice"] == NO_CHOICE
    assert "choice" not in STEP.prompts(questions())[0].system


def test_the_example_of_the_prompt_is_an_answer() -> None:
    for schema in (PapersAnswer, ChosenFromPapers):
        assert read(json.dumps(schema.example), schema).value.state == "answered"


def test_without_papers_nobody_is_asked() -> None:
    assert STEP.prompts(questions(papers=0)) == []
    row = STEP.parse(questions(papers=0), [], []).to_pylist()[0]
    assert (row["state"], row["missing"], row["model"]) == ("not", NO_EVIDENCE, "rules")


@pytest.mark.parametrize("options", [(), ("yes", "no")])
def test_the_rules_quote_sentences_with_their_places(options: tuple[str, ...]) -> None:
    text = "Adults were randomised. Training reduced heel pain at 3 months. Nobody was harmed."
    paper = BLANK | {"evidence_id": "a", "title": "Training for heel pain", "text": text}
    table = questions(options=options).drop_columns(["evidence"])
    table = table.append_column("evidence", pa.array([[paper]], EVIDENCE))
    row = ReadAndAnswer().open(Place())(table).to_pylist()[0]
    assert (row["state"], row["model"], row["reject"]) == ("answered", "rules", None)
    assert row["sentences"][0]["text"] == "Training reduced heel pain at 3 months."
    for sentence in row["sentences"]:
        (place,) = sentence["places"]
        assert text[place["start"] : place["end"]] == sentence["text"]


def test_a_faulty_answer_rejects_its_row() -> None:
    (prompt,) = STEP.prompts(questions())
    row = STEP.parse(questions(), [prompt], [read("{", prompt.schema)]).to_pylist()[0]
    assert row["reject"]["stage"] == "answer"


def test_sentences_of_a_paper_stand_together_after_the_lead_and_before_limits() -> None:
    evidence = [{"evidence_id": f"e{n}", "doc_id": f"d{n % 3}"} for n in range(4)]
    said = [
        sentence_row(text, ids, part=part)
        for text, ids, part in [
            ("lead", ["e0", "e1"], "answer"), ("one", ["e1"], "answer"), ("two", ["e0"], "answer"),
            ("three", ["e2"], "evidence"), ("four", ["e1"], "evidence"),
            ("five", ["e3"], "evidence"), ("but", ["e0"], "limits"),
        ]
    ]  # fmt: skip
    told = [each["text"] for each in by_paper(said, evidence)]
    assert told == ["lead", "one", "four", "two", "five", "three", "but"]
    assert by_paper([], evidence) == []


QUESTIONS = ("Should bed rest be prescribed for acute low back pain?", "How is a sprain treated?")
ENGINE = HttpEngine(model="m", revision="r")
SEARCH = Pipeline(rank=(SearchSparse(into="hits"),))
AGAIN = SearchAgain(search=SEARCH, papers=GatherPapers(k=3), read=ReadAndAnswer(engine=ENGINE))


class Scripted:
    """A client that keeps what it is asked, and answers with the first sentence of paper 1."""

    fresh = False

    def __init__(self, searches: Sequence[str], second: str = "") -> None:
        self.asked: list[Prompt] = []
        self.searches, self.second = searches, second

    def complete(
        self, prompts: Sequence[Prompt], attempt: int, may_call: Sequence[bool]
    ) -> list[Completion]:
        self.asked += [prompt for prompt, may in zip(prompts, may_call, strict=True) if may]
        return [
            read(self.answer(prompt), prompt.schema) if may else Completion(fault=NOT_ASKED)
            for prompt, may in zip(prompts, may_call, strict=True)
        ]

    def answer(self, prompt: Prompt) -> str:
        first = "search" in prompt.schema.model_fields
        if not first and self.second:
            return self.second
        said = {"text": "First." if first else "Second.", "sentences": ["2.1" if first else "1.1"]}
        told = {"findings": [], "state": "answered", "verdict": "", "answer": [said],
                "evidence": [], "limits": [], "missing": ""}  # fmt: skip
        return json.dumps(told | ({"search": list(self.searches)} if first else {}))


def answered_again(root: Any, client: Scripted) -> list[dict[str, Any]]:
    at = Place(artifacts=Store(root).artifacts("default"), clients={ENGINE: client}, threads=1)
    first = (GatherPapers(k=3), ReadAndAnswer(engine=ENGINE, searches=True))
    made = Pipeline(rank=SEARCH.rank, answer=(*first, AGAIN))
    rows: list[dict[str, Any]] = made.open(at)(
        question_table([{"query_id": q, "text": q} for q in QUESTIONS])
    ).to_pylist()
    return rows


def test_the_second_answer_counts_and_what_the_first_used_comes_first(sample_root: Any) -> None:
    plain = answered_again(sample_root, Scripted([]))
    client = Scripted(["achilles tendinopathy eccentric loading"])
    rows = answered_again(sample_root, client)
    assert len(client.asked) == 4
    for row, before in zip(rows, plain, strict=True):
        assert row["answer"] == "Second. [1]"
        used = before["sentences"][0]["evidence_ids"][0]
        assert row["evidence"][0]["evidence_id"] == used
        assert {e["doc_id"] for e in row["evidence"]} != {e["doc_id"] for e in before["evidence"]}
        assert row["searches"] == client.searches
        assert row["hits"] == before["hits"]


def test_without_a_wish_nothing_is_asked_again(sample_root: Any) -> None:
    client = Scripted([])
    assert [row["answer"] for row in answered_again(sample_root, client)] == ["First. [2]"] * 2
    assert len(client.asked) == 2


class Repeating(Scripted):
    """A client that wishes for the search that was made."""

    def answer(self, prompt: Prompt) -> str:
        self.searches = [prompt.question]
        return super().answer(prompt)


def test_papers_that_were_read_are_not_read_again(sample_root: Any) -> None:
    client = Repeating([])
    rows = answered_again(sample_root, client)
    assert [row["answer"] for row in rows] == ["First. [2]"] * 2
    assert len(client.asked) == 2 and rows[0]["searches"] == [QUESTIONS[0]]


def test_a_second_reading_that_fails_leaves_the_first_answer(sample_root: Any) -> None:
    rows = answered_again(sample_root, Scripted(["ankle"], second="no JSON"))
    assert [row["answer"] for row in rows] == ["First. [2]"] * 2
    assert [row["reject"] for row in rows] == [None, None]


def test_hits_of_several_searches_come_in_turn_and_once() -> None:
    def hits(*names: str) -> list[dict[str, Any]]:
        return [{"unit_id": name, "score": 1.0, "rank": n} for n, name in enumerate(names, 1)]

    answer = {
        "sentences": [{"evidence_ids": ["x"]}],
        "findings": [{"evidence_id": "y"}],
        "evidence": [
            {"evidence_id": name, "unit_id": name.upper(), "score": 2.0} for name in ("x", "z", "y")
        ],
    }
    found = list(merged(answer, [hits("a", "X"), hits("b", "c", "d")], hits("X", "Z", "a")))
    assert [hit["unit_id"] for hit in found] == ["X", "Y", "a", "b", "c", "d", "Z"]
    assert [hit["rank"] for hit in found] == list(range(1, 8))


def test_of_a_conversation_all_is_shown_and_nothing_can_be_cited() -> None:
    paper = {"line": "grade C, randomised trial: Heel pain (h1, 2009)", "recalled": True}
    said = {
        "asked": "Why is that?",
        "turns": [{"question": "Does training help?", "answer": "Yes, by 29 points. [E1]"}],
        "papers": [paper | {"key": "h1"}, paper | {"key": "PMID 7"}],
    }
    table = questions(said=said)
    evidence = table["evidence"].to_pylist()
    evidence[0][1]["source_id"] = "h1"
    table = with_columns(table, pa.table({"evidence": pa.array(evidence, EVIDENCE)}))
    (prompt,) = STEP.prompts(table)
    before, _, question = prompt.user.partition("Question: ")
    assert 'Earlier answer: "Yes, by 29 points. [E1]"' in before
    assert 'E1: "grade C, randomised trial: Heel pain (h1, 2009)"; now paper 2' in before
    assert "E2: " in before and "; not shown now" in before and 'Message: "Why is that?"' in before
    assert question.startswith('"Does training help heel pain?"')
    (alone,) = STEP.prompts(questions())
    assert "conversation" in prompt.system and "conversation" not in alone.system
    sentence = {"text": "As said before, training helps.", "sentences": ["E1"]}
    row = answered(table, told(evidence=[sentence]))
    assert sentence["text"] not in row["answer"] and row["dropped_sentences"] == 1


def test_there_is_no_third_search() -> None:
    read_again = ReadAndAnswer(engine=Rules(), searches=True)
    with pytest.raises(ValueError, match="no third search"):
        SearchAgain(search=SEARCH, papers=GatherPapers(), read=read_again)
    assert pa.types.is_list(ReadAndAnswer.writes.field("searches").type)
