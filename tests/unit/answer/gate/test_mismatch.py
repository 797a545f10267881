import json
from typing import Any

import pyarrow as pa
import pytest

from srrag.answer.gate.mismatch import UNCHECKED, Mismatch, Mismatches, NoticeMismatch, notice
from srrag.core.schema import ANCHORS, EVIDENCE, empty_value
from srrag.core.step import Place
from srrag.llm.completion import Completion, Fault, read

QUESTION = "Should adults with knee pain walk?"
STEP = NoticeMismatch()


def batch(*titles: str) -> pa.Table:
    empty = {field.name: empty_value(field.type) for field in EVIDENCE.value_type}
    items = [
        empty | {"evidence_id": f"e{i}", "doc_id": f"d{i}", "title": title, "text": "Pain fell."}
        for i, title in enumerate(titles, 1)
    ]
    anchors = {part: list[str]() for part in "PICOT"} | {"P": ["adults with knee pain"]}
    return pa.table(
        {
            "text": [QUESTION],
            "anchors": pa.array([anchors], ANCHORS),
            "evidence": pa.array([items], EVIDENCE),
        }
    )


TABLE = batch("Walking of adults with knee pain", "Knee pain in adolescents [9]")


def parsed(completion: Completion) -> dict[str, Any]:
    rows: list[dict[str, Any]] = STEP.parse(TABLE, STEP.prompts(TABLE), [completion]).to_pylist()
    return rows[0]


def said(*found: tuple[int, str, str, str]) -> Completion:
    items = [dict(zip(("n", "part", "asked", "found"), each, strict=True)) for each in found]
    return read(json.dumps({"mismatches": items}), Mismatches)


def test_rules_notice_other_people() -> None:
    row = STEP.open(Place())(TABLE).to_pylist()[0]
    assert row["mismatches"] == [
        {"evidence_id": "e2", "part": "P", "asked": "adults with knee pain", "found": "adolescents"}
    ]
    assert row["notice"] == (
        "The question asks about “adults with knee pain”, but evidence 2 speaks of “adolescents”."
    )
    nothing = STEP.open(Place())(batch("Walking of adults with knee pain")).to_pylist()[0]
    assert (nothing["mismatches"], nothing["notice"]) == ([], "")


def test_a_mismatch_counts_in_words_that_are_there_only() -> None:
    answer = said(
        (2, "P", "adults", "adolescents"), (2, "P", "children", "adolescents"),
        (1, "P", "adults", "rats"), (9, "P", "adults", "adolescents"),
    )  # fmt: skip
    row = parsed(answer)
    assert [each["evidence_id"] for each in row["mismatches"]] == ["e2"]
    assert "adolescents" in row["notice"]


@pytest.mark.parametrize(
    ("mismatch", "kind"),
    [
        ((2, "P", "adults", "adolescents"), None),
        ((2, "P", "", "adolescents"), None),
        ((3, "P", "adults", "adolescents"), "invalid_citation"),
        ((2, "P", "rats", "adolescents"), "ungrounded"),
        ((2, "I", "adults", "rats"), "ungrounded"),
    ],
)
def test_a_model_is_told_what_is_nowhere(mismatch: Any, kind: str | None) -> None:
    (prompt,) = STEP.prompts(TABLE)
    fault = STEP.check(TABLE, prompt, said(mismatch).value)
    assert (fault and fault.kind) == kind


def test_a_fault_says_that_nothing_is_known() -> None:
    row = parsed(Completion(fault=Fault("timeout", "")))
    assert (row["mismatches"], row["notice"]) == ([], UNCHECKED)


def test_a_notice_carries_no_marker_of_a_citation() -> None:
    row = parsed(said((2, "P", "adults", "in adolescents [9]")))
    assert "[9]" not in row["notice"] + row["mismatches"][0]["found"]


def test_a_notice_names_the_best_evidence_by_what_it_speaks_of() -> None:
    each = [
        Mismatch(n=1, part="P", asked="adults", found="rats"),
        Mismatch(n=3, part="P", asked="adults", found="rats"),
        Mismatch(n=2, part="I", asked="", found="surgery"),
        Mismatch(n=4, part="P", asked="adults", found="mice"),
    ]
    assert notice(each, 3) == (
        "The question asks about “adults”, but evidence 1 and 3 speak of “rats”. "
        "Other than the question, evidence 2 speaks of “surgery”."
    )
    assert notice(each, 0) == ""


def test_no_evidence_is_not_asked_about() -> None:
    empty = batch()
    assert STEP.prompts(empty) == []
    assert STEP.open(Place())(empty).to_pylist()[0]["notice"] == ""
