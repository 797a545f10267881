import json
from typing import Any

import pyarrow as pa

from srrag.answer.select.snippets import MAX_SNIPPETS, FindSnippets, Snippets
from srrag.core.schema import EVIDENCE, empty_value
from srrag.core.step import Place
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import Completion, Fault
from srrag.llm.read_answer import read

STEP = FindSnippets(engine=HttpEngine(model="m"))
FIRST = "Balance training was tested. Recurrent sprains fell by 29 points\nat 3 months in adults."
SECOND = "Braces reduce recurrent ankle sprains."


def batch(*texts: str) -> pa.Table:
    empty = {field.name: empty_value(field.type) for field in EVIDENCE.value_type}
    items = [empty | {"evidence_id": f"e{i}", "text": text} for i, text in enumerate(texts, 1)]
    question = "Does balance training reduce recurrent sprains at 3 months in adults?"
    return pa.table({"text": [question], "evidence": pa.array([items], EVIDENCE)})


def parsed(answer: Completion) -> dict[str, Any]:
    table = batch(FIRST, SECOND)
    rows: list[dict[str, Any]] = STEP.parse(table, STEP.prompts(table), [answer]).to_pylist()
    return rows[0]


def said(*snippets: tuple[int, str]) -> Completion:
    blank = {"reason": "outcome in time", "parts": ["T", "O"]}
    windows = [{"n": n, "snippet": text, **blank} for n, text in snippets]
    return read(json.dumps({"windows": windows}), Snippets)


def test_one_call_shows_all_windows_by_number() -> None:
    (prompt,) = STEP.prompts(batch(FIRST, SECOND))
    assert f'{{"n": 2, "title": "", "text": "{SECOND}"}}' in prompt.user
    assert STEP.prompts(batch()) == []


def test_a_snippet_is_the_words_of_its_window() -> None:
    row = parsed(said((1, "sprains fell by 29  points at 3 months")))
    (snippet,) = row["snippets"]
    assert snippet["text"] == "sprains fell by 29 points\nat 3 months"
    assert FIRST[snippet["char_start"] : snippet["char_end"]] == snippet["text"]
    assert (snippet["evidence_id"], snippet["parts"]) == ("e1", ["O", "T"])
    assert row["lost_snippets"] == 0


def test_at_most_three_of_a_window_in_order_of_the_windows() -> None:
    words = ["Balance", "training", "was", "tested", "Recurrent"]
    row = parsed(said((2, "Braces"), *((1, word) for word in words), (1, "Balance")))
    assert [each["text"] for each in row["snippets"]] == [*words[:MAX_SNIPPETS], "Braces"]


def test_what_is_not_there_is_asked_for_alone_then_dropped_and_counted() -> None:
    made_up = said((1, "Balance training"), (1, "Sprains rose."), (7, "Braces"), (2, "9 points"))
    row = parsed(made_up)
    assert [each["text"] for each in row["snippets"]] == ["Balance training"]
    assert row["lost_snippets"] == 3
    table = batch(FIRST, SECOND)
    fault = STEP.check(table, STEP.prompts(table)[0], made_up.value)
    assert fault is not None and fault.items == (("windows", 1), ("windows", 2), ("windows", 3))
    assert (fault.kind, "Sprains rose." in fault.detail) == ("ungrounded", True)


def test_a_fault_rejects_its_row() -> None:
    row = parsed(Completion(fault=Fault("timeout", "")))
    assert (row["reject"]["reason"], row["snippets"]) == ("timeout", [])


def test_by_rules_no_snippets_are_read() -> None:
    step = FindSnippets()
    row = step.open(Place())(batch(FIRST, SECOND)).to_pylist()[0]
    assert step.off and (row["snippets"], row["lost_snippets"], row["reject"]) == ([], 0, None)
