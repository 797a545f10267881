from __future__ import annotations

from math import log2
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from srrag.lab.measure.retrieval import coverage, measures, per_question, read_qrels


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


def test_the_best_order_scores_one() -> None:
    found = one({"good": 2, "fair": 1}, ["good", "fair", "other"])
    assert (found.pop("P@10"), found.pop("miss@10")) == (0.2, 0.0)
    assert set(found.values()) == {1.0}


def test_precision_and_miss_by_hand() -> None:
    """Two of the first ten are relevant, whatever stands behind them, and however few they are."""
    ranked = ["a", *(f"n{n}" for n in range(8)), "b", "c"]
    found = one(dict.fromkeys("abc", 1), ranked)
    assert (found["P@10"], found["miss@10"]) == (0.2, 0.0)
    assert one({"c": 1}, ranked)["miss@10"] == 1.0
    assert one({"a": 1}, ["a"])["P@10"] == 0.1


def test_coverage_by_hand() -> None:
    """Of three statements one is supported by the first, one by the third, one by none of two."""
    statements = {"q2": [["x"], ["a", "c"], ["z"]], "q1": [["a"]]}
    run = {"q2": scores(["x", "y", "c"]), "q9": scores(["a"])}
    assert coverage(statements, run, 2).tolist() == [0.0, 1 / 3]
    assert coverage(statements, run, 3).tolist() == [0.0, 2 / 3]
    with pytest.raises(ValueError, match="question q: there is no statement"):
        coverage({"q": []}, {})


def test_recall_counts_the_relevant_within_the_depth() -> None:
    """Two of four relevant documents stand at ranks 10 and 11, one at 101; one is not found."""
    ranked = [f"n{n}" for n in range(200)]
    ranked[9], ranked[10], ranked[100] = "a", "b", "c"
    found = one(dict.fromkeys("abcd", 1), ranked)
    assert found["recall@10"] == 1 / 4
    assert found["recall@100"] == 2 / 4
    assert found["recall@300"] == 3 / 4
    assert found["MRR@10"] == pytest.approx(1 / 10)


def test_what_stands_behind_rank_ten_counts_for_nothing_at_ten() -> None:
    found = one({"a": 1}, [*(f"n{n}" for n in range(10)), "a"])
    assert (found["nDCG@10"], found["MRR@10"], found["recall@10"]) == (0.0, 0.0, 0.0)
    assert found["recall@100"] == 1.0


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


DOCUMENTS = st.sampled_from("abcdef")


@settings(max_examples=40, deadline=None)
@given(
    judged=st.dictionaries(DOCUMENTS, st.integers(0, 3), min_size=1),
    ranked=st.lists(DOCUMENTS, unique=True),
)
def test_values_lie_between_zero_and_one(judged: dict[str, int], ranked: list[str]) -> None:
    found = one(judged, ranked)
    assert set(found) == set(measures())
    assert all(0 <= value <= 1 + 1e-9 for value in found.values())
    relevant = {document for document, grade in judged.items() if grade > 0}
    if relevant:
        hits = [place for place, name in enumerate(ranked, start=1) if name in relevant]
        assert found["recall@10"] == pytest.approx(len(hits) / len(relevant))
        assert found["MRR@10"] == pytest.approx(1 / hits[0] if hits else 0.0)
        assert found["P@10"] == pytest.approx(len(hits) / 10)
        assert found["miss@10"] == float(not hits)


@settings(max_examples=40, deadline=None)
@given(grades=st.lists(st.integers(0, 3), min_size=2, max_size=30), seed=st.integers(0, 99))
def test_ndcg_is_that_of_scikit_learn(grades: list[int], seed: int) -> None:
    """Its gains are the grades too, over the same logarithmic discount."""
    order = np.random.default_rng(seed).permutation(len(grades))
    found = one({f"d{n}": grade for n, grade in enumerate(grades)}, [f"d{n}" for n in order])
    values = np.empty(len(grades))
    values[order] = 1.0 / np.arange(1, len(grades) + 1)
    assert found["nDCG@10"] == pytest.approx(ndcg_score([grades], [values], k=10))


def test_cut_offs_can_be_chosen() -> None:
    """Relevant are ranks 2 and 5 of six: of the first 1, 4 and 8 there are 0, 1 and 2."""
    ranked = scores(["n", "a", "m", "o", "b", "p"])
    values = per_question({"q": {"a": 1, "b": 1, "c": 1}}, {"q": ranked}, (8, 1, 4))
    found = {name: round(float(value[0]), 4) for name, value in values.items()}
    assert {name: found[name] for name in found if name.startswith("P@")} == {
        "P@1": 0.0, "P@4": 0.25, "P@8": 0.25,
    }  # fmt: skip
    assert [found[f"recall@{k}"] for k in (1, 4, 8, 100)] == [0.0, 0.3333, 0.6667, 0.6667]
    assert [found[f"miss@{k}"] for k in (1, 4, 8)] == [1.0, 0.0, 0.0]
    assert [found[f"MRR@{k}"] for k in (1, 4, 8)] == [0.0, 0.5, 0.5]
    ideal = 1 + 1 / log2(3) + 1 / log2(4)
    assert found["nDCG@4"] == pytest.approx(1 / log2(3) / ideal, abs=1e-4)


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


def test_the_values_are_floats() -> None:
    values = per_question({"q": {"a": 1}}, {"q": scores(["a"])})
    assert all(value.dtype == np.float64 for value in values.values())
