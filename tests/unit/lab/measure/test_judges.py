"""Every judge on made-up answers: what it asks, what it makes of good, bad and no answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from srrag.core.step import LLMStep, Place
from srrag.lab.judges.accuracy import JudgeAccuracy, JudgeChoice
from srrag.lab.judges.citations import MeasureCitations, MeasureEvidence, average_precision
from srrag.lab.judges.gold import JudgeByGold, MakeNuggets
from srrag.lab.judges.nuggets import (
    MeasureClaims,
    MeasureCompleteness,
    MeasureNuggets,
    MeasurePicot,
    MeasureSimilarity,
)
from srrag.lab.judges.support import MAX_CLAIMS, MAX_FACTS, JudgeClaims, JudgeStatements
from srrag.lab.measure.judgements import JUDGEMENTS, Worth
from srrag.lab.measure.judging_steps import metrics_of
from srrag.llm.completion import Rules, tallied
from srrag.llm.retry_invalid import mended
from tests.judged import OTHER, PASSAGE, STATED, answered, case, claim, table, values, verdicts
from tests.played.judges import ANSWERS, JUDGED, order


def by_rules(judge: Any, cases: pa.Table) -> pa.Table:
    """The judgements of a step, after all preparations by rules."""
    out = judge.open(Place())(prepared(cases))
    assert out.schema.equals(JUDGEMENTS)
    return out


def measured(step: Any, **columns: Any) -> dict[str, list[Any]]:
    return values(step.open(Place())(table(case(**columns))))


def prepared(cases: pa.Table) -> pa.Table:
    """What a judge reads of these cases."""
    for step in PREPARATIONS:
        cases = step.open(Place())(cases)
    return cases


PREPARATIONS = MakeNuggets(), JudgeClaims(), JudgeStatements(), JudgeByGold()
JUDGES: list[Callable[[], Any]] = [
    MeasureNuggets, MeasurePicot, MeasureCitations, MeasureEvidence, JudgeChoice,
    MeasureSimilarity, JudgeAccuracy, MeasureClaims,
    MeasureCompleteness,
]  # fmt: skip


def test_an_answer_is_judged_in_four_calls_and_its_evidence_in_one() -> None:
    """Two nuggets, two parts, a citation and a claim: claims, gold, accuracy twice."""
    cases = prepared(table(case(chooses=True)))
    steps = (*PREPARATIONS, JudgeAccuracy(), JudgeChoice())
    assert sum(len(step.prompts(cases)) for step in steps) == 4 + 1
    other = table(case(answer="Rest helps.", sentences=[]))
    asked = [JudgeStatements().prompts(each)[0].user for each in (cases, other)]
    assert asked[0] == asked[1], "whatever was answered from it"


def supported(*claims: dict[str, Any]) -> dict[str, Any]:
    blank = {"reason": "", "states": [], "partly": [], "denies": [], "verdict": "none"}
    return {"claims": [blank | each for each in claims]}


def borne_out(**statements: list[int]) -> dict[str, Any]:
    listed = [{"n": int(n[1:]), "reason": "", "passages": p} for n, p in statements.items()]
    return {"statements": listed}


def test_claims_are_asked_of_all_sentences_at_once() -> None:
    step, cases = JudgeClaims(), table(case(sentences=two()))
    (prompt,) = step.prompts(cases)
    for text in (STATED, OTHER, "Walking is healthy", "What helps"):
        assert text in prompt.user
    assert "evidence_ids" not in prompt.user and "e1" not in prompt.user, "what is cited is hidden"
    said = supported(
        {"sentence": 1, "claim": "A.", "states": [1, 9], "verdict": "full"},
        {"sentence": 7, "claim": "B.", "denies": [2], "verdict": "contradicted"},
    )
    (row,) = answered(step, cases, said).to_pylist()
    assert [(c["text"], c["sentence"], c["states"], c["denies"]) for c in row["claims"]] == [
        ("A.", 0, ["e1"], []), ("B.", -1, [], ["e2"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cites", "seen"), [(["e2"], ["e2"]), (["e2", "e1"], ["e1", "e2"]), ([], ["e1", "e2"]),
                        (["own-1"], ["e1", "e2"])],
)  # fmt: skip
def test_claims_see_what_is_cited_and_all_evidence_where_nothing_is(
    cites: list[str], seen: list[str]
) -> None:
    texts = {"e1": STATED, "e2": "Walking is healthy"}
    cases = table(case(sentences=[{"text": "It helps.", "evidence_ids": cites}]))
    (prompt,) = JudgeClaims().prompts(cases)
    assert [name for name, text in texts.items() if text in prompt.user] == seen
    said = supported({"sentence": 1, "claim": "A.", "states": [1, 2], "verdict": "full"})
    (claims,) = answered(JudgeClaims(), cases, said)["claims"].to_pylist()
    assert claims[0]["states"] == seen, "a number counts what was shown"
    (statements,) = JudgeStatements().prompts(cases)
    assert all(text in statements.user for text in texts.values()), "nuggets may be in any"


def test_without_evidence_nothing_is_asked_and_nothing_stated() -> None:
    cases = table(case(evidence=[], sentences=two()))
    assert not JudgeClaims().prompts(cases) and not JudgeStatements().prompts(cases)
    alone = JudgeClaims().open(Place())(cases)
    (row,) = alone.to_pylist()
    assert [(c["text"], c["sentence"], c["verdict"]) for c in row["claims"]] == [
        (STATED, 0, "none"), (OTHER, 1, "none"),
    ]  # fmt: skip
    found = MeasureCitations().open(Place())(alone).to_pylist()
    told = [(each["value"], each["asked"]) for each in found if each["metric"] == "faithfulness"]
    assert told == [(0.0, False)] * 2


def test_what_bears_nuggets_out_is_asked_once_with_all_evidence() -> None:
    step, cases = JudgeStatements(), table(case())
    (prompt,) = step.prompts(cases)
    assert STATED in prompt.user and "Walking is healthy" in prompt.user
    (row,) = answered(step, cases, borne_out(n1=[2, 64])).to_pylist()
    assert [each["evidence_ids"] for each in row["support"]] == [["e2"]]


def two() -> list[dict[str, Any]]:
    return [{"text": STATED, "evidence_ids": ["e1"]}, {"text": OTHER, "evidence_ids": ["e2"]}]


def test_a_bad_claim_costs_itself() -> None:
    step, cases = JudgeClaims(), table(case())
    bad = {"sentence": 1, "claim": "B.", "verdict": "perhaps"}
    said = supported({"sentence": 1, "claim": "A.", "verdict": "full"}, bad)
    (row,) = answered(step, cases, said).to_pylist()
    assert [each["text"] for each in row["claims"]] == ["A."]


def test_a_statement_without_a_verdict_is_lost() -> None:
    step, cases = JudgeStatements(), table(case(nuggets=[vital("A."), vital("B.")]))
    (row,) = answered(step, cases, borne_out(n1=[1])).to_pylist()
    assert [each["fault"] for each in row["support"]] == ["", "incomplete"]
    (prompt,) = step.prompts(cases)
    fault = step.check(cases, prompt, prompt.schema.model_validate(borne_out(n1=[1])))
    assert fault is not None and "statement 2 of 2" in fault.detail


def vital(text: str) -> dict[str, str]:
    return {"text": text, "importance": "vital"}


@pytest.mark.parametrize("count", [30, 60])
def test_many_vital_nuggets_are_judged_as_far_as_facts_are(count: int) -> None:
    step = JudgeStatements()
    cases = table(case(nuggets=[vital(f"Fact {n}.") for n in range(count)]))
    (prompt,) = step.prompts(cases)
    told = {f"n{n}": [1] for n in range(1, min(count, MAX_FACTS) + 1)}
    said = borne_out(**told)
    assert step.check(cases, prompt, prompt.schema.model_validate(said)) is None
    (row,) = answered(step, cases, said).to_pylist()
    lost = [each["fault"] for each in row["support"] if each["fault"]]
    assert lost == ["incomplete"] * (count - len(told))


def test_support_that_was_lost_says_so_everywhere() -> None:
    lost = answered(JudgeClaims(), table(case()), "Sorry, I cannot help.")
    lost = answered(JudgeStatements(), lost, "Sorry, I cannot help.")
    (row,) = lost.to_pylist()
    assert row["claims_fault"] == "refusal" and row["support"][0]["fault"] == "refusal"
    found = values(MeasureCitations().open(Place())(lost))
    assert found["faithfulness"] == found["citation_support"] == ["lost"]
    assert found["citation_coverage"] == ["lost"] and found["citation_valid"] == [1.0]
    assert set(values(MeasureClaims().open(Place())(lost))) == {
        metric.name for metric in MeasureClaims.metrics
    }


def test_an_abstention_makes_no_claim_and_no_citation() -> None:
    silent = table(case(answer="The evidence does not answer this.", sentences=[], abstained=True))
    assert not JudgeClaims().prompts(silent) and len(JudgeStatements().prompts(silent)) == 1
    assert values(by_rules(MeasureCitations(), silent)) == {}
    assert values(by_rules(MeasureNuggets(), silent))["nugget_coverage"] == [0.0, 0.0]


def test_claims_by_rules_are_the_sentences() -> None:
    cases = prepared(table(case(sentences=two())))
    assert [c["text"] for c in cases["claims"].to_pylist()[0]] == [STATED, OTHER]
    assert values(MeasureCitations().open(Place())(cases))["faithfulness"] == [1.0, 0.0]
    whole = prepared(table(case(sentences=[])))
    assert [c["text"] for c in whole["claims"].to_pylist()[0]] == [f"{STATED} [1]"]


def test_by_rules_an_empty_sentence_makes_no_claim_and_keeps_its_place() -> None:
    blank = [{"text": " ", "evidence_ids": ["e1"]}, *two()]
    (claims,) = prepared(table(case(sentences=blank)))["claims"].to_pylist()
    assert [(c["sentence"], c["text"]) for c in claims] == [(1, STATED), (2, OTHER)]


def test_a_citation_is_as_good_as_what_it_says_of_all_claims_of_its_sentence() -> None:
    """Of two claims e1 states both, e2 one, e3 a part of one, e4 none; e5 denies one."""
    names = [f"e{n}" for n in range(1, 6)]
    claims = [
        claim("A", states=["e1", "e2"], denies=["e5"]), claim("B", states=["e1"], partly=["e3"]),
    ]  # fmt: skip
    found = measured(
        MeasureCitations(),
        claims=claims,
        sentences=[{"text": "A and B.", "evidence_ids": [*names, "own-1"]}],
        evidence=[PASSAGE | {"evidence_id": name} for name in names],
    )
    assert found["citation_support"] == [1.0, 0.5, 0.5, 0.0, 0.0, 0.0]
    assert found["citation_contradiction"] == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert found["citation_coverage"] == [pytest.approx(2 / 6)]
    assert found["citations_outside"] == [0.0] * 5 + [1.0]
    assert found["citation_valid"] == [0.0]


def test_a_sentence_without_a_claim_needs_no_support_and_one_that_cites_nothing_has_none() -> None:
    sentences = [{"text": "Two trials were found.", "evidence_ids": ["e1"]},
                 {"text": "Rest helps.", "evidence_ids": []}]  # fmt: skip
    found = measured(MeasureCitations(), sentences=sentences, claims=[claim("Rest helps.", 1)])
    assert found["citation_coverage"] == [0.0] and "citation_support" not in found
    assert found["citation_valid"] == [1.0, 0.0]


def test_a_remark_that_claims_and_cites_nothing_costs_no_coverage() -> None:
    """As with a needless citation behind it."""
    sentences = [
        {"text": STATED, "evidence_ids": ["e1"]}, {"text": "It may differ.", "evidence_ids": []},
    ]  # fmt: skip
    found = measured(MeasureCitations(), sentences=sentences, claims=[claim(STATED, states=["e1"])])
    assert found["citation_coverage"] == [1.0]
    many = [claim(str(n)) for n in range(MAX_CLAIMS)]
    found = measured(MeasureCitations(), sentences=sentences, claims=many)
    assert found["citation_coverage"] == [0.0, 0.0], "behind the last claim that was read"


def test_claims_beyond_the_limit_are_said_to_be_unjudged() -> None:
    claims = [claim(str(n)) for n in range(MAX_CLAIMS)]
    found = measured(MeasureCitations(), sentences=two(), claims=claims)
    assert found["faithfulness"] == [1.0] * MAX_CLAIMS + ["lost"]


def compared(facts: list[str], parts: dict[str, Any], claims: list[tuple[str, list[int]]]) -> Any:
    return {
        "facts": [{"n": n, "reason": "", "verdict": v} for n, v in enumerate(facts, 1)],
        "parts": [
            {"part": p, "found": f, "reason": "", "verdict": "full"} for p, f in parts.items()
        ],
        "claims": [
            {"n": n, "reason": "", "facts": f, "verdict": v} for n, (v, f) in enumerate(claims, 1)
        ],
    }  # fmt: skip


def test_gold_is_asked_for_in_one_call_that_sees_question_answer_gold_and_claims() -> None:
    cases = table(case(claims=[claim("Training helps tendons.")]))
    (prompt,) = JudgeByGold().prompts(cases)
    for text in (STATED, OTHER, "What helps", "shock waves", "Training helps tendons."):
        assert text in prompt.user
    assert "Walking is healthy" not in prompt.user, "evidence is not shown, but what it says"
    said = compared(["partial", "contradicted"], {"I": "", "C": "waves"}, [("full", [1, 9])])
    (row,) = answered(JudgeByGold(), cases, said).to_pylist()
    assert [each["verdict"] for each in row["nugget_verdicts"]] == ["partial", "contradicted"]
    found = [(each["verdict"], each["fault"]) for each in row["picot_verdicts"]]
    assert found == [("none", ""), ("full", ""), ("none", "incomplete")], "nothing matches nothing"
    assert [each["facts"] for each in row["claim_verdicts"]] == [[0]]


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        (compared(["full"], dict.fromkeys("ICO", "x"), []), "fact 2 of 2"),
        (compared(["full"] * 2, dict.fromkeys("IO", "x"), []), "on part C."),
        (compared(["full"] * 2, dict.fromkeys("ICO", "x"), []), "claim 1 of 1"),
    ],
)
def test_what_lacks_a_verdict_is_asked_for_again(said: Any, hint: str) -> None:
    step, cases = JudgeByGold(), table(case(claims=[claim("A.")]))
    (prompt,) = step.prompts(cases)
    fault = step.check(cases, prompt, prompt.schema.model_validate(said))
    assert fault is not None and hint in fault.detail


def test_all_that_lacks_is_asked_for_at_once_and_comes_to_what_stood() -> None:
    step, cases = JudgeByGold(), table(case(claims=[claim("A.")]))
    (prompt,) = step.prompts(cases)
    first = compared(["full"], {"I": "x", "O": "x"}, [])
    value = prompt.schema.model_validate(first)
    fault = step.check(cases, prompt, value)
    assert fault is not None
    assert fault.items == (("facts", 1), ("parts", 2), ("claims", 0))
    second = compared([], {"C": "y"}, [("full", [1])])
    second["facts"] = [{"n": 2, "reason": "", "verdict": "none"}]
    whole = mended(value, fault.items, prompt.schema.model_validate(second))
    assert step.check(cases, prompt, whole) is None
    (row,) = answered(step, cases, whole.model_dump()).to_pylist()
    assert [each["verdict"] for each in row["nugget_verdicts"]] == ["full", "none"]


def test_sentences_of_gold_beyond_the_limit_of_nuggets_are_counted() -> None:
    ideal = " ".join(f"Fact {n} is stated here." for n in range(20))
    cases = table(case(nuggets=[], ideal_answer=ideal))
    with tallied() as usage:
        (row,) = MakeNuggets().open(Place())(cases).to_pylist()
    assert len(row["nuggets"]) == 16 and usage.faults == {"bad_item": 4}


def test_nonsense_is_a_failure_with_the_worst_value() -> None:
    cases = answered(JudgeByGold(), table(case()), "Sorry, I cannot help.")
    rows = MeasureNuggets().open(Place())(cases).to_pylist()
    assert {row["reject"]["reason"] for row in rows} == {"refusal"}
    worst = {row["metric"]: row["value"] for row in rows}
    assert (worst["nugget_coverage"], worst["nugget_contradiction"]) == (0.0, 1.0)


def test_nuggets_by_hand() -> None:
    """A vital one in part; of others one in full, one contradicted, one lost."""
    nuggets = [{"text": t, "importance": "okay" if t > "a" else "vital"} for t in "abcd"]
    said = verdicts("partial", "full", "contradicted", "lost")
    found = measured(MeasureNuggets(), nuggets=nuggets, nugget_verdicts=said)
    assert found["nugget_coverage"] == [0.5, 1.0, 0.0, "lost"]
    assert found["nugget_coverage_vital"] == [0.5]
    assert found["keypoint_coverage"] == [0.0, 1.0, 0.0, "lost"]
    assert found["nugget_contradiction"] == [0.0, 0.0, 1.0, "lost"]
    assert found["nuggets_per_100_words"] == ["lost"]
    whole = measured(MeasureNuggets(), nuggets=nuggets[:2], nugget_verdicts=said[:2])
    assert whole["nuggets_per_100_words"] == [pytest.approx(100 / 8)]


def test_gold_by_rules() -> None:
    cases = table(case())
    found = values(by_rules(MeasureNuggets(), cases))
    assert found["nugget_coverage"] == found["keypoint_coverage"] == [1.0, 0.0]
    assert found["nugget_coverage_vital"] == [1.0]
    found = values(by_rules(MeasurePicot(), cases))
    assert found["picot_match"] == [1.0, 0.0, 1.0], "the parts that the gold has"
    assert found["picot_match_missing_counted"] == [1.0, 1.0, 0.0, 1.0, 1.0]


def test_claims_by_rules() -> None:
    """A nugget, something that only the evidence says, something else, and the question again."""
    said = [STATED, "Walking is healthy.", "Cats are furry animals.", "What helps tendons?"]
    sentences = [{"text": text, "evidence_ids": ["e1", "e2"]} for text in said]
    found = values(by_rules(MeasureClaims(), table(case(sentences=sentences))))
    assert found["answer_precision"] == [1.0, 0.0, 0.0, 0.0]
    assert found["factuality"] == [1.0, 1.0, 0.0, 0.0]
    denied = table(case(sentences=[{"text": "Rest helps.", "evidence_ids": []}], nuggets=[],
                        ideal_answer="Rest never helps."))  # fmt: skip
    assert values(by_rules(MeasureClaims(), denied))["factuality"] == [0.0]


def test_precision_needs_nuggets_and_factuality_any_reference() -> None:
    found = measured(MeasureClaims(), nuggets=[], claims=[claim("A")],
                     claim_verdicts=verdicts("full"))  # fmt: skip
    assert "answer_precision" not in found and found["factuality"] == [1.0]
    silent = measured(MeasureClaims(), claims=[], claim_verdicts=[])
    assert silent == {"answer_precision": [0.0]}, "an answer that claims nothing is no hit"


def staged(*cites: list[str], **more: Any) -> dict[str, Any]:
    """Evidence e1 … e4; e1 and e2 support the first of three vital nuggets, e3 the second."""
    nuggets = [vital(text) for text in ("one", "two", "three")]
    support = [{"evidence_ids": ids, **KNOWN} for ids in (["e1", "e2"], ["e3"], [])]
    evidence = [PASSAGE | {"evidence_id": f"e{n}", "text": "Said."} for n in (1, 2, 3, 4)]
    sentences = [{"text": f"S{n}", "evidence_ids": ids} for n, ids in enumerate(cites)]
    claims = [claim(f"S{n}", n) for n in range(len(cites))]
    made = {"nuggets": nuggets, "support": support, "evidence": evidence}
    return {**made, "sentences": sentences, "claims": claims, **more}


KNOWN = {"reason": "", "fault": ""}
LOST_SUPPORT = {"evidence_ids": [], "reason": "", "fault": "timeout"}


def test_factuality_by_hand() -> None:
    """Four claims in four groups; the one that rests on its own source is false."""
    said = verdicts("full", "full", "contradicted", "full")
    columns = staged(["e4", "e2"], ["e4"], ["own-1"], [], claim_verdicts=said)
    found = measured(MeasureClaims(), **columns)
    assert found.pop("answer_precision") == [0.0] * 4
    assert found == {
        "factuality": [1.0, 1.0, 0.0, 1.0],
        "factuality_cited_relevant": [1.0],
        "factuality_cited_irrelevant": [1.0],
        "factuality_self_generated": [0.0],
        "factuality_no_reference": [1.0],
        "factuality_response": [0.0],
    }


def test_a_response_with_a_false_claim_is_false_whatever_was_lost() -> None:
    open_ = measured(
        MeasureClaims(), **staged(["e1"], ["e1"], claim_verdicts=verdicts("full", "lost"))
    )
    assert (open_["factuality"], open_["factuality_response"]) == ([1.0, "lost"], ["lost"])
    wrong = verdicts("none", "lost")
    closed = measured(MeasureClaims(), **staged(["e1"], ["e1"], claim_verdicts=wrong))
    assert closed["factuality_response"] == [0.0]


def test_completeness_by_hand() -> None:
    """The first nugget's evidence is cited, the second's is not, the third has none."""
    said = verdicts("full", "partial", "contradicted")
    found = measured(MeasureCompleteness(), **staged(["e2"], nugget_verdicts=said))
    assert found == {
        "completeness": [1.0, 1.0, 0.0],
        "completeness_supported_referenced": [1.0],
        "completeness_supported_missed": [1.0],
        "completeness_unsupported": [0.0],
        "completeness_response": [0.0],
    }
    said = verdicts("full", "partial", "lost")
    open_ = measured(MeasureCompleteness(), **staged(["e2"], nugget_verdicts=said))
    assert open_["completeness_response"] == open_["completeness_unsupported"] == ["lost"]
    said = verdicts("none", "full", "lost")
    closed = measured(MeasureCompleteness(), **staged(["e2"], nugget_verdicts=said))
    assert closed["completeness_response"] == [0.0]


def test_a_nugget_whose_support_is_not_known_is_lost_in_every_group() -> None:
    support = [LOST_SUPPORT, *staged()["support"][1:]]
    columns = staged(["e2"], support=support, nugget_verdicts=verdicts(*["full"] * 3))
    found = measured(MeasureCompleteness(), **columns)
    assert found["completeness"] == [1.0, 1.0, 1.0]
    assert found["completeness_supported_referenced"] == ["lost"]
    assert found["completeness_supported_missed"] == ["lost", 1.0]


def chosen(**columns: Any) -> dict[str, list[Any]]:
    found = measured(MeasureEvidence(), **columns)
    return {name: each for name, each in found.items() if name.startswith("selection")}


def test_selection_by_hand() -> None:
    """Cited are e1 (relevant), e4 (not) and a source of its own; e2 and e3 were there as well."""
    found = chosen(**staged(["e1", "e4"], ["e1", "own-1"]))
    assert found == {"selection_precision": [1.0, 0.0], "selection_recall": [1.0, 0.0, 0.0]}
    assert chosen(**staged(abstained=True)) == {"selection_recall": [0.0, 0.0, 0.0]}


def test_evidence_is_not_judged_where_a_lost_verdict_might_name_it() -> None:
    support = [{"evidence_ids": ["e1"], **KNOWN}, LOST_SUPPORT, {"evidence_ids": [], **KNOWN}]
    assert measured(MeasureEvidence(), **staged(["e1"], ["e4"], support=support)) == {
        "evidence_coverage": [1.0, "lost", 0.0],
        "evidence_precision": [1.0, "lost", "lost", "lost"],
        "evidence_miss": [0.0],
        "context_precision": ["lost"],
        "selection_precision": [1.0, "lost"],
        "selection_recall": [1.0, "lost", "lost", "lost"],
    }


def test_evidence_by_rules_down_to_a_depth() -> None:
    nuggets = [case()["nuggets"][0], *({"text": text, "importance": "vital"}
               for text in ("Walking is healthy", OTHER))]  # fmt: skip
    cases = table(case(nuggets=nuggets))
    found = values(by_rules(MeasureEvidence(), cases))
    assert found["evidence_coverage"] == [1.0, 1.0, 0.0]
    assert found["evidence_precision"] == [1.0, 1.0]
    assert (found["evidence_miss"], found["context_precision"]) == ([0.0], [1.0])
    first = values(by_rules(MeasureEvidence(depth=1), cases))
    assert first["evidence_coverage"] == [1.0, 0.0, 0.0]
    assert first["evidence_precision"] == [1.0]
    with pytest.raises(ValueError, match="depth is 65"):
        MeasureEvidence(depth=65)


def test_gold_without_nuggets_gets_them_from_its_ideal_answer() -> None:
    cases = table(case(nuggets=[], ideal_answer="Training helps tendons. Walking is cheap."))
    said = {"nuggets": [{"text": "Training helps tendons.", "importance": "okay"},
                        {"text": "90 % of them.", "importance": "vital"}]}  # fmt: skip
    (row,) = answered(MakeNuggets(), cases, said).to_pylist()
    assert row["nuggets"] == [{"text": "Training helps tendons.", "importance": "vital"}]
    assert [each["text"] for each in prepared(cases)["nuggets"].to_pylist()[0]] == [
        "Training helps tendons.", "Walking is cheap.",
    ]  # fmt: skip
    assert MakeNuggets().prompts(table(case())) == [], "gold that names its nuggets keeps them"
    (lost,) = answered(MakeNuggets(), cases, "Sorry.").to_pylist()
    assert (lost["nuggets"], lost["reject"]["stage"]) == ([], "nuggets")


def test_every_metric_values_the_same_words() -> None:
    """One scale: a contradiction is worth nothing, except where contradictions are counted."""
    for make in JUDGES:
        for metric in metrics_of(make()):
            worth: Worth = metric.worth
            assert worth.full >= worth.partial >= worth.none == 0 or metric.better == "lower"
            assert worth.contradicted == (metric.worst if metric.better == "lower" and
                                          worth.full == 0 else 0)  # fmt: skip


def test_average_precision_by_hand() -> None:
    """Useful are ranks 1 and 3: (1/1 + 2/3) / 2."""
    assert average_precision([1, 3]) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision([]) == 0.0


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("No, it does not.", 1.0), ("Yes; there is no doubt.", 0.0), ("Nobody knows.", 0.0),
        ("Pain did not differ. [1]", 1.0), ("Pain fell. [1]\n\nIt is not known why.", 0.0),
    ],
)  # fmt: skip
def test_choice_by_rules(answer: str, right: float) -> None:
    found = values(by_rules(JudgeChoice(), table(case(answer=answer))))
    assert found == {"choice_accuracy": [right]}


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("Swimming, not running.", 0.0), ("It is slow progressive loading that helps.", 1.0),
        ("Bananas.", 0.0), ("Slow swimming.", 0.0),
    ],
)  # fmt: skip
def test_the_nearest_option_by_rules(answer: str, right: float) -> None:
    given = case(options=["Swimming", "Slow loading"], gold_option="Slow loading", answer=answer)
    assert values(by_rules(JudgeChoice(), table(given))) == {"choice_accuracy": [right]}


@pytest.mark.parametrize(("choice", "right"), [(1, 1.0), (0, 0.0), (-1, 0.0)])
def test_a_choice_is_read_and_nobody_is_asked(choice: int, right: float) -> None:
    given = table(case(answer="Yes; there is no doubt.", chooses=True, choice=choice))
    assert JudgeChoice().prompts(given) == []
    out = by_rules(JudgeChoice(), given)
    assert values(out) == {"choice_accuracy": [right]}
    assert out["asked"].to_pylist() == [False]


@pytest.mark.parametrize(("said", "right"), [(2, 1.0), (3, 1.0), (1, 0.0), (0, 0.0), (9, 0.0)])
def test_of_two_equal_options_either_is_right_whoever_chooses(said: int, right: float) -> None:
    given = case(options=["10 mg", "20 mg", "20 mg"], gold_option="20 mg")
    judged = answered(JudgeChoice(), table(given), {"reason": "", "choice": said})
    assert values(judged) == {"choice_accuracy": [right]}
    own = by_rules(JudgeChoice(), table(given | {"chooses": True, "choice": said - 1}))
    assert values(own) == {"choice_accuracy": [right]}


def test_an_abstention_chooses_nothing() -> None:
    given = table(case(answer="The evidence does not say.", abstained=True))
    assert values(by_rules(JudgeChoice(), given)) == {"choice_accuracy": [0.0]}


def test_similarity_of_the_same_text_is_one() -> None:
    same = case(answer=STATED)
    found = values(by_rules(MeasureSimilarity(), table(same, case(answer="Bananas"), case(
        ideal_answer=""))))  # fmt: skip
    assert found["semantic_similarity"][0] == pytest.approx(1.0, abs=1e-5)
    assert found["semantic_similarity"][1] < 0.5
    assert len(found["semantic_similarity"]) == 2


# Shares of what an answer cites, or of what rests on that: there is nothing to be a share of.
WITHOUT_AN_ANSWER = {
    "selection_precision", "selection_recall",
    "completeness_supported_referenced", "completeness_supported_missed",
    "factuality_cited_relevant", "factuality_cited_irrelevant", "factuality_self_generated",
    "factuality_no_reference",
}  # fmt: skip


@pytest.mark.parametrize("make", JUDGES)
def test_an_answer_that_failed_is_not_asked_about_and_counts_as_worst(make: Any) -> None:
    lost = case(answer="", sentences=[], missing="failed: timeout", evidence=[])
    judge, cases = make(), table(lost)
    if isinstance(judge, LLMStep):
        assert judge.prompts(cases) == []
    rows = by_rules(judge, cases).to_pylist()
    worst = {metric.name: metric.worst for metric in judge.metrics}
    for row in rows:
        assert row["value"] == worst[row["metric"]]
        assert not row["asked"]
    higher = {m.name for m in judge.metrics if m.better == "higher"}
    assert higher - WITHOUT_AN_ANSWER <= {row["metric"] for row in rows}


@pytest.mark.parametrize("make", JUDGES)
def test_without_gold_there_is_nothing_to_judge_but_the_evidence(make: Any) -> None:
    bare = case(nuggets=[], picot=dict.fromkeys("PICOT", ""), options=[], gold_option="",
                ideal_answer="")  # fmt: skip
    assert bool(by_rules(make(), table(bare)).num_rows) is (make is MeasureCitations)


@pytest.mark.parametrize("make", JUDGES)
def test_every_metric_of_a_judge_is_made_by_it(make: Any) -> None:
    sentences = [
        {"text": STATED, "evidence_ids": ["e1"]}, {"text": OTHER, "evidence_ids": ["e2"]},
        {"text": "Rest cures tendons.", "evidence_ids": ["own-1"]},
        {"text": "So do bananas.", "evidence_ids": []},
    ]  # fmt: skip
    nuggets = [
        *case()["nuggets"], {"text": "Walking is healthy", "importance": "vital"},
        {"text": "Pain is a friend of mine", "importance": "vital"},
    ]  # fmt: skip
    mixed = [case(sentences=sentences), case(sentences=sentences[:1], nuggets=nuggets)]
    made = set(by_rules(make(), table(*mixed))["metric"].to_pylist())
    assert made == {metric.name for metric in make().metrics}


def test_accuracy_by_hand() -> None:
    """Trial 1: full and partial, (1 + 0.5) / 2; trial 2: none and none; trial 3: a judge failed."""
    judge, cases = JudgeAccuracy(trials=3), table(case())
    prompts = judge.prompts(cases)
    assert [(p.slot, p.draw, p.temperature) for p in prompts] == [
        (slot, draw, 0.1) for slot in "01" for draw in range(3)
    ]
    said = {name: f'{{"reason": "", "verdict": "{name}"}}' for name in ("none", "partial", "full")}
    first, second = ("full", "none", "full"), ("partial", "none", "")
    given = [said.get(name, "") for name in (*first, *second)]
    rows = answered(judge, cases, *given).to_pylist()
    assert [row["value"] for row in rows] == [0.75, 0.0, 0.0]
    assert rows[2]["reject"]["reason"] == "empty"
    with pytest.raises(ValueError, match="trials is 0"):
        JudgeAccuracy(trials=0)


def test_accuracy_by_rules_goes_both_ways() -> None:
    """The reference is stated; of the answer's two sentences one is not in the reference."""
    said = case(answer=f"{STATED} Walking is healthy.")
    (row,) = by_rules(JudgeAccuracy(trials=1), table(said)).to_pylist()
    assert row["value"] == 0.75


def test_answers_of_known_order_are_judged_by_every_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By rules, which do not keep the order: a copy of the gold is told from nothing."""
    order(Rules(), Place())
    heads, *rows = capsys.readouterr().out.splitlines()
    assert tuple(heads.split()) == ANSWERS
    found = {row.split()[0]: row.split()[1:] for row in rows[: len(JUDGED)]}
    assert tuple(found) == JUDGED
    copied, empty = ANSWERS.index("copied"), ANSWERS.index("empty")
    assert all(float(row[copied]) > float(row[empty]) == 0 for row in found.values())
