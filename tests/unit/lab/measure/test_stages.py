"""Stage by stage: evidence selected, statements true, statements complete; each worked by hand."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from srrag.core.step import Place
from srrag.lab.judges.alignment import AlignCitations
from srrag.lab.judges.checkable_statements import MarkDistinctive
from srrag.lab.judges.claims import SplitClaims
from srrag.lab.judges.completeness import JudgeCompleteness
from srrag.lab.judges.context import MeasureEvidence
from srrag.lab.judges.evidence_support import FindSupport
from srrag.lab.judges.factuality import JudgeFactuality
from srrag.lab.judges.must_have import ClassifyStatements
from srrag.lab.judges.selection import MeasureSelection
from srrag.lab.measure.judgements import CASES, Preparation
from srrag.llm.completion import LOST, Completion, Fault, read
from tests.judged import PASSAGE, case

KNOWN = {"reason": "", "fault": ""}
LOST_SUPPORT = {"evidence_ids": [], "reason": "", "fault": "timeout"}


def one(**values: Any) -> pa.Table:
    return pa.Table.from_pylist([case(**values)], schema=CASES)


def staged(**values: Any) -> pa.Table:
    """Evidence e1 … e4; e1 and e2 support the first of three vital nuggets, e3 the second."""
    nuggets = [{"text": text, "importance": "vital"} for text in ("one", "two", "three")]
    support = [{"evidence_ids": ids, **KNOWN} for ids in (["e1", "e2"], ["e3"], [])]
    evidence = [PASSAGE | {"evidence_id": f"e{n}", "text": "Said."} for n in (1, 2, 3, 4)]
    return one(**{"nuggets": nuggets, "support": support, "evidence": evidence, **values})


def citing(*cites: list[str]) -> dict[str, Any]:
    """Sentences that cite these, and the same as claims."""
    sentences = [{"text": f"S{n}", "evidence_ids": ids} for n, ids in enumerate(cites, 1)]
    claims = [{**sentence, "distinctive": True} for sentence in sentences]
    return {"sentences": sentences, "claims": claims}


def judged(step: Any, cases: pa.Table, *texts: str) -> dict[str, list[float]]:
    """Values by metric; "lost" where an item was not judged."""
    if isinstance(step, (MeasureEvidence, MeasureSelection)):
        table = step.open(Place())(cases)
    else:
        completions = [read(text, step.schema) for text in texts]
        table = step.parse(cases, step.prompts(cases), completions)
    found: dict[str, list[Any]] = {}
    for row in table.to_pylist():
        found.setdefault(row["metric"], []).append("lost" if row["reject"] else row["value"])
    return found


def prepared(step: Preparation, cases: pa.Table, answer: Any) -> dict[str, Any]:
    """The case after a preparation was answered so."""
    prompts = step.prompts(cases)
    text = answer if isinstance(answer, str) else json.dumps(answer)
    table = step.parse(cases, prompts, [read(text, prompt.schema) for prompt in prompts])
    row: dict[str, Any] = table.to_pylist()[0]
    return row


def facts(*factual: bool) -> str:
    verdicts = [{"n": n, "reason": "", "factual": each} for n, each in enumerate(factual, 1)]
    return json.dumps({"verdicts": verdicts})


def test_selection_by_hand() -> None:
    """Cited are e1 (relevant), e4 (not) and a source of its own; e2 and e3 were there as well."""
    cases = staged(**citing(["e1", "e4"], ["e1", "own-1"]))
    assert judged(MeasureSelection(), cases) == {
        "selection_precision": [1.0, 0.0],
        "selection_recall": [1.0, 0.0, 0.0],
        "self_generated_references": [0.0, 0.0, 1.0],
    }


def test_what_an_abstention_leaves_uncited_counts_in_the_recall() -> None:
    found = judged(MeasureSelection(), staged(sentences=[], abstained=True))
    assert found == {"selection_recall": [0.0, 0.0, 0.0]}


def test_evidence_is_not_judged_where_a_lost_verdict_might_name_it() -> None:
    support = [{"evidence_ids": ["e1"], **KNOWN}, LOST_SUPPORT, {"evidence_ids": [], **KNOWN}]
    cases = staged(support=support, **citing(["e1"], ["e4"]))
    found = judged(MeasureSelection(), cases)
    assert found["selection_precision"] == [1.0, "lost"]
    assert found["selection_recall"] == [1.0, "lost", "lost", "lost"]
    assert judged(MeasureEvidence(), cases) == {
        "evidence_coverage": [1.0, "lost", 0.0],
        "evidence_precision": [1.0, "lost", "lost", "lost"],
        "evidence_miss": [0.0],
        "context_precision": ["lost"],
    }


def test_nobody_was_asked_about_evidence_below_the_depth() -> None:
    cases = staged(**citing(["e1"], ["e4"]))
    found = judged(MeasureSelection(depth=3), cases)
    assert found["selection_precision"] == [1.0, "lost"]
    groups = judged(JudgeFactuality(depth=3), cases, facts(True, True))
    assert groups["factuality_cited_relevant"] == [1.0, "lost"]
    assert groups["factuality_cited_irrelevant"] == ["lost"]


def test_factuality_by_hand() -> None:
    """Four statements in four groups; the one that rests on its own source is false."""
    cases = staged(**citing(["e4", "e2"], ["e4"], ["own-1"], []))
    assert judged(JudgeFactuality(), cases, facts(True, True, False, True)) == {
        "factuality": [1.0, 1.0, 0.0, 1.0],
        "factuality_cited_relevant": [1.0],
        "factuality_cited_irrelevant": [1.0],
        "factuality_self_generated": [0.0],
        "factuality_no_reference": [1.0],
        "factuality_response": [0.0],
    }


def test_only_distinctive_statements_are_judged() -> None:
    cases = staged(**citing(["e1"], ["e4"]))
    claims = cases["claims"].to_pylist()[0]
    claims[0]["distinctive"] = False
    shown = staged(sentences=[], claims=claims)
    (prompt,) = JudgeFactuality().prompts(shown)
    assert "S2" in prompt.user and "S1" not in prompt.user
    found = judged(JudgeFactuality(), shown, facts(True))
    assert found["factuality"] == found["factuality_response"] == [1.0]
    claims[1]["distinctive"] = False
    assert JudgeFactuality().prompts(staged(claims=claims)) == []
    assert judged(JudgeFactuality(), staged(claims=claims)) == {}


def test_a_response_with_a_false_statement_is_false_whatever_was_lost() -> None:
    cases = staged(**citing(["e1"], ["e1"]))
    lost, wrong = judged(JudgeFactuality(), cases, facts(True)), facts(False)
    assert (lost["factuality"], lost["factuality_response"]) == ([1.0, "lost"], ["lost"])
    found = judged(JudgeFactuality(), cases, wrong)
    assert (found["factuality"], found["factuality_response"]) == ([0.0, "lost"], [0.0])
    (prompt,) = JudgeFactuality().prompts(cases)
    fault = JudgeFactuality().check(cases, prompt, read(wrong, JudgeFactuality.schema).value)
    assert fault is not None and "statement 2 of 2" in fault.detail


def test_statements_that_are_not_known_fail_every_metric_of_the_judge() -> None:
    found = judged(JudgeFactuality(), staged(claims_fault="truncated"))
    assert found == {metric.name: ["lost"] for metric in JudgeFactuality.metrics}


def test_without_an_alignment_the_statements_are_judged_and_their_groups_are_not() -> None:
    cases = staged(cites_fault="timeout", **citing(["e1"]))
    found = judged(JudgeFactuality(), cases, facts(True))
    assert found.pop("factuality") == found.pop("factuality_response") == [1.0]
    assert list(found.values()) == [["lost"]] * 4


def test_rules_find_true_what_reference_or_evidence_state() -> None:
    said = ("Training reduces pain.", "Walking is healthy.", "The moon is cheese.", "Rest helps.")
    claims = [{"text": text, "distinctive": True, "evidence_ids": []} for text in said]
    reference = "Training reduces pain. Rest never helps."
    cases = one(claims=claims, ideal_answer=reference, nuggets=[])
    rows = JudgeFactuality().open(Place())(cases).to_pylist()
    found = [row["value"] for row in rows if row["metric"] == "factuality"]
    assert found == [1.0, 1.0, 0.0, 0.0]


def completeness(*verdicts: str) -> list[str]:
    return [json.dumps({"reason": "", "verdict": verdict}) for verdict in verdicts]


def test_completeness_by_hand() -> None:
    """The first nugget's evidence is cited, the second's is not, the third has none."""
    cases = staged(**citing(["e2"]))
    found = judged(JudgeCompleteness(), cases, *completeness("full", "partial", "contradicted"))
    assert found == {
        "completeness": [1.0, 1.0, 0.0],
        "completeness_in_full": [1.0, 0.0, 0.0],
        "completeness_supported_referenced": [1.0],
        "completeness_supported_missed": [1.0],
        "completeness_unsupported": [0.0],
        "completeness_response": [0.0],
    }
    whole = judged(JudgeCompleteness(), cases, *completeness("full", "partial", "full"))
    assert whole["completeness_response"] == [1.0]


def test_a_response_is_not_judged_if_only_a_lost_verdict_could_make_it_incomplete() -> None:
    cases = staged(**citing(["e2"]))
    open_ = judged(JudgeCompleteness(), cases, *completeness("full", "full"), "Sorry.")
    assert open_["completeness_response"] == open_["completeness_unsupported"] == ["lost"]
    closed = judged(JudgeCompleteness(), cases, *completeness("none", "full"), "Sorry.")
    assert closed["completeness_response"] == [0.0]


def test_a_nugget_whose_support_is_not_known_is_lost_in_every_group() -> None:
    support = [LOST_SUPPORT, *staged()["support"].to_pylist()[0][1:]]
    found = judged(JudgeCompleteness(), staged(support=support), *completeness(*["full"] * 3))
    assert found["completeness"] == [1.0, 1.0, 1.0]
    assert found["completeness_supported_referenced"] == ["lost"]
    assert found["completeness_supported_missed"] == ["lost", 1.0]


def test_an_answer_that_failed_made_nothing_of_what_was_there() -> None:
    cases = staged(missing="empty", answer="", sentences=[])
    assert JudgeCompleteness().prompts(cases) == []
    found = judged(JudgeCompleteness(), cases)
    assert found["completeness"] == [0.0, 0.0, 0.0]
    assert found["completeness_supported_missed"] == [0.0, 0.0]
    assert found["completeness_unsupported"] == [0.0]


def test_gold_without_nuggets_gets_them_from_its_ideal_answer() -> None:
    cases = one(nuggets=[], ideal_answer="Training helps tendons. Walking is cheap.")
    split = SplitClaims(of="ideal_answer").open(Place())(cases)
    assert split["gold_claims"].to_pylist() == [["Training helps tendons.", "Walking is cheap."]]
    said = {"verdicts": [{"n": 1, "yes": True}, {"n": 2, "yes": False}]}
    nuggets = prepared(ClassifyStatements(), split, said)["nuggets"]
    assert [nugget["importance"] for nugget in nuggets] == ["vital", "okay"]
    assert ClassifyStatements().open(Place())(split)["nuggets"].to_pylist()[0] == nuggets


def test_gold_that_names_its_nuggets_keeps_them() -> None:
    cases = one()
    assert SplitClaims(of="ideal_answer").prompts(cases) == []
    assert ClassifyStatements().prompts(cases) == []
    with pytest.raises(ValueError, match="of is 'nuggets'"):
        SplitClaims(of="nuggets")  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", ["Sorry.", {"verdicts": [{"n": 2, "yes": True}]}])
def test_gold_that_could_not_be_made_rejects_the_case(answer: Any) -> None:
    cases = one(nuggets=[], gold_claims=["One.", "Two."])
    row = prepared(ClassifyStatements(), cases, answer)
    assert row["reject"]["stage"] == "must_have"
    assert row["nuggets"] == []
    unread = prepared(SplitClaims(of="ideal_answer"), one(nuggets=[]), "Sorry.")
    assert unread["reject"]["stage"] == "gold_claims"


def test_rules_find_remarks_and_repetitions_not_distinctive() -> None:
    said = ("Tendons help what?", "Nothing quoted here is above grade D.", "Training helps tendons")
    claims = [{"text": text, "distinctive": True, "evidence_ids": []} for text in said]
    found = MarkDistinctive().open(Place())(one(claims=claims))["claims"].to_pylist()[0]
    assert [claim["distinctive"] for claim in found] == [False, False, True]


def test_statements_without_a_verdict_are_not_known() -> None:
    cases = staged(**citing(["e1"], ["e4"]))
    half = {"verdicts": [{"n": 1, "yes": False}]}
    row = prepared(MarkDistinctive(), cases, half)
    assert (row["claims"], row["claims_fault"]) == ([], "incomplete")
    whole = {"verdicts": [*half["verdicts"], {"n": 2, "yes": True}]}
    marked = prepared(MarkDistinctive(), cases, whole)
    assert [claim["distinctive"] for claim in marked["claims"]] == [False, True]


def test_a_claim_has_the_citations_of_its_sentence() -> None:
    """References are numbered in the order in which the answer cites them: e4 is 1, e1 is 2."""
    claims = [{"text": text, "distinctive": True, "evidence_ids": []} for text in ("A", "B")]
    cases = staged(**citing(["e4"], ["e1", "e4"]) | {"claims": claims})
    (prompt,) = AlignCitations().prompts(cases)
    assert '{"sentence": "S2", "refs": [2, 1]}' in prompt.user
    row = prepared(AlignCitations(), cases, {"statements": [refs(1, 2), refs(2)]})
    assert [claim["evidence_ids"] for claim in row["claims"]] == [["e1"], []]


def refs(n: int, *numbers: int) -> dict[str, Any]:
    return {"n": n, "refs": list(numbers)}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"statements": [refs(1, 1), refs(2, 7)]}, "invalid_citation"),
        ({"statements": [refs(2, 1)]}, "incomplete"),
        ("Sorry.", "refusal"),
    ],
)
def test_an_alignment_that_does_not_fit_is_not_used(answer: Any, kind: str) -> None:
    cases, step = staged(**citing(["e4"], ["e1", "e4"])), AlignCitations()
    row = prepared(step, cases, answer)
    assert row["cites_fault"] == kind
    if isinstance(answer, dict):
        (prompt,) = step.prompts(cases)
        fault = step.check(cases, prompt, read(json.dumps(answer), prompt.schema).value)
        assert fault is not None and fault.kind == kind


def test_rules_align_what_shares_most_words() -> None:
    sentences = [
        {"text": "Eccentric training reduces pain.", "evidence_ids": ["e1"]},
        {"text": "Walking is healthy.", "evidence_ids": ["e2"]},
    ]
    texts = ("Walking is healthy.", "Training of the eccentric kind reduces pain")
    claims = [{"text": text, "distinctive": True, "evidence_ids": []} for text in texts]
    aligned = AlignCitations().open(Place())(one(sentences=sentences, claims=claims))
    found = [claim["evidence_ids"] for claim in aligned["claims"].to_pylist()[0]]
    assert found == [["e2"], ["e1"]]
    assert AlignCitations().prompts(one(sentences=[], claims=claims)) == []


def test_a_support_that_was_lost_says_so() -> None:
    assert "timeout" in LOST
    step, cases = FindSupport(), one()
    lost = step.parse(cases, step.prompts(cases), [Completion(fault=Fault("timeout", ""))])
    assert lost["support"].to_pylist() == [[LOST_SUPPORT]]


def test_without_a_depth_all_evidence_is_looked_at() -> None:
    """A row of k = 20 is judged on 20 pieces; a depth of 16 leaves its last four unjudged."""
    evidence = [PASSAGE | {"evidence_id": f"e{n}", "text": "Said."} for n in range(1, 21)]
    support = [{"evidence_ids": ["e20"], **KNOWN}]
    nuggets = [{"text": "one", "importance": "vital"}]
    cases = staged(evidence=evidence, support=support, nuggets=nuggets, **citing(["e19", "e20"]))
    assert judged(MeasureEvidence(), cases)["evidence_precision"] == [0.0] * 19 + [1.0]
    assert judged(MeasureSelection(), cases)["selection_precision"] == [0.0, 1.0]
    assert judged(MeasureSelection(depth=16), cases)["selection_precision"] == ["lost", 1.0]
    shown = [one(nuggets=nuggets, evidence=evidence[:n]) for n in (4, 20)]
    prompts = [FindSupport().prompts(each)[0].user for each in shown]
    assert [text.count("Said.") for text in prompts] == [4, 20]
    with pytest.raises(ValueError, match="depth is 65"):
        FindSupport(depth=65)
