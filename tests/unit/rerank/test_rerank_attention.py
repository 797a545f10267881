from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.schema import FEATURES, TOPICS
from srrag.core.step import Place
from srrag.systems.ideprag.rerank_attention import FORMS, RerankAttention, attention_scores
from tests.unit.index.small_graph import graph_of, small_place


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return small_place(tmp_path_factory.mktemp("graph"))


def asked(*rows: tuple[list[int], list[tuple[str, float, int]]]) -> pa.Table:
    """Questions with these topics and features (text, score, evidence)."""
    blank = {"text": "", "visits": 1.0, "score": 1.0}
    features = [
        [{"text": text, "score": score, "evidence": piece} for text, score, piece in each]
        for _, each in rows
    ]
    return pa.table(
        {
            "topics": pa.array([[{**blank, "topic": t} for t in each] for each, _ in rows], TOPICS),
            "features": pa.array(features, FEATURES),
        }
    )


def found(step: RerankAttention, at: Place, table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = step.open(at)(table).to_pylist()
    return rows


@pytest.mark.parametrize("form", FORMS)
def test_pieces_have_the_scores_of_their_form_and_windows_those_of_their_best(
    at: Place, form: Any
) -> None:
    graph = graph_of(at)
    every = list(range(graph.topics.num_rows))
    pieces = graph.members_of(every)
    features = [("", 8.0, int(pieces[0])), ("", 3.0, int(pieces[-1]))]
    (row,) = found(
        RerankAttention(form=form, temperature=0.5, document=0.0), at, asked((every, features))
    )
    vectors = graph.evidence_vectors
    expected = attention_scores(
        vectors[pieces] @ vectors[[pieces[0], pieces[-1]]].T,
        np.array([8.0, 3.0]), form, 0.5,
    )  # fmt: skip
    assert row["pairs_scored"] == 2 * len(pieces)
    scores = {each["evidence"]: each["score"] for each in row["ranked_findings"]}
    assert scores == pytest.approx(dict(zip(pieces.tolist(), expected, strict=True)), abs=1e-5)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    windows = graph.windows_of(pieces).to_pylist()
    best = {
        window: max(s for w, s in zip(windows, expected, strict=True) if w == window)
        for window in windows
    }
    assert {hit["unit_id"]: hit["score"] for hit in row["hits"]} == pytest.approx(best, abs=1e-5)


def test_a_feature_in_words_of_its_own_is_encoded(at: Place) -> None:
    graph = graph_of(at)
    text = "Tendinopathy is diagnosed by imaging."
    every = list(range(graph.topics.num_rows))
    (row,) = found(RerankAttention(), at, asked((every, [(text, 9.0, -1)])))
    assert graph.evidence["text"][row["ranked_findings"][0]["evidence"]].as_py() == text
    assert row["ranked_findings"][0]["score"] == pytest.approx(9, abs=1e-3)


def test_a_share_of_the_documents_best_piece_is_added(at: Place) -> None:
    graph = graph_of(at)
    table = asked((list(range(graph.topics.num_rows)), [("fever", 5.0, -1)]))
    (alone,), (shared,) = (found(RerankAttention(document=d), at, table) for d in (0.0, 0.5))
    plain = {hit["unit_id"]: hit["score"] for hit in alone["hits"]}
    more = {hit["unit_id"]: hit["score"] for hit in shared["hits"]}
    assert more == pytest.approx({name: 1.5 * s for name, s in plain.items()}, abs=1e-4)


def test_nothing_without_features_or_topics_and_a_row_stands_alone(at: Place) -> None:
    rows: list[tuple[list[int], list[tuple[str, float, int]]]]
    rows = [([0, 1], []), ([], [("fever", 5.0, -1)]), ([1, 0], [("fever", 5.0, -1)]), ([0], [])]
    whole = found(RerankAttention(), at, asked(*rows))
    assert whole == [row for each in rows for row in found(RerankAttention(), at, asked(each))]
    for empty in (whole[0], whole[1], whole[3]):
        assert (empty["pairs_scored"], empty["ranked_findings"], empty["hits"]) == (0, [], [])
    few = RerankAttention(most=1)
    assert len(found(few, at, asked(rows[2]))[0]["ranked_findings"]) == 1


@pytest.mark.parametrize(
    "fields", [{"form": "other"}, {"temperature": 0.0}, {"most": 0}, {"document": -1.0}]
)
def test_settings_that_cannot_be_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        RerankAttention(**fields)
