from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from srrag.core.schema import empty_value
from srrag.core.step import Place
from srrag.lab.experiment.judging import (
    ABSTAINS,
    CONTROLS,
    control_cases,
    most_evidence,
    unfit,
)
from srrag.lab.judges.accuracy import JudgeChoice
from srrag.lab.judges.nuggets import WORDS, MeasureForm, MeasureNuggets, MeasureSimilarity
from srrag.lab.measure.judgements import CASES, Metric, first_words, num_words
from srrag.lab.measure.scores import Scores

BLANK = {item.name: empty_value(item.type) for item in CASES if item.name != "reject"}


def evidence(name: str, text: str) -> dict[str, Any]:
    blank = {f.name: empty_value(f.type) for f in CASES.field("evidence").type.value_type}
    return {**blank, "evidence_id": name, "text": text}


def case(name: str) -> dict[str, Any]:
    texts = [f"First of {name}. And more.", f"Second of {name}.", "Third.", "Fourth."]
    return BLANK | {
        "query_id": name,
        "text": f"What of {name}?",
        "answer": f"Second of {name}. [2]",
        "sentences": [{"text": f"Second of {name}.", "evidence_ids": [f"{name}2"]}],
        "evidence": [evidence(f"{name}{n}", text) for n, text in enumerate(texts, start=1)],
        "nuggets": [{"text": "a nugget", "importance": "vital"}],
        "options": ["yes", "no"],
        "gold_option": "no",
        "ideal_answer": "It does not.",
        "reject": None,
    }


def made() -> dict[str, list[dict[str, Any]]]:
    table = pa.Table.from_pylist([case("a"), case("b")], schema=CASES)
    return {name: found.to_pylist() for name, found in control_cases(table).items()}


def test_controls_say_what_their_names_say() -> None:
    found = {name: rows[0] for name, rows in made().items()}
    assert list(found) == list(CONTROLS)
    assert found["echo"]["answer"] == "What of a?"
    assert found["dump"]["answer"] == "First of a. And more. Second of a. Third. Fourth."
    assert [s["evidence_ids"] for s in found["top-3 verbatim"]["sentences"]] == [
        ["a1"], ["a1"], ["a2"], ["a3"],
    ]  # fmt: skip
    assert found["shuffled citations"]["sentences"][0]["evidence_ids"] == ["a3"]
    assert found["shuffled citations"]["answer"] == "Second of a. [2]"
    assert found["random window"]["answer"] == "First of b. And more."
    abstains = found["always abstain"]
    assert abstains["answer"] == ABSTAINS and abstains["abstained"] and not abstains["sentences"]
    assert found["gold answer"]["answer"] == "No. It does not. a nugget"


def test_controls_do_not_choose_what_the_system_chose() -> None:
    table = pa.Table.from_pylist([{**case("a"), "chooses": True, "choice": 1}], schema=CASES)
    found = {name: judged_choice(cases) for name, cases in control_cases(table).items()}
    assert found["shuffled citations"] == found["gold answer"] == 1.0
    assert found["always abstain"] == found["echo"] == found["random window"] == 0.0


def judged_choice(cases: pa.Table) -> float:
    (row,) = JudgeChoice().open(Place())(cases).to_pylist()
    return float(row["value"])


def test_controls_keep_question_and_gold() -> None:
    for rows in made().values():
        assert [row["query_id"] for row in rows] == ["a", "b"]
        assert all(row["nuggets"] and row["gold_option"] == "no" for row in rows)


def scores(name: str, values: list[float], better: Any = "higher") -> Scores:
    ids = tuple(f"q{n}" for n in range(len(values)))
    size = len(values)
    return Scores(Metric(name, "gold", better), ids, np.array(values), np.ones(size), size, 0, 0)


STEPS = {"nuggets": MeasureNuggets(), "similarity": MeasureSimilarity()}


def test_a_metric_on_which_a_control_is_not_below_the_best_system_is_unfit() -> None:
    systems = [[scores("nugget_coverage", [0.5, 0.7]), scores("semantic_similarity", [0.9, 0.9])]]
    controls = {
        "control: dump": [
            scores("nugget_coverage", [0.8, 0.9]), scores("semantic_similarity", [0.1, 0.2]),
        ],
        "control: gold answer": [scores("semantic_similarity", [1.0, 1.0])],
    }  # fmt: skip
    told = unfit(systems, controls, STEPS)
    assert told == {"nugget_coverage": "unfit here: dump 0.850 against 0.600"}


def test_where_lower_is_better_a_control_that_is_as_low_counts() -> None:
    systems = [[scores("nugget_contradiction", [0.1, 0.1], "lower")]]
    low = {"control: always abstain": [scores("nugget_contradiction", [0.0, 0.0], "lower")]}
    high = {"control: always abstain": [scores("nugget_contradiction", [0.5, 0.0], "lower")]}
    assert "nugget_contradiction" in unfit(systems, low, STEPS)
    assert not unfit(systems, high, STEPS)


def test_shuffled_citations_try_only_what_reads_citations() -> None:
    same = scores("nugget_coverage", [0.5, 0.7])
    assert not unfit([[same]], {"control: shuffled citations": [same]}, STEPS)


def test_controls_are_compared_on_the_questions_that_they_were_judged_on() -> None:
    systems = [[scores("nugget_coverage", [1.0, 0.0, 0.0])]]
    controls = {"control: echo": [scores("nugget_coverage", [0.5])]}
    assert not unfit(systems, controls, STEPS)


def test_words_behind_the_budget_do_not_count() -> None:
    text = "One two [1] three. [2] Four five"
    assert first_words(text, 3) == "One two [1] three."
    assert first_words(text, 5) == first_words(text, None) == text
    assert num_words(text) == 5


def lengths(cases: pa.Table) -> dict[str, float]:
    rows = MeasureForm().open(Place())(cases).to_pylist()
    return {row["query_id"]: row["value"] for row in rows if row["metric"] == WORDS.name}


def test_the_length_is_a_column_of_controls_and_no_metric_that_they_try() -> None:
    """Marks of citations are no words; an answer that failed has no length."""
    cases = [case("a"), case("b") | {"missing": "failed"}]
    step = MeasureForm()
    assert lengths(pa.Table.from_pylist(cases, schema=CASES)) == {"a": 3.0}
    said = {
        name: [*lengths(table).values()]
        for name, table in control_cases(pa.Table.from_pylist([case("a")], schema=CASES)).items()
    }
    assert said["echo"] == [3.0] and said["dump"] == [10.0] and said["always abstain"] == [7.0]
    words = [scores("answer_words", [9.0], "neither")]
    assert not unfit([words], {"control: dump": words}, {"form": step})


def test_controls_are_made_of_the_fullest_evidence() -> None:
    """A baseline that retrieves nothing would leave a dump nothing to say."""
    none, one, other = (
        pa.Table.from_pylist([case(name) | more], schema=CASES)
        for name, more in (("a", {"evidence": []}), ("b", {}), ("c", {}))
    )
    assert most_evidence([none, one, other]) is one
    assert most_evidence([none]) is none and most_evidence([]) is None
