from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.core.schema import EVIDENCE, empty_value
from srrag.engine.base import Call, Reply, Session
from srrag.engine.openai.engine import HttpEngine
from srrag.systems.biogen.summarise import MAX_CHARS, SummariseDocuments
from tests.engines import ScriptedSession, ToyModel
from tests.unit.expand.asking import (
    baseline_faults,
    by_rules,
    questions,
    scripted,
    through,
    with_reject,
)

BLANK = {item.name: empty_value(item.type) for item in EVIDENCE.value_type}
ZINC = "Zinc cut colds by 33 %."
DOCUMENTS = [
    BLANK | {"evidence_id": "e1", "kind": "document", "unit_id": "u1", "text": ZINC},
    BLANK | {"evidence_id": "e2", "kind": "document", "unit_id": "u2", "text": "Rest is common."},
]


def table(*documents: dict[str, Any]) -> pa.Table:
    return questions("Does zinc help?").append_column(
        "documents", pa.array([list(documents)], EVIDENCE)
    )


def summarised(tmp_path: Path, *said: str) -> tuple[dict[str, Any], Any]:
    told = [{"n": n, "summary": text} for n, text in enumerate(said, 1)]
    text = json.dumps({"summaries": told})
    made = scripted(SummariseDocuments(), table(*DOCUMENTS), tmp_path, lambda call: text)
    return made[0][0], made[1]


def test_rules_hand_the_documents_on() -> None:
    step = SummariseDocuments()
    assert step.off
    (row,) = by_rules(step, table(*DOCUMENTS))
    assert (row["summaries"], row["summaries_lost"]) == (DOCUMENTS, 0)
    assert step.prompts(table(*DOCUMENTS)) == []
    assert baseline_faults(step, table(*DOCUMENTS)) == []


def test_all_documents_in_one_call(tmp_path: Path) -> None:
    row, usage = summarised(tmp_path, "Zinc cut colds by 33 percent.", "It says rest is common.")
    assert usage.calls == 1
    assert [each["text"] for each in row["summaries"]] == [
        "Zinc cut colds by 33 percent.", "It says rest is common.",
    ]  # fmt: skip
    assert {each["kind"] for each in row["summaries"]} == {"summary"}
    assert {each["char_start"] for each in row["summaries"]} == {-1}
    assert [each["unit_id"] for each in row["summaries"]] == ["u1", "u2"]


def test_what_says_nothing_on_the_question_is_left_out(tmp_path: Path) -> None:
    row, _ = summarised(tmp_path, ZINC)
    assert [each["text"] for each in row["summaries"]] == [ZINC]
    assert (row["summaries_lost"], row["reject"]) == (0, None)


@pytest.mark.parametrize("said", [("Zinc cut colds by 44 %.",), ()])
def test_a_document_stands_for_a_summary_that_is_lost_or_has_a_number_of_its_own(
    tmp_path: Path, said: tuple[str, ...]
) -> None:
    texts = (*said, "Rest is common.") if said else ()
    listed = [{"n": n, "summary": text} for n, text in enumerate(texts, 1)]
    told = json.dumps({"summaries": listed})
    made, _ = scripted(
        SummariseDocuments(), table(*DOCUMENTS), tmp_path, lambda call: told if said else "no"
    )
    (row,) = made
    if said:
        assert [each["kind"] for each in row["summaries"]] == ["document", "summary"]
        assert (row["summaries"][0]["text"], row["summaries_lost"]) == (ZINC, 1)
    else:
        assert row["reject"]["stage"] == "summarise"


@pytest.mark.parametrize(("documents", "calls"), [(15, 1), (16, 1), (45, 3)])
def test_sixteen_abstracts_are_a_call(documents: int, calls: int) -> None:
    abstract = DOCUMENTS[0] | {"text": "Zinc cut colds. " * 120}
    step = SummariseDocuments(engine=HttpEngine(model="m"))
    prompts = step.prompts(table(*[abstract] * documents))
    assert len(prompts) == calls
    assert all(len(each.system + each.user) < MAX_CHARS * 1.2 for each in prompts)
    long = DOCUMENTS[0] | {"text": "Zinc cut colds. " * 3000}
    assert len(step.prompts(table(long, long, abstract, abstract))) == 3


def test_a_call_summarises_its_own_documents_alone(tmp_path: Path) -> None:
    def both(call: Call) -> str:
        what = "rest" if '{"n": 17,' in call.prompt.user else "sleep"
        text = f"It says {what} is common."
        return json.dumps({"summaries": [{"n": n, "summary": text} for n in (1, 17)]})

    batch = table(*[DOCUMENTS[1]] * 17)
    (row,), _ = scripted(SummariseDocuments(), batch, tmp_path, both)
    made = [each["text"] for each in row["summaries"] if each["kind"] == "summary"]
    assert made == ["It says sleep is common.", "It says rest is common."]
    assert row["summaries_lost"] == 0


@pytest.mark.parametrize(("numbers", "kinds"), [
    ((1, 3), ["summary", "summary", "document"]),
    ((3, 1), ["summary", "document", "summary", "document"]),
])  # fmt: skip
def test_documents_behind_the_end_of_a_cut_list_stand_as_they_are(
    numbers: tuple[int, ...], kinds: list[str], tmp_path: Path
) -> None:
    text = "It says rest is common."
    whole = json.dumps({"summaries": [{"n": n, "summary": text} for n in (*numbers, 4)]})
    cut = whole[: whole.rindex("It says") + 5]
    engine = ToyModel()

    async def opened() -> Session:
        return ScriptedSession(lambda call: Reply(cut, finish="length"))

    batch = table(*[DOCUMENTS[1]] * 4)
    (row,), _ = through(SummariseDocuments(), batch, tmp_path, engine, {engine: opened})
    assert [each["kind"] for each in row["summaries"]] == kinds
    assert row["summaries_lost"] == kinds.count("document")


def test_no_document_is_no_fault(tmp_path: Path) -> None:
    (row,), usage = scripted(SummariseDocuments(), table(), tmp_path, lambda call: "{}")
    assert (row["summaries"], row["reject"], usage.calls) == ([], None, 0)


def test_what_was_rejected_before_is_not_asked() -> None:
    (row,) = by_rules(SummariseDocuments(), with_reject(table(*DOCUMENTS)))
    assert (row["reject"]["stage"], row["summaries"]) == ("before", [])
