from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from srrag.answer.select.papers import GatherPapers
from srrag.answer.write.read_and_answer import ReadAndAnswer, SearchAgain, merged
from srrag.core.pipeline import Pipeline
from srrag.core.step import Place
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import NOT_ASKED, Completion, Prompt, Rules, read
from srrag.retrieve.questions import question_table
from srrag.retrieve.search_sparse import SearchSparse
from srrag.storage.store import Store

QUESTIONS = ("Should bed rest be prescribed for acute low back pain?", "How is a sprain treated?")
ENGINE = HttpEngine(model="m", revision="r")
SEARCH = Pipeline(rank=(SearchSparse(into="hits"),))
STEP = SearchAgain(search=SEARCH, papers=GatherPapers(k=3), read=ReadAndAnswer(engine=ENGINE))


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


def answered(root: Any, client: Scripted) -> list[dict[str, Any]]:
    at = Place(artifacts=Store(root).artifacts("default"), clients={ENGINE: client}, threads=1)
    first = (GatherPapers(k=3), ReadAndAnswer(engine=ENGINE, searches=True))
    made = Pipeline(rank=SEARCH.rank, answer=(*first, STEP))
    rows: list[dict[str, Any]] = made.open(at)(
        question_table([{"query_id": q, "text": q} for q in QUESTIONS])
    ).to_pylist()
    return rows


def test_the_second_answer_counts_and_what_the_first_used_comes_first(sample_root: Any) -> None:
    plain = answered(sample_root, Scripted([]))
    client = Scripted(["achilles tendinopathy eccentric loading"])
    rows = answered(sample_root, client)
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
    assert [row["answer"] for row in answered(sample_root, client)] == ["First. [2]"] * 2
    assert len(client.asked) == 2


def test_a_second_reading_that_fails_leaves_the_first_answer(sample_root: Any) -> None:
    rows = answered(sample_root, Scripted(["ankle"], second="no JSON"))
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


def test_there_is_no_third_search() -> None:
    read_again = ReadAndAnswer(engine=Rules(), searches=True)
    with pytest.raises(ValueError, match="no third search"):
        SearchAgain(search=SEARCH, papers=GatherPapers(), read=read_again)
    assert pa.types.is_list(ReadAndAnswer.writes.field("searches").type)
