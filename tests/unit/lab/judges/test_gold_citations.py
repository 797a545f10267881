from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.core.step import Place, Step
from srrag.lab.judges.citations import MeasureGoldCitations
from srrag.lab.judges.nuggets import MeasureForm
from srrag.lab.measure.judgements import CASES
from srrag.lab.measure.scores import score
from tests.judged import PASSAGE, case

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
