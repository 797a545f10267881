from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from srrag.index.tokens import BuildTokenIndex
from srrag.rerank.maxsim import RerankMaxSim, scores_of, unpack_tokens
from srrag.retrieve.hits import pack_hits
from srrag.schema import HITS
from srrag.step import Place
from tests.unit.index.tables import uid, vectors

Found = list[tuple[int, float]]
"""Units by number with their scores."""

X, Y = [127, 0], [0, 127]
TOKENS = {uid(1): [X], uid(2): [X, Y], uid(3): [], uid(4): [Y, Y]}
"""MaxSim with the question [X, Y]: 1, 2, 0 and 1."""


@pytest.fixture
def at(tmp_path: Path) -> Place:
    tokens = [np.array(rows).reshape(-1, 2) for rows in TOKENS.values()]
    path = vectors(list(TOKENS), np.ones((4, 2)), tmp_path / "p.parquet", tokens)
    BuildTokenIndex().build({"vectors": [path]}, tmp_path, Place())
    return Place(artifacts={"tokens": tmp_path})


def hits(rows: list[Found]) -> pa.Array:
    return pack_hits(
        [
            (pa.array([uid(n) for n, _ in row], pa.string()), np.array([s for _, s in row]))
            for row in rows
        ]
    )


def asked(*questions: tuple[list[list[int]], Found, Found, Found]) -> pa.Table:
    """Question tokens, then the hits: fused, sparse and dense."""
    tokens = [np.array(rows, np.int8).reshape(-1, 2) for rows, _, _, _ in questions]
    scales = [np.full(len(t), 1 / 127, np.float16).tobytes() for t in tokens]
    return pa.table(
        {
            "hits_fused": hits([fused for _, fused, _, _ in questions]),
            "hits_sparse": hits([sparse for _, _, sparse, _ in questions]),
            "hits_dense": hits([dense for _, _, _, dense in questions]),
            "query_tokens": pa.array([t.tobytes() for t in tokens], pa.large_binary()),
            "query_token_scales": pa.array(scales, pa.binary()),
        }
    )


def reranked(step: RerankMaxSim, batch: pa.Table, at: Place) -> list[Found]:
    out = step.open(at)(batch)
    assert out.schema.field("hits").type.equals(HITS)
    rows = out["hits"].to_pylist()
    assert [[hit["rank"] for hit in row] for row in rows] == [
        list(range(1, len(row) + 1)) for row in rows
    ]
    return [[(int(hit["unit_id"][:16], 16), hit["score"]) for hit in row] for row in rows]


def order(row: Found) -> list[int]:
    return [number for number, _ in row]


FUSED: Found = [(1, 0.9), (2, 0.5), (3, 0.1)]
SPARSE: Found = [(1, 9.0), (3, 5.0), (4, 1.0)]
DENSE: Found = [(2, 0.8), (1, 0.4)]


@pytest.mark.parametrize(
    ("blend", "expected"),
    [
        ((), [(2, 1.0), (1, 0.5), (3, 0.0)]),
        (("hits_fused",), [(1, 0.75), (2, 0.75), (3, 0.0)]),
        (("hits_sparse",), [(1, 0.75), (2, 0.5), (3, 0.25)]),
        (("hits_sparse", "hits_dense"), [(2, 2 / 3), (1, 1.5 / 3), (3, 0.5 / 3)]),
    ],
)
def test_the_blend_by_hand(at: Place, blend: tuple[str, ...], expected: Found) -> None:
    """Stretched to 0…1, for windows 1, 2, 3: MaxSim 1/2, 1, 0; fused 1, 1/2, 0; sparse 1, -, 1/2
    (its worst is window 4); dense 0, 1, -. A dash counts 0.
    """
    (row,) = reranked(RerankMaxSim(blend=blend), asked(([X, Y], FUSED, SPARSE, DENSE)), at)
    assert order(row) == order(expected)
    assert [score for _, score in row] == pytest.approx([s for _, s in expected], abs=1e-5)


def test_only_what_was_fused_is_ranked(at: Place) -> None:
    (row,) = reranked(RerankMaxSim(), asked(([X, Y], [(3, 1.0)], SPARSE, DENSE)), at)
    assert order(row) == [3]


def test_ties_go_by_id(at: Place) -> None:
    """Windows 4 and 1 have the same MaxSim."""
    batch = asked(([X, Y], [(4, 0.5), (1, 0.4), (3, 0.1)], [], []))
    assert order(reranked(RerankMaxSim(), batch, at)[0]) == [1, 4, 3]


def test_behind_the_depth_the_order_stays(at: Place) -> None:
    """Of 3, 1 the second wins by MaxSim; 2, the best of all by MaxSim, stays behind with 4."""
    fused = [(3, 0.9), (1, 0.8), (4, 0.7), (2, 0.6)]
    for sparse in ([], [(2, 9.0), (4, 1.0)]):
        batch = asked(([X, Y], fused, sparse, []))
        (row,) = reranked(RerankMaxSim(depth=2), batch, at)
        assert order(row) == [1, 3, 4, 2]
        scores = [score for _, score in row]
        assert scores == sorted(scores, reverse=True)
        assert scores[1] > scores[2]


def test_a_depth_of_nothing_changes_no_order(at: Place) -> None:
    batch = asked(([X, Y], [(3, 0.9), (1, 0.8), (2, 0.6)], SPARSE, DENSE))
    assert order(reranked(RerankMaxSim(depth=0), batch, at)[0]) == [3, 1, 2]


def test_a_question_without_tokens_goes_by_the_channels(at: Place) -> None:
    (row,) = reranked(RerankMaxSim(), asked(([], FUSED, SPARSE, [])), at)
    assert order(row) == [1, 3, 2]


def test_questions_do_not_mix(at: Place) -> None:
    """Each question is stretched by itself: a huge score of one leaves the other as it is."""
    question = ([X, Y], FUSED, SPARSE, DENSE)
    alone = reranked(RerankMaxSim(), asked(question), at)
    huge = ([Y], [(4, 900.0), (1, 100.0)], [(4, 1e6), (2, 1e5)], [(3, -1e6)])
    both = reranked(RerankMaxSim(), asked(([X, Y], [], [], []), huge, question), at)
    assert both[0] == []
    assert order(both[1]) == [4, 1]
    assert both[2] == alone[0]


def test_no_question(at: Place) -> None:
    assert reranked(RerankMaxSim(), asked(), at) == []


def test_a_hit_that_is_not_in_the_index_is_named(at: Place) -> None:
    with pytest.raises(ValueError, match=uid(9)):
        RerankMaxSim().open(at)(asked(([X], [(9, 1.0)], [], [])))


def test_scores_are_found_by_row_and_key() -> None:
    known = (np.array([0, 0, 1]), np.array([2, 0, 1]), np.array([0.5, 0.25, 1.0]))
    found = scores_of(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]), known, 3)
    assert found.tolist() == [0.25, 0.0, 1.0, 0.0]
    nothing = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    assert scores_of(np.array([0]), np.array([0]), nothing, 1).tolist() == [0.0]


def test_question_tokens_unpack() -> None:
    values = np.array([[2, -4], [1, 0]], np.int8)
    scales = np.array([0.5, 2.0], np.float16)
    tokens = unpack_tokens(
        pa.scalar(values.tobytes(), pa.large_binary()), pa.scalar(scales.tobytes()), 2
    )
    assert tokens.tolist() == [[1.0, -2.0], [2.0, 0.0]]
