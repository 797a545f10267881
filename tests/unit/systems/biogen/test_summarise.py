from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.schema import EVIDENCE, empty_value
from srrag.systems.biogen.summarise import SummariseDocuments
from tests.unit.expand.asking import baseline_faults, by_rules, questions, scripted, with_reject

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


def summarised(tmp_path: Path, first: str, second: str) -> tuple[dict[str, Any], Any]:
    def script(call: Any) -> str:
        return json.dumps({"summary": first if "33 %" in call.prompt.user else second})

    (row,), usage = scripted(SummariseDocuments(), table(*DOCUMENTS), tmp_path, script)
    return row, usage


def test_rules_hand_the_documents_on() -> None:
    step = SummariseDocuments()
    assert step.off
    (row,) = by_rules(step, table(*DOCUMENTS))
    assert (row["summaries"], row["summaries_lost"]) == (DOCUMENTS, 0)
    assert step.prompts(table(*DOCUMENTS)) == []
    assert baseline_faults(step, table(*DOCUMENTS)) == []


def test_one_call_a_document(tmp_path: Path) -> None:
    row, usage = summarised(tmp_path, "Zinc cut colds by 33 %.", "It says rest is common.")
    assert usage.calls == 2
    assert [each["text"] for each in row["summaries"]] == [
        "Zinc cut colds by 33 %.", "It says rest is common.",
    ]  # fmt: skip
    assert {each["kind"] for each in row["summaries"]} == {"summary"}
    assert {each["char_start"] for each in row["summaries"]} == {-1}
    assert [each["unit_id"] for each in row["summaries"]] == ["u1", "u2"]


def test_a_number_of_its_own_is_asked_for_again_and_then_lost(tmp_path: Path) -> None:
    row, usage = summarised(tmp_path, "Zinc cut colds by 44 %.", "Rest is common.")
    assert usage.faults == {"invented_number": 2}
    assert [each["text"] for each in row["summaries"]] == ["Rest is common."]
    assert (row["summaries_lost"], row["reject"]) == (1, None)


def test_if_every_summary_is_lost_so_is_the_row(tmp_path: Path) -> None:
    row, _ = summarised(tmp_path, "It was 44 %.", "It was 55 %.")
    assert row["reject"]["reason"] == "invented_number"
    (row,), _ = scripted(SummariseDocuments(), table(*DOCUMENTS), tmp_path / "b", lambda call: "{}")
    assert row["reject"]["stage"] == "summarise"


def test_no_document_is_no_fault(tmp_path: Path) -> None:
    (row,), usage = scripted(SummariseDocuments(), table(), tmp_path, lambda call: "{}")
    assert (row["summaries"], row["reject"], usage.calls) == ([], None, 0)


def test_what_was_rejected_before_is_not_asked() -> None:
    (row,) = by_rules(SummariseDocuments(), with_reject(table(*DOCUMENTS)))
    assert (row["reject"]["stage"], row["summaries"]) == ("before", [])
