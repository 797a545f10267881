from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from srrag.index.tokens import BuildTokenIndex
from srrag.rerank.maxsim import RerankMaxSim, unpack_tokens
from srrag.retrieve.hits import pack_hits
from srrag.schema import HITS
from srrag.step import Place
from tests.unit.index.tables import uid, vectors

X, Y = [127, 0], [0, 127]
TOKENS = {uid(1): [X], uid(2): [X, Y], uid(3): [], uid(4): [Y, Y]}
"""MaxSim with the question [X, Y]: 1, 2, 0 and 1."""


@pytest.fixture
def at(tmp_path: Path) -> Place:
    tokens = [np.array(rows).reshape(-1, 2) for rows in TOKENS.values()]
    path = vectors(list(TOKENS), np.ones((4, 2)), tmp_path / "p.parquet", tokens)
    BuildTokenIndex().build({"vectors": [path]}, tmp_path, Place())
    return Place(artifacts={"tokens": tmp_path})


def asked(*questions: tuple[list[list[int]], list[tuple[int, float]]]) -> pa.Table:
    """Question tokens, and the hits so far as unit numbers with scores."""
    hits = [
        (pa.array([uid(n) for n, _ in row], pa.string()), np.array([s for _, s in row], np.float32))
        for _, row in questions
    ]
    tokens = [np.array(rows, np.int8).reshape(-1, 2) for rows, _ in questions]
    return pa.table(
        {
            "hits_fused": pack_hits(hits),
            "query_tokens": pa.array([t.tobytes() for t in tokens], pa.large_binary()),
            "query_token_scales": pa.array(
                [np.full(len(t), 1 / 127, np.float16).tobytes() for t in tokens], pa.binary()
            ),
        }
    )


def reranked(step: RerankMaxSim, batch: pa.Table, at: Place) -> list[list[tuple[int, float]]]:
    out = step.open(at)(batch)
    assert out.schema.field("hits").type.equals(HITS)
    rows = out["hits"].to_pylist()
    assert [[hit["rank"] for hit in row] for row in rows] == [
        list(range(1, len(row) + 1)) for row in rows
    ]
    return [[(int(hit["unit_id"][:16], 16), hit["score"]) for hit in row] for row in rows]


FOUND = [(1, 0.9), (2, 0.5), (3, 0.1)]
"""Stretched to 0…1 the old scores are 1, 1/2, 0; MaxSim's are 1/2, 1, 0."""


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        (0.0, [(1, 1.0), (2, 0.5), (3, 0.0)]),
        (0.25, [(1, 0.875), (2, 0.625), (3, 0.0)]),
        (0.5, [(1, 0.75), (2, 0.75), (3, 0.0)]),
        (0.75, [(2, 0.875), (1, 0.625), (3, 0.0)]),
        (1.0, [(2, 1.0), (1, 0.5), (3, 0.0)]),
    ],
)
def test_the_blend_by_hand(at: Place, weight: float, expected: list[tuple[int, float]]) -> None:
    (row,) = reranked(RerankMaxSim(weight=weight), asked(([X, Y], FOUND)), at)
    assert [n for n, _ in row] == [n for n, _ in expected]
    assert [score for _, score in row] == pytest.approx([s for _, s in expected], abs=1e-5)


def test_ties_go_by_id(at: Place) -> None:
    """Windows 4 and 1 have the same MaxSim and the same old score."""
    (row,) = reranked(RerankMaxSim(), asked(([X, Y], [(4, 0.5), (1, 0.5), (3, 0.1)])), at)
    assert [n for n, _ in row] == [1, 4, 3]


def test_behind_the_depth_the_order_stays(at: Place) -> None:
    """Of 3, 1 the second wins by MaxSim; 2, the best of all by MaxSim, stays behind with 4."""
    hits = [(3, 0.9), (1, 0.8), (4, 0.7), (2, 0.6)]
    (row,) = reranked(RerankMaxSim(depth=2, weight=1.0), asked(([X, Y], hits)), at)
    assert [n for n, _ in row] == [1, 3, 4, 2]
    scores = [score for _, score in row]
    assert scores == sorted(scores, reverse=True)
    assert scores[1] > scores[2]


def test_a_depth_of_nothing_changes_no_order(at: Place) -> None:
    hits = [(3, 0.9), (1, 0.8), (2, 0.6)]
    (row,) = reranked(RerankMaxSim(depth=0), asked(([X, Y], hits)), at)
    assert [n for n, _ in row] == [3, 1, 2]


def test_a_question_without_tokens_keeps_the_old_order(at: Place) -> None:
    (row,) = reranked(RerankMaxSim(), asked(([], FOUND)), at)
    assert [n for n, _ in row] == [1, 2, 3]


def test_questions_do_not_mix(at: Place) -> None:
    """Each question is stretched by itself: a huge score of one leaves the other as it is."""
    alone = reranked(RerankMaxSim(), asked(([X, Y], FOUND)), at)
    other = ([Y], [(4, 900.0), (1, 100.0)])
    both = reranked(RerankMaxSim(), asked(([X, Y], []), other, ([X, Y], FOUND)), at)
    assert both[0] == []
    assert [n for n, _ in both[1]] == [4, 1]
    assert both[2] == alone[0]


def test_no_question(at: Place) -> None:
    assert reranked(RerankMaxSim(), asked(), at) == []


def test_a_hit_that_is_not_in_the_index_is_named(at: Place) -> None:
    with pytest.raises(ValueError, match=uid(9)):
        RerankMaxSim().open(at)(asked(([X], [(9, 1.0)])))


def test_a_weight_beyond_one_is_refused(at: Place) -> None:
    with pytest.raises(ValueError, match="weight 1.5"):
        RerankMaxSim(weight=1.5).open(at)(asked(([X], FOUND)))


def test_question_tokens_unpack() -> None:
    values = np.array([[2, -4], [1, 0]], np.int8)
    scales = np.array([0.5, 2.0], np.float16)
    tokens = unpack_tokens(
        pa.scalar(values.tobytes(), pa.large_binary()), pa.scalar(scales.tobytes()), 2
    )
    assert tokens.tolist() == [[1.0, -2.0], [2.0, 0.0]]
