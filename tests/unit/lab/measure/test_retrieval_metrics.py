from __future__ import annotations

from math import log2
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from srrag.lab.measure.references import coverage, measures, per_question, read_qrels


def scores(documents: list[str]) -> dict[str, float]:
    """A run in this order."""
    return {document: 1.0 / n for n, document in enumerate(documents, start=1)}


def one(judged: dict[str, int], documents: list[str]) -> dict[str, float]:
    values = per_question({"q": judged}, {"q": scores(documents)})
    return {name: float(value[0]) for name, value in values.items()}


def test_by_hand() -> None:
    """Gains are the grades: (0/log 2 + 1/log 3 + 2/log 4) over (2/log 2 + 1/log 3)."""
    found = one({"good": 2, "fair": 1, "bad": 0}, ["bad", "fair", "good", "unjudged"])
    assert found["nDCG@10"] == pytest.approx((1 / log2(3) + 2 / log2(4)) / (2 + 1 / log2(3)))
    assert found["MRR@10"] == pytest.approx(1 / 2)
    assert found["recall@10"] == found["recall@300"] == 1.0


def test_coverage_by_hand() -> None:
    """Of three statements one is supported by the first, one by the third, one by none of two."""
    statements = {"q2": [["x"], ["a", "c"], ["z"]], "q1": [["a"]]}
    run = {"q2": scores(["x", "y", "c"]), "q9": scores(["a"])}
    assert coverage(statements, run, 2).tolist() == [0.0, 1 / 3]
    assert coverage(statements, run, 3).tolist() == [0.0, 2 / 3]
    with pytest.raises(ValueError, match="question q: there is no statement"):
        coverage({"q": []}, {})


def test_a_question_that_is_missing_or_found_nothing_counts_zero() -> None:
    """Values stand in the order of the questions' ids."""
    qrels = {"q3": {"a": 1}, "q1": {"a": 1}, "q2": {"a": 1}}
    for run in ({"q2": scores(["a"])}, {"q2": scores(["a"]), "q1": {}, "q9": scores(["a"])}):
        values = per_question(qrels, run)
        assert values.pop("P@10").tolist() == [0.0, 0.1, 0.0]
        assert values.pop("miss@10").tolist() == [1.0, 0.0, 1.0]
        assert all(value.tolist() == [0.0, 1.0, 0.0] for value in values.values())
    nothing = per_question(qrels, {})
    assert nothing.pop("miss@10").tolist() == [1.0] * 3
    assert all(value.tolist() == [0.0] * 3 for value in nothing.values())


def test_a_question_without_anything_relevant_counts_zero() -> None:
    found = one({"a": 0}, ["a", "b"])
    assert found.pop("miss@10") == 1.0
    assert set(found.values()) == {0.0}


@pytest.mark.parametrize("cutoffs", [(), (0,), (10, -1), ("ten",), (True,), (2.5,)])
def test_cut_offs_are_whole_numbers(cutoffs: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="whole numbers above 0"):
        measures(cutoffs)  # type: ignore[arg-type]


RANDOM_CUTOFFS = st.lists(st.integers(1, 12), min_size=1, max_size=3, unique=True)


@settings(max_examples=60, deadline=None)
@given(
    judged=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 1), min_size=2),
    ranked=st.permutations("abcdefghij"),
    cutoffs=RANDOM_CUTOFFS,
)
def test_random_rankings_score_as_by_scikit_learn_and_by_counting(
    judged: dict[str, int], ranked: list[str], cutoffs: list[int]
) -> None:
    """nDCG of all ten documents against scikit-learn's; the rest against plain counts."""
    values = per_question({"q": judged}, {"q": scores(ranked)}, cutoffs)
    relevant = [judged.get(document, 0) > 0 for document in ranked]
    for k in cutoffs:
        hits = sum(relevant[:k])
        found = {name: float(values[f"{name}@{k}"][0]) for name in ("nDCG", "recall", "P", "miss")}
        assert found["P"] == pytest.approx(hits / k)
        assert found["miss"] == float(not hits)
        if any(relevant):
            assert found["recall"] == pytest.approx(hits / sum(relevant))
            gains = [[float(judged.get(document, 0)) for document in ranked]]
            assert found["nDCG"] == pytest.approx(ndcg_score(gains, [np.arange(10, 0, -1)], k=k))
            first = relevant.index(True) + 1
            assert float(values[f"MRR@{k}"][0]) == pytest.approx(1 / first if first <= k else 0.0)


def test_qrels_are_read(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("query-id\tcorpus-id\tscore\n1\td1\t2\n1\td2\t0\n2\td1\t1\n")
    assert read_qrels(path) == {"1": {"d1": 2, "d2": 0}, "2": {"d1": 1}}


@pytest.mark.parametrize("line", ["1\td1", "1\td1\thigh", "", "1 d1 2"])
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "test.tsv"
    path.write_text(f"query-id\tcorpus-id\tscore\n1\td1\t2\n{line}\n")
    with pytest.raises(ValueError, match=r"test\.tsv:3: not query-id, corpus-id, score"):
        read_qrels(path)


@pytest.mark.parametrize("text", ["", "query-id\tcorpus-id\tscore\n"])
def test_no_judgement(tmp_path: Path, text: str) -> None:
    (tmp_path / "test.tsv").write_text(text)
    with pytest.raises(ValueError, match="no judgement"):
        read_qrels(tmp_path / "test.tsv")
