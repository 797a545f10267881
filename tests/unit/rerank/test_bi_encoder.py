from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.hits import FoundWindows
from srrag.core.step import Place
from srrag.index.tokens import BuildTokenIndex
from srrag.rerank.bi_encoder import RerankBiEncoder
from tests.unit.index.tables import uid, vectors

WINDOWS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]])

X, Y = [127, 0], [0, 127]
TOKENS = [[X], [Y], [X, Y], []]
"""MaxSim with the question's tokens [X, Y]: 1, 1, 2 and 0."""


@pytest.fixture
def at(tmp_path: Path) -> Place:
    tokens = [np.array(rows).reshape(-1, 2) for rows in TOKENS]
    path = vectors([uid(n) for n in range(4)], WINDOWS, tmp_path / "p.parquet", tokens)
    BuildTokenIndex().build({"vectors": [path]}, tmp_path, Place())
    return Place(artifacts={"tokens": tmp_path})


def asked(*questions: tuple[list[float], list[int]]) -> pa.Table:
    found = [
        (pa.array([uid(n) for n in windows], pa.string()), -np.arange(len(windows), dtype=float))
        for _, windows in questions
    ]
    asked_vectors = [np.array(vector, np.float32).tobytes() for vector, _ in questions]
    tokens = np.array([X, Y], np.int8).tobytes()
    scales = np.full(2, 1 / 127, np.float16).tobytes()
    return pa.table(
        {
            "hits_coarse": FoundWindows.of(found).hits(),
            "query_vector": pa.array(asked_vectors, pa.binary()),
            "query_tokens": pa.array([tokens] * len(questions), pa.large_binary()),
            "query_token_scales": pa.array([scales] * len(questions), pa.binary()),
        }
    )


def reranked(step: RerankBiEncoder, batch: pa.Table, at: Place) -> list[list[tuple[int, float]]]:
    rows = step.open(at)(batch)["hits"].to_pylist()
    return [[(int(hit["unit_id"][:16], 16), hit["score"]) for hit in row] for row in rows]


def test_the_logit_by_hand(at: Place) -> None:
    """Cosines 0, 1, .8 and 0 of windows 0 to 3: 10 · cos − 4, ties by id."""
    step = RerankBiEncoder(scale=10.0, late=0.0, shift=-4.0)
    (row,) = reranked(step, asked(([0.0, 1.0], [3, 0, 1, 2])), at)
    assert [number for number, _ in row] == [2, 1, 0, 3]
    assert [score for _, score in row] == pytest.approx([6, 4, -4, -4], abs=1e-5)


def test_token_vectors_count_per_token_of_the_question(at: Place) -> None:
    """Cosines 0, .8, 1, 0; MaxSim 1/2, 1/2, 1, 0 a token: cos + 4 · MaxSim."""
    step = RerankBiEncoder(scale=1.0, late=4.0, shift=0.0)
    (row,) = reranked(step, asked(([0.0, 1.0], [0, 1, 2, 3])), at)
    assert [number for number, _ in row] == [2, 1, 0, 3]
    assert [score for _, score in row] == pytest.approx([5, 2.8, 2, 0], abs=2e-3)
    assert "query_tokens" in step.reads
    assert "query_tokens" not in RerankBiEncoder(late=0.0).reads


def test_questions_do_not_mix_and_some_find_nothing(at: Place) -> None:
    step = RerankBiEncoder(keep=1, late=0.0)
    questions = [([1.0, 0.0], [3, 0]), ([0.0, 1.0], []), ([0.6, 0.8], [0, 1, 2])]
    together = reranked(step, asked(*questions), at)
    assert [[number for number, _ in row] for row in together] == [[0], [], [1]]
    assert together == [reranked(step, asked(one), at)[0] for one in questions]
    assert reranked(step, asked(), at) == []


def test_weights_that_turn_the_ranking_round() -> None:
    for wrong in ({"scale": -1.0}, {"scale": float("inf")}, {"late": -0.1}):
        with pytest.raises(ValueError, match="a number of at least 0"):
            RerankBiEncoder(**wrong)
    with pytest.raises(ValueError, match="a finite number is needed"):
        RerankBiEncoder(shift=float("nan"))
