from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.schema import RANKED_FINDINGS
from srrag.core.step import Place
from srrag.systems.ideprag.rerank_attention import FORMS, Form, SelectFindings, attention_scores
from tests.unit.index.small_graph import TEXTS, graph_of, small_place
from tests.unit.index.tables import hashed


def test_equation_9_is_that_of_a_reference_in_plain_python() -> None:
    draw = np.random.default_rng(0)
    cosines, useful = draw.uniform(-1, 1, (7, 5)), draw.uniform(0, 10, 5)
    found = attention_scores(cosines, useful, "paper")
    for row, score in zip(cosines.tolist(), found.tolist(), strict=True):
        total = sum(math.exp(c) for c in row)
        pairs = zip(useful.tolist(), row, strict=True)
        assert score == pytest.approx(sum(u * math.exp(c) / total for u, c in pairs), abs=1e-9)


def test_evidence_unlike_every_feature_has_their_mean_as_printed_and_little_in_ours() -> None:
    cosines, useful = np.array([[0.0, 0.0], [0.9, 0.1]]), np.array([10.0, 2.0])
    assert attention_scores(cosines, useful, "paper")[0] == pytest.approx(6.0)
    assert attention_scores(cosines, useful, "best").tolist() == pytest.approx([0.0, 9.0])


@pytest.mark.parametrize("form", FORMS)
def test_a_large_exponent_and_no_feature_are_finite(form: Form) -> None:
    sharp = attention_scores(np.array([[1.0], [-1.0]]), np.array([1.0]), form, 0.001)
    assert np.isfinite(sharp).all()
    two = attention_scores(np.array([[1.0, -1.0]] * 2), np.array([1.0, 0.0]), form, 0.001)
    assert two == pytest.approx([1.0, 1.0])
    assert not attention_scores(np.zeros((2, 0)), np.zeros(0), form).any()


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return small_place(tmp_path_factory.mktemp("graph"))


def chosen(step: SelectFindings, at: Place, *rows: list[int]) -> list[dict[str, Any]]:
    """Of findings in this order, by their places in the graph."""
    ranked = [[{"evidence": n, "score": 9.0 - i} for i, n in enumerate(row)] for row in rows]
    table = pa.table({"ranked_findings": pa.array(ranked, RANKED_FINDINGS)})
    found: list[dict[str, Any]] = step.open(at)(table).to_pylist()
    return found


def test_a_finding_is_evidence_word_for_word_in_the_order_of_its_scores(at: Place) -> None:
    graph = graph_of(at)
    order = list(range(graph.evidence.num_rows))[::-1]
    (row,) = chosen(SelectFindings(status="show"), at, order)
    texts = [graph.evidence["text"][n].as_py() for n in order]
    assert [each["text"] for each in row["evidence"]] == list(dict.fromkeys(texts))
    for each in row["evidence"]:
        (name,) = (n for n in TEXTS if hashed(n) == each["doc_id"])
        assert TEXTS[name][each["char_start"] : each["char_end"]] == each["text"]
        assert (each["kind"], each["unit_id"], each["grade"]) == ("finding", hashed((name, 0)), "B")
    assert [each["score"] for each in row["evidence"]] == sorted(
        (each["score"] for each in row["evidence"]), reverse=True
    )
    assert len({each["evidence_id"] for each in row["evidence"]}) == len(row["evidence"])


def test_retracted_papers_are_left_out_and_named(at: Place) -> None:
    graph = graph_of(at)
    order = list(range(graph.evidence.num_rows))
    (hidden,), (shown,) = (chosen(SelectFindings(status=s), at, order) for s in ("hide", "show"))
    assert hashed("b") not in {each["doc_id"] for each in hidden["evidence"]}
    assert [(each["source_id"], each["standing"]) for each in hidden["left_out"]] == [
        ("b", "retracted")
    ]
    marked = {each["doc_id"]: each["standing"] for each in shown["evidence"]}
    assert marked[hashed("b")] == "retracted"
    assert marked[hashed("a")] == "ok"
    assert shown["left_out"] == []


def test_pieces_and_words_are_bounded_and_a_long_piece_gives_way_to_a_short_one(at: Place) -> None:
    graph = graph_of(at)
    sizes = [len(text.split()) for text in graph.evidence["text"].to_pylist()]
    order = sorted(range(len(sizes)), key=lambda n: -sizes[n])
    step = SelectFindings(status="show")
    assert len(chosen(replace(step, k=2), at, order)[0]["evidence"]) == 2
    (row,) = chosen(replace(step, words=min(sizes)), at, order)
    assert [len(each["text"].split()) for each in row["evidence"]] == [min(sizes)]
    assert max(sizes) > min(sizes)
    (row,) = chosen(replace(step, words=12), at, order)
    assert 0 < sum(len(each["text"].split()) for each in row["evidence"]) <= 12


def test_a_text_stands_once_nothing_is_nothing_and_a_row_stands_alone(at: Place) -> None:
    rows = [[0, 0, 1, 0], [], [2]]
    whole = chosen(SelectFindings(status="show"), at, *rows)
    assert len(whole[0]["evidence"]) == 2
    assert whole[1]["evidence"] == whole[1]["left_out"] == []
    assert whole == [
        row for each in rows for row in chosen(SelectFindings(status="show"), at, each)
    ]


@pytest.mark.parametrize("fields", [{"k": 0}, {"words": 0}, {"status": "some"}])
def test_settings_that_cannot_be_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        SelectFindings(**fields)
