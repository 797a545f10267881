"""Every judge on made-up answers: what it asks, what it makes of good, bad and no answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from srrag.core.step import Place
from srrag.lab.judges.accuracy import JudgeAccuracy, trial_means
from srrag.lab.judges.alignment import AlignCitations
from srrag.lab.judges.checkable_statements import MarkDistinctive
from srrag.lab.judges.choice import JudgeChoice
from srrag.lab.judges.citations import JudgeCitations
from srrag.lab.judges.claims import SplitClaims
from srrag.lab.judges.completeness import JudgeCompleteness
from srrag.lab.judges.context import MeasureEvidence, average_precision
from srrag.lab.judges.evidence_support import FindSupport
from srrag.lab.judges.factuality import JudgeFactuality
from srrag.lab.judges.faithfulness import JudgeFaithfulness
from srrag.lab.judges.hallucination import MeasureHallucination, claim
from srrag.lab.judges.must_have import ClassifyStatements
from srrag.lab.judges.nuggets import JudgeNuggets
from srrag.lab.judges.picot_match import JudgePicot
from srrag.lab.judges.precision import JudgePrecision
from srrag.lab.judges.relevancy import GuessQuestions, MeasureRelevancy
from srrag.lab.judges.selection import MeasureSelection
from srrag.lab.judges.similarity import MeasureSimilarity
from srrag.lab.measure.judgements import CASES, JUDGEMENTS, Judge
from srrag.lab.measure.scores import figure, score
from srrag.llm.completion import read
from tests.judged import OTHER, STATED, case


def table(*cases: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(cases), schema=CASES)


def by_rules(judge: Any, cases: pa.Table) -> list[dict[str, Any]]:
    out = judge.open(Place())(cases)
    assert out.schema.equals(JUDGEMENTS)
    rows: list[dict[str, Any]] = out.to_pylist()
    return rows


def with_answers(judge: Judge, cases: pa.Table, *texts: str) -> list[dict[str, Any]]:
    prompts = judge.prompts(cases)
    completions = [read(text, judge.schema) for text in texts]
    rows: list[dict[str, Any]] = judge.parse(cases, prompts, completions).to_pylist()
    return rows


def values(rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row["metric"], []).append(row["value"])
    return found


def claimed(cases: pa.Table) -> pa.Table:
    return SplitClaims().open(Place())(cases)


def supported(cases: pa.Table, depth: int = 16) -> pa.Table:
    return FindSupport(depth=depth).open(Place())(cases)


def texts(cases: pa.Table) -> list[list[str]]:
    return [[claim["text"] for claim in each] for each in cases["claims"].to_pylist()]


def test_a_nugget_call_sees_the_question_the_answer_and_that_nugget() -> None:
    one, two = JudgeNuggets().prompts(table(case()))
    assert OTHER in two.user and OTHER not in one.user
    assert "What helps tendons?" in one.user and STATED in one.user
    assert "Walking is healthy" not in one.user


def test_nuggets_by_rules() -> None:
    found = values(by_rules(JudgeNuggets(), table(case())))
    assert found["nugget_coverage"] == found["keypoint_coverage"] == [1.0, 0.0]
    assert found["nugget_coverage_vital"] == [1.0]
    assert found["nugget_contradiction"] == [0.0, 0.0]


def test_a_contradicted_nugget_is_not_covered() -> None:
    said = '{"reason": "the reverse", "verdict": "contradicted"}'
    lost = '{"reason": "no word", "verdict": "missing"}'
    found = values(with_answers(JudgeNuggets(), table(case()), said, lost))
    assert found["nugget_coverage"] == [0.0, 0.0]
    assert found["nugget_contradiction"] == [1.0, 0.0]


def test_nonsense_is_a_failure_with_the_worst_value() -> None:
    rows = with_answers(JudgeNuggets(), table(case()), "Sorry, I cannot help.", "{}")
    assert values(rows)["nugget_coverage"] == [0.0, 0.0]
    assert values(rows)["nugget_contradiction"] == [1.0, 1.0]
    assert {row["reject"]["reason"] for row in rows} == {"refusal", "wrong_type"}


def test_picot_counts_missing_fields_both_ways() -> None:
    found = values(by_rules(JudgePicot(), table(case())))
    assert found["picot_match"] == [1.0, 0.0, 1.0]
    assert found["picot_match_missing_counted"] == [1.0, 1.0, 0.0, 1.0, 1.0]


def test_a_match_without_a_find_is_none() -> None:
    """A judge that says "match" of nothing, and of a field that the gold lacks."""
    field = '{"found": " ", "reason": "", "match": true}'
    said = f'{{"P": {field}, "I": {field}, "C": {field}, "O": {field}, "T": {field}}}'
    found = values(with_answers(JudgePicot(), table(case()), said))
    assert found["picot_match"] == [0.0, 0.0, 0.0]


def test_citations_by_rules() -> None:
    sentences = [
        {"text": STATED, "evidence_ids": ["e1", "e2"]},
        {"text": "Rest is bad.", "evidence_ids": []},
        {"text": "Walking is healthy.", "evidence_ids": ["e2", "e9"]},
    ]
    judge, cases = JudgeCitations(), table(case(sentences=sentences))
    assert len(judge.prompts(cases)) == 3
    found = values(by_rules(judge, cases))
    assert found["citation_coverage"] == [0.5, 0.0, 1.0]
    assert sorted(found["citation_support"]) == [0.0, 0.0, 1.0, 1.0]
    assert found["citation_contradiction"] == [0.0, 0.0, 0.0]
    assert found["citation_valid"] == [1.0, 0.0, 0.0]
    assert found["citations_outside"] == [0.0, 0.0, 0.0, 1.0]


def test_a_sentence_is_not_judged_if_the_verdict_on_a_citation_is_lost() -> None:
    sentences = [{"text": STATED, "evidence_ids": ["e1", "e2"]}]
    cases = table(case(sentences=sentences))
    neutral, good = '{"reason": "", "verdict": "neutral"}', '{"reason": "", "verdict": "supports"}'
    (covered,) = [
        row
        for row in with_answers(JudgeCitations(), cases, neutral, "nonsense")
        if row["metric"] == "citation_coverage"
    ]
    assert covered["reject"]["reason"] == "invalid_json"
    found = values(with_answers(JudgeCitations(), cases, "nonsense", good))
    assert found["citation_coverage"] == [0.0]
    assert found["citation_support"] == [0.0, 1.0]


def test_claims_by_rules_are_the_sentences() -> None:
    sentences = [{"text": STATED, "evidence_ids": ["e1"]}, {"text": OTHER, "evidence_ids": ["e2"]}]
    cases = claimed(table(case(sentences=sentences)))
    assert texts(cases) == [[STATED, OTHER]]
    assert values(by_rules(JudgeFaithfulness(), cases)) == {"faithfulness": [1.0, 0.0]}
    whole = claimed(table(case(sentences=[])))
    assert texts(whole) == [[f"{STATED} [1]"]]


def test_a_claim_without_a_verdict_was_not_judged() -> None:
    sentences = [{"text": STATED, "evidence_ids": ["e1"]}, {"text": OTHER, "evidence_ids": ["e2"]}]
    cases = claimed(table(case(sentences=sentences)))
    judge = JudgeFaithfulness()
    said = '{"verdicts": [{"n": 2, "reason": "", "supported": true}]}'
    rows = with_answers(judge, cases, said)
    assert [row["value"] for row in rows] == [0.0, 1.0]
    assert rows[0]["reject"]["reason"] == "incomplete"
    (prompt,) = judge.prompts(cases)
    fault = judge.check(cases, prompt, read(said, judge.schema).value)
    assert fault is not None and "statement 1 of 2" in fault.detail


def test_claims_that_could_not_be_split_are_a_failure() -> None:
    step, cases = SplitClaims(), table(case())
    lost = step.parse(cases, step.prompts(cases), [read("", step.prompts(cases)[0].schema)])
    (row,) = by_rules(JudgeFaithfulness(), lost)
    assert (row["value"], row["reject"]["reason"]) == (0.0, "empty")


def test_precision_and_correctness_by_rules() -> None:
    """A nugget, something else, and the question said again."""
    said = [STATED, "Cats are furry animals.", "What helps tendons?"]
    sentences = [{"text": text, "evidence_ids": ["e1"]} for text in said]
    judge, cases = JudgePrecision(), claimed(table(case(sentences=sentences)))
    (prompt,) = judge.prompts(cases)
    assert OTHER in prompt.user and "Cats are furry" in prompt.user
    found = values(by_rules(judge, cases))
    assert found["answer_precision"] == found["answer_correctness"] == [1.0, 0.0, 0.0]


def test_precision_needs_nuggets_and_correctness_any_reference() -> None:
    sentences = [{"text": STATED, "evidence_ids": ["e1"]}]
    cases = claimed(table(case(sentences=sentences, nuggets=[], ideal_answer=STATED)))
    assert values(by_rules(JudgePrecision(), cases)) == {"answer_correctness": [1.0]}


def test_a_fact_that_does_not_exist_is_not_made() -> None:
    sentences = [{"text": STATED, "evidence_ids": ["e1"]}, {"text": OTHER, "evidence_ids": []}]
    judge, cases = JudgePrecision(), claimed(table(case(sentences=sentences)))
    first = '{"n": 1, "reason": "", "facts": [2], "correct": false}'
    second = '{"n": 2, "reason": "", "facts": [9], "correct": true}'
    found = values(with_answers(judge, cases, f'{{"verdicts": [{first}, {second}]}}'))
    assert found["answer_precision"] == [1.0, 0.0]
    assert found["answer_correctness"] == [0.0, 1.0]
    rows = with_answers(judge, cases, f'{{"verdicts": [{first}]}}')
    assert [row["reject"] is None for row in rows] == [True, True, False, False]


def test_evidence_by_rules() -> None:
    second = {"text": "Walking is healthy", "importance": "vital"}
    third = {"text": OTHER, "importance": "vital"}
    nuggets = [case()["nuggets"][0], second, third]
    cases = table(case(nuggets=nuggets))
    found = values(by_rules(MeasureEvidence(), supported(cases)))
    assert found["evidence_coverage"] == [1.0, 1.0, 0.0]
    assert found["evidence_precision"] == [1.0, 1.0]
    assert (found["evidence_miss"], found["context_precision"]) == ([0.0], [1.0])
    first = values(by_rules(MeasureEvidence(depth=1), supported(cases, depth=1)))
    assert first["evidence_coverage"] == [1.0, 0.0, 0.0]
    assert first["evidence_precision"] == [1.0]


def test_a_passage_that_does_not_exist_supports_nothing() -> None:
    step, cases = FindSupport(), table(case())
    said = '{"reason": "", "supported_by": [7, 64]}'
    answered = step.parse(cases, step.prompts(cases), [read(said, step.prompts(cases)[0].schema)])
    found = values(by_rules(MeasureEvidence(), answered))
    assert (found["evidence_coverage"], found["evidence_miss"]) == ([0.0], [1.0])


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
    assert [row["asked"] for row in out] == [False]


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


def guessed(cases: pa.Table) -> pa.Table:
    return GuessQuestions().open(Place())(cases)


def test_relevancy_by_hand() -> None:
    """Questions equal to the one asked are as near as can be; evasion is 0, a lost guess worst."""
    step, cases = GuessQuestions(), table(case(), case(), case())
    texts = [
        '{"questions": ["What helps tendons?", "What helps tendons?"], "committal": true}',
        '{"questions": ["What helps tendons?"], "committal": false}',
        "nonsense",
    ]
    completions = [read(text, step.prompts(cases)[0].schema) for text in texts]
    rows = by_rules(MeasureRelevancy(), step.parse(cases, step.prompts(cases), completions))
    assert [row["value"] for row in rows] == pytest.approx([1.0, 0.0, 0.0], abs=1e-5)
    assert [bool(row["reject"]) for row in rows] == [False, False, True]


def test_an_abstention_does_not_hide_that_no_question_could_be_guessed() -> None:
    """Nobody was asked about it: its 0 is no verdict of a judge that failed on all others."""
    step, cases = GuessQuestions(), table(case(), case(query_id="r", abstained=True))
    (prompt,) = step.prompts(cases)
    guesses = step.parse(cases, [prompt], [read("nonsense", prompt.schema)])
    judged = MeasureRelevancy().open(Place())(guesses)
    assert [(row["value"], row["asked"]) for row in judged.to_pylist()] == [(0, True), (0, False)]
    (found,) = score(MeasureRelevancy.metrics, judged, ["q", "r"])
    assert figure(found, resamples=10, seed=0)["value"] is None


def test_the_question_is_not_shown_to_who_guesses_it() -> None:
    (prompt,) = GuessQuestions().prompts(table(case()))
    assert "What helps tendons?" not in prompt.user
    assert STATED in prompt.user
    with pytest.raises(ValueError, match="num_questions is 9"):
        GuessQuestions(num_questions=9)


JUDGES: list[Callable[[], Any]] = [
    JudgeNuggets, JudgePicot, JudgeCitations, JudgeFaithfulness, MeasureEvidence, JudgeChoice,
    MeasureSimilarity, MeasureRelevancy, JudgeAccuracy, MeasureSelection, JudgeFactuality,
    JudgeCompleteness, JudgePrecision, MeasureHallucination,
]  # fmt: skip


PREPARATIONS = (
    SplitClaims(of="ideal_answer"), ClassifyStatements(), FindSupport(), SplitClaims(),
    MarkDistinctive(), AlignCitations(), GuessQuestions(),
)  # fmt: skip


def prepared(cases: pa.Table) -> pa.Table:
    """What a judge reads of these cases."""
    for step in PREPARATIONS:
        cases = step.open(Place())(cases)
    return cases


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
    judge, cases = make(), prepared(table(lost))
    if isinstance(judge, Judge):
        assert judge.prompts(cases) == []
    rows = by_rules(judge, cases)
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
    free = (JudgeCitations, JudgeFaithfulness, MeasureRelevancy, MeasureSelection)
    assert bool(by_rules(make(), prepared(table(bare)))) is (make in free)


def test_an_abstention_makes_no_claim_and_no_citation() -> None:
    silent = case(answer="The evidence does not answer this.", sentences=[], abstained=True)
    assert by_rules(JudgeFaithfulness(), claimed(table(silent))) == []
    assert by_rules(JudgeCitations(), table(silent)) == []
    assert values(by_rules(JudgeNuggets(), table(silent)))["nugget_coverage"] == [0.0, 0.0]


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
    made = {row["metric"] for row in by_rules(make(), prepared(table(*mixed)))}
    assert made == {metric.name for metric in make().metrics}


@pytest.mark.parametrize("make", [FindSupport, MeasureEvidence, MeasureSelection, JudgeFactuality])
def test_a_depth_that_no_answer_can_name(make: Any) -> None:
    with pytest.raises(ValueError, match="depth is 65"):
        make(depth=65)


def test_accuracy_by_hand() -> None:
    """Trial 1: full and partial, (1 + 0.5) / 2; trial 2: none and none; trial 3: a judge failed."""
    judge, cases = JudgeAccuracy(trials=3), table(case())
    prompts = judge.prompts(cases)
    assert [(p.slot, p.draw, p.temperature) for p in prompts] == [
        (slot, draw, 0.1) for slot in "01" for draw in range(3)
    ]
    said = {name: f'{{"reason": "", "rating": "{name}"}}' for name in ("none", "partial", "full")}
    first, second = ("full", "none", "full"), ("partial", "none", "")
    given = [said.get(name, "") for name in (*first, *second)]
    rows = with_answers(judge, cases, *given)
    assert [row["value"] for row in rows] == [0.75, 0.0, 0.0]
    assert rows[2]["reject"]["reason"] == "empty"
    found = trial_means(pa.Table.from_pylist(rows, schema=JUDGEMENTS))
    assert found == {"means": [0.75, 0.0, 0.0], "sd": pytest.approx(0.433, abs=1e-4)}
    silent = with_answers(judge, table(case(), case(missing="empty")), *[""] * 6)
    assert trial_means(pa.Table.from_pylist(silent, schema=JUDGEMENTS)) is None
    with pytest.raises(ValueError, match="trials is 0"):
        JudgeAccuracy(trials=0)


def test_accuracy_by_rules_goes_both_ways() -> None:
    """The reference is stated; of the answer's two sentences one is not in the reference."""
    said = case(answer=f"{STATED} Walking is healthy.")
    (row,) = by_rules(JudgeAccuracy(trials=1), table(said))
    assert row["value"] == 0.75


def test_the_f1_of_hallucinated_claims_by_hand() -> None:
    """Wrong claims are found twice and missed once, one right claim is called wrong: 4 / 6."""
    wrong, right = (
        [f"q{n}" for n in range(60) if (claim(f"q{n}") == "yes") is asked]
        for asked in (True, False)
    )  # all are answered by no
    chosen = {wrong[0]: 1, wrong[1]: 1, wrong[2]: 0, right[0]: 0, right[1]: 1}
    options = {"options": ["Yes", "No"], "gold_option": "No", "chooses": True}
    cases = table(*(case(query_id=q, choice=c, **options) for q, c in chosen.items()))
    judge = MeasureHallucination()
    (found,) = score(judge.metrics, judge.open(Place())(cases), list(chosen))
    assert figure(found, resamples=10, seed=0)["value"] == pytest.approx(4 / 6, abs=1e-4)
    silent = table(*(case(query_id=q, choice=-1, **options) for q in chosen))
    assert set(values(by_rules(judge, silent))["hallucination_f1"]) == {0.0}
