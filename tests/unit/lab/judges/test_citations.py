"""Cited documents beside gold ones; agreement with ragas on identical judgements.

The latter is skipped without `pip install ragas "langchain-community<0.4"`; 0.4.3 was tried.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.core.step import Place, Step
from srrag.lab.judges.accuracy import JudgeAccuracy
from srrag.lab.judges.citations import FAITHFULNESS, MeasureCitations, MeasureGoldCitations
from srrag.lab.judges.nuggets import MeasureForm
from srrag.lab.measure.judgements import CASES, Metric
from srrag.lab.measure.scores import score
from tests.judged import PASSAGE, answered, case, claim, table

NUM_ANSWERS = 30


class Judging:
    """What ragas takes for a model: it gives the next of its answers, in the shape asked for."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)

    async def agenerate(self, prompt: str, response_model: Any) -> Any:
        return response_model.model_validate(self.answers.pop(0))


def theirs(name: str, model: Judging, **sample: Any) -> float:
    """The value of a metric of ragas."""
    metrics = pytest.importorskip("ragas.metrics.collections", exc_type=ImportError)
    base = pytest.importorskip("ragas.llms.base").InstructorBaseRagasLLM
    base.register(Judging)
    metric = getattr(metrics, name)(llm=model)
    return float(asyncio.run(metric.ascore(user_input="Asked?", response="Said.", **sample)).value)


def shares(metrics: Sequence[Metric], judged: pa.Table) -> list[float]:
    """The value of each question."""
    (found,) = score(metrics, judged, [str(n) for n in range(NUM_ANSWERS)])
    return [float(value) for value in found.parts / found.wholes]


def test_faithfulness_is_that_of_ragas() -> None:
    draw = random.Random(0)
    verdicts = [
        [draw.random() < 0.6 for _ in range(draw.randint(1, 9))] for _ in range(NUM_ANSWERS)
    ]
    expected = [
        theirs(
            "Faithfulness",
            Judging(
                {"statements": [f"S{n}" for n, _ in enumerate(each)]},
                {
                    "statements": [
                        {"statement": f"S{n}", "reason": "", "verdict": int(supported)}
                        for n, supported in enumerate(each)
                    ]
                },
            ),
            retrieved_contexts=["Evidence."],
        )
        for each in verdicts
    ]
    claims = [
        [claim(f"S{n}", verdict="full" if each else "none") for n, each in enumerate(flags)]
        for flags in verdicts
    ]
    cases = [case(query_id=str(n), claims=each) for n, each in enumerate(claims)]
    judged = MeasureCitations().open(Place())(table(*cases))
    found = shares([FAITHFULNESS], judged)
    assert found == pytest.approx(expected)
    print(f"faithfulness of {NUM_ANSWERS} answers: ragas {sum(expected) / NUM_ANSWERS:.6f}, "
          f"here {sum(found) / NUM_ANSWERS:.6f}")  # fmt: skip


def test_answer_accuracy_is_that_of_ragas() -> None:
    draw = random.Random(1)
    words = ("none", "partial", "full")
    ratings = [(draw.randrange(3), draw.randrange(3)) for _ in range(NUM_ANSWERS)]
    expected = [
        theirs(
            "AnswerAccuracy",
            Judging({"rating": 2 * first}, {"rating": 2 * second}),
            reference="Known.",
        )
        for first, second in ratings
    ]
    answers = [{"reason": "", "verdict": words[each]} for pair in ratings for each in pair]
    cases = [case(query_id=str(number)) for number in range(NUM_ANSWERS)]
    judge = JudgeAccuracy(trials=1)
    found = shares(judge.metrics, answered(judge, table(*cases), *answers))
    assert found == pytest.approx(expected)
    print(f"accuracy of {NUM_ANSWERS} answers: ragas {sum(expected) / NUM_ANSWERS:.6f}, "
          f"here {sum(found) / NUM_ANSWERS:.6f}")  # fmt: skip


EVIDENCE = [
    PASSAGE | {"evidence_id": "e1", "pmid": "11"},
    PASSAGE | {"evidence_id": "e2", "pmid": "11"},
    PASSAGE | {"evidence_id": "e3", "source_id": "own"},
    PASSAGE | {"evidence_id": "e4", "pmid": "14"},
]


def cites(*ids: list[str], **values: Any) -> dict[str, Any]:
    said = [{"text": f"Sentence {n} is said.", "evidence_ids": each} for n, each in enumerate(ids)]
    return case(**{"evidence": EVIDENCE, "sentences": said, **values})


def figures(step: Step, *cases: dict[str, Any]) -> dict[str, list[float]]:
    """The values of each metric by question, in order."""
    table = step.open(Place())(pa.Table.from_pylist(cases, schema=CASES))
    names = list(dict.fromkeys(each["query_id"] for each in cases))
    metrics = step.metrics  # type: ignore[attr-defined]
    return {s.metric.name: (s.parts / s.wholes).tolist() for s in score(metrics, table, names)}


@pytest.fixture
def gold(tmp_path: Path) -> MeasureGoldCitations:
    path = tmp_path / "qrels.tsv"
    rows = ["q\t11\t1", "q\town\t1", "q\t13\t1", "q\t14\t0", "r\t11\t1"]
    path.write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    return MeasureGoldCitations(qrels=str(path))


def test_by_hand(gold: MeasureGoldCitations) -> None:
    """Cited: 11 (twice), own, 14; gold: 11, own, 13."""
    found = figures(gold, cites(["e1", "e2"], ["e3", "e4"]))
    assert found["gold_citation_precision"] == [pytest.approx(2 / 3)]
    assert found["gold_citation_recall"] == [pytest.approx(2 / 3)]


def test_an_abstention_has_no_precision_and_no_recall(gold: MeasureGoldCitations) -> None:
    found = figures(gold, cites(), cites(["e4"], query_id="r"))
    assert found["gold_citation_precision"] == [0.0]
    assert found["gold_citation_recall"] == [0.0, 0.0]


def test_a_failed_answer_has_the_worst_of_both(gold: MeasureGoldCitations) -> None:
    found = figures(gold, cites(missing="failed: timeout"))
    assert found == {"gold_citation_precision": [0.0], "gold_citation_recall": [0.0]}


def test_a_question_without_gold_is_left_out(gold: MeasureGoldCitations) -> None:
    found = figures(gold, cites(["e1"], query_id="unknown"))
    assert found == {"gold_citation_precision": [], "gold_citation_recall": []}


def test_the_identity_is_what_the_file_holds(gold: MeasureGoldCitations, tmp_path: Path) -> None:
    twin = tmp_path / "twin.tsv"
    twin.write_bytes(Path(gold.qrels).read_bytes())
    assert MeasureGoldCitations(qrels=str(twin)).identity() == gold.identity()
    twin.write_text("query-id\tcorpus-id\tscore\nq\t11\t1")
    assert MeasureGoldCitations(qrels=str(twin)).identity() != gold.identity()
    with pytest.raises(ValueError, match="no such file"):
        MeasureGoldCitations(qrels=str(tmp_path / "none.tsv")).identity()


@pytest.mark.parametrize(
    ("step", "within"),
    [(MeasureForm(), 1), (MeasureForm(words=7), 0), (MeasureForm(citations=1), 0)],
)
def test_caps(step: MeasureForm, within: int) -> None:
    """e1 and e2 are one article."""
    assert figures(step, cites(["e1", "e2"], ["e3", "e4"]))["within_caps"] == [within]


def test_an_answer_without_sentences_has_no_form() -> None:
    assert figures(MeasureForm(), cites())["within_caps"] == []
