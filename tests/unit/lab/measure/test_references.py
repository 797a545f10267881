from __future__ import annotations

import json
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from srrag.core.schema import UNITS
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.index.units import BuildUnits
from srrag.lab.measure.references import (
    coverage,
    measures,
    must_have,
    per_question,
    questions_of,
    quote_windows,
    read_gold,
    read_qrels,
    resource_path,
    split_of,
    window_qrels,
    windows_by_document,
)
from tests.unit.index.tables import documents, row, uid, write

BRACE, REST = uid(100), uid(200)


@pytest.fixture
def units(tmp_path: Path) -> Units:
    """Two windows of `brace` that overlap, one of `rest`."""
    texts = [
        (uid(1), BRACE, "A brace eased the pain.\nIt lasted a year."),
        (uid(2), BRACE, "It lasted  a year. Gait was unchanged."),
        (uid(3), REST, "It lasted a year."),
    ]
    rows = [row(UNITS, unit_id=unit, doc_id=doc, text=text) for unit, doc, text in texts]
    inputs = {
        "windows": [write(rows, UNITS, tmp_path / "w.parquet")],
        "documents": [
            documents(
                [{"doc_id": BRACE, "source_id": "brace"}, {"doc_id": REST, "source_id": "rest"}],
                tmp_path / "d.parquet",
            )
        ],
    }
    BuildUnits().build(inputs, tmp_path, Place())
    return Units(tmp_path)


def question(*gold: tuple[str, str, int], query_id: str = "q") -> dict[str, Any]:
    return {
        "query_id": query_id,
        "text": "?",
        "gold": [{"doc": doc, "quote": quote, "relevance": n} for doc, quote, n in gold],
    }


def test_every_window_that_holds_the_quote_is_judged(units: Units) -> None:
    """And none of another document with the same words."""
    qrels = window_qrels([question(("brace", "It lasted a year.", 2))], units)
    assert qrels == {"q": {uid(1): 2, uid(2): 2}}


def test_only_the_documents_that_gold_names_are_read(units: Units) -> None:
    assert windows_by_document(units, {"rest", "none"}) == {"rest": [(uid(3), "It lasted a year.")]}
    assert windows_by_document(units, set()) == {}


def test_the_best_relevance_stands(units: Units) -> None:
    gold = [("brace", "eased", 1), ("brace", "lasted a year", 2), ("brace", "pain.", 1)]
    for quotes in (gold, gold[::-1]):
        assert window_qrels([question(*quotes)], units) == {"q": {uid(1): 2, uid(2): 2}}


def test_blanks_and_line_ends_do_not_count(units: Units) -> None:
    qrels = window_qrels([question(("brace", " pain.  It\n", 1))], units)
    assert qrels == {"q": {uid(1): 1}}


def test_statements_that_an_answer_has_to_make(units: Units) -> None:
    """A statement is a quote of relevance 2, in all windows that hold it."""
    first = question(("brace", "pain.", 2), ("rest", "year", 1), query_id="a")
    quotes = quote_windows([first, question(("rest", "year", 1), query_id="b")], units)
    assert quotes["b"] == [(1, quotes["a"][1][1])]
    assert must_have(quotes) == {"a": [quotes["a"][0][1]]}


def test_questions_are_judged_apart_and_none_without_gold(units: Units) -> None:
    questions = [
        question(("brace", "Gait", 1), ("rest", "year", 1), query_id="a"),
        question(query_id="b"),
        question(("rest", "year", 3), query_id="c"),
    ]
    assert window_qrels(questions, units) == {"a": {uid(2): 1, uid(3): 1}, "c": {uid(3): 3}}


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        (("brace", "lasted two years", 1), "no window of brace holds its quote"),
        (("nowhere", "year", 1), "no document 'nowhere' is here; build its corpus"),
    ],
)
def test_a_quote_that_is_in_no_window_is_named(
    units: Units, gold: tuple[str, str, int], said: str
) -> None:
    with pytest.raises(ValueError, match=f"question q: {said}"):
        window_qrels([question(gold)], units)


def test_gold_is_read(tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    rows = [question(("brace", "x", 1)), {**question(), "query_id": "r", "text": "Übung?"}]
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), "utf-8")
    assert list(read_gold(path)) == rows


@pytest.mark.parametrize("line", ['{"query_id": "q", "text": "?"}',
                                  '{"query_id": "q", "text": "?", "gold": null}'])  # fmt: skip
def test_a_question_that_names_no_gold_has_none(tmp_path: Path, line: str) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text(line + "\n")
    assert [row["gold"] for row in read_gold(path)] == [[]]


@pytest.mark.parametrize(
    "line",
    [
        "{", "[]", '"x"', "5", '{"text": "?"}', '{"gold": []}', '{"gold": 5, "text": "?"}',
        '{"gold": 5, "text": "?", "query_id": "r"}', '{"gold": "x", "text": "?", "query_id": "r"}',
        '{"gold": [], "text": "?"}', '{"gold": [], "text": "\\ud800", "query_id": "r"}',
    ],
)  # fmt: skip
def test_a_bad_line_of_gold_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text(json.dumps(question()) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=r"gold\.jsonl:2: not a question with `gold`"):
        list(read_gold(path))


@pytest.mark.parametrize(
    "gold", ['[{"doc": "d", "quote": "x"}]', '[{"doc": "d", "relevance": 1}]', '["x"]', '"x"']
)
def test_a_gold_entry_that_is_none_is_named(tmp_path: Path, gold: str) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text(f'{{"query_id": "q", "text": "?", "gold": {gold}}}\n')
    try:
        read = list(read_gold(path))
    except ValueError:
        return
    raise AssertionError(f"{read} was taken for questions")


def test_an_empty_quote_is_no_quote(units: Units) -> None:
    with pytest.raises(ValueError, match="question q"):
        window_qrels([question(("brace", " ", 1))], units)


def test_paths_inside_a_package() -> None:
    import srrag

    path = resource_path("pkg://srrag/core/schema.py")
    assert path == Path(srrag.__file__).parent / "core" / "schema.py"
    assert path.is_file()
    assert resource_path("some/where") == Path("some/where")


QUESTIONS = [{"query_id": f"q{n}"} for n in range(300)]


def test_every_question_is_on_one_side() -> None:
    train, test = (questions_of(QUESTIONS, split) for split in ("train", "test"))
    assert sorted(row["query_id"] for row in train + test) == sorted(
        row["query_id"] for row in QUESTIONS
    )
    assert 70 < len(test) < 130
    assert questions_of(iter(QUESTIONS), None) == QUESTIONS


def test_a_question_keeps_its_side_among_others() -> None:
    assert questions_of(QUESTIONS[50:60], "test") == [
        row for row in QUESTIONS[50:60] if row in questions_of(QUESTIONS, "test")
    ]
    assert (split_of("acl-03"), split_of("acl-01")) == ("test", "train")


def test_another_split_is_named() -> None:
    with pytest.raises(ValueError, match=r"bench\.split=dev"):
        questions_of(QUESTIONS, "dev")


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
