from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.core.hits import FoundWindows
from srrag.core.schema import HITS
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.index.encode import EncodeWindows
from srrag.index.tokens import BuildTokenIndex
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.rerank.maxsim import RerankMaxSim, channel_scores, question_tokens
from srrag.rerank.reranker import study_numbers
from srrag.retrieve.questions import EncodeQuestions, question_table
from srrag.retrieve.search import SearchDense
from srrag.storage.store import Store
from tests.tiny_models import make_colbert
from tests.unit.index.tables import uid, vectors

Scored = list[tuple[int, float]]
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


def hits(rows: list[Scored]) -> pa.Array:
    return FoundWindows.of(
        [
            (pa.array([uid(n) for n, _ in row], pa.string()), np.array([s for _, s in row]))
            for row in rows
        ]
    ).hits()


def asked(*questions: tuple[list[list[int]], Scored, Scored, Scored]) -> pa.Table:
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


def reranked(step: RerankMaxSim, batch: pa.Table, at: Place) -> list[Scored]:
    out = step.open(at)(batch)
    assert out.schema.field("hits").type.equals(HITS)
    rows = out["hits"].to_pylist()
    assert [[hit["rank"] for hit in row] for row in rows] == [
        list(range(1, len(row) + 1)) for row in rows
    ]
    return [[(int(hit["unit_id"][:16], 16), hit["score"]) for hit in row] for row in rows]


def order(row: Scored) -> list[int]:
    return [number for number, _ in row]


FUSED: Scored = [(1, 0.9), (2, 0.5), (3, 0.1)]
SPARSE: Scored = [(1, 9.0), (3, 5.0), (4, 1.0)]
DENSE: Scored = [(2, 0.8), (1, 0.4)]


@pytest.mark.parametrize(
    ("blend", "expected"),
    [
        (("hits_fused",), [(1, 0.75), (2, 0.75), (3, 0.0)]),
        (("hits_sparse",), [(1, 0.75), (2, 0.5), (3, 0.25)]),
        (("hits_sparse", "hits_dense"), [(2, 2 / 3), (1, 1.5 / 3), (3, 0.5 / 3)]),
    ],
)
def test_the_blend_by_hand(at: Place, blend: tuple[str, ...], expected: Scored) -> None:
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


def test_depth_0_scores_all(at: Place) -> None:
    batch = asked(([X, Y], [(3, 0.9), (1, 0.8), (2, 0.6)], SPARSE, DENSE))
    assert order(reranked(RerankMaxSim(depth=0), batch, at)[0]) == [2, 1, 3]
    assert reranked(RerankMaxSim(depth=0), batch, at) == reranked(RerankMaxSim(depth=3), batch, at)


def test_without_a_blend_the_score_is_that_of_eq_15(at: Place) -> None:
    """Window 2 has both of the question's tokens, 4 and 1 one, 3 none."""
    batch = asked(([X, Y], [(3, 0.9), (1, 0.8), (4, 0.7), (2, 0.6)], SPARSE, DENSE))
    step = RerankMaxSim(blend=(), depth=0)
    assert set(step.reads) == {"hits_fused", "query_tokens", "query_token_scales"}
    (row,) = reranked(step, batch, at)
    assert order(row) == [2, 1, 4, 3]
    assert [score for _, score in row] == pytest.approx([2, 1, 1, 0], abs=1e-3)


def test_a_window_without_vectors_ranks_by_the_other_channels(tmp_path: Path) -> None:
    """Its row of vectors was rejected, so words alone find it; the others keep their scores."""
    tokens = [np.array([X]), np.array([Y])]
    path = vectors(
        [uid(1), uid(2)], np.ones((2, 2)), tmp_path / "p.parquet", tokens, refused=[uid(2)]
    )
    BuildTokenIndex().build({"vectors": [path]}, tmp_path, Place())
    batch = asked(([X], [(2, 0.9), (1, 0.8)], [(2, 9.0), (1, 1.0)], []))
    (row,) = reranked(
        RerankMaxSim(blend=("hits_sparse",)), batch, Place(artifacts={"tokens": tmp_path})
    )
    assert [(number, round(score, 3)) for number, score in row] == [(1, 0.5), (2, 0.5)]


def test_eq_15_as_a_loop_says_it(tmp_path: Path) -> None:
    """Σ over the question's tokens of the largest cosine with a token of the window."""
    random = np.random.default_rng(3)

    def some(size: int) -> np.ndarray:
        values = random.integers(-127, 128, (size, 2))
        return np.asarray(values, np.int8)

    tokens = [some(size) for size in (4, 1, 7, 2)]
    ids = [uid(n) for n in range(4)]
    path = vectors(ids, np.ones((4, 2)), tmp_path / "p.parquet", tokens)
    BuildTokenIndex().build({"vectors": [path]}, tmp_path, Place())
    question = some(3)
    batch = asked((question.tolist(), [(n, 1.0) for n in range(4)], [], []))
    step = RerankMaxSim(blend=(), depth=0)
    (row,) = reranked(step, batch, Place(artifacts={"tokens": tmp_path}))
    scale = float(np.float16(1 / 127))
    for number, score in row:
        expected = 0.0
        for asked_token in question.astype(float) * scale:
            best = -np.inf
            for token in tokens[number].astype(float) * scale:
                best = max(best, float(asked_token @ token))
            expected += best
        assert score == pytest.approx(expected, abs=1e-4)


def test_what_is_not_kept_is_dropped(at: Place) -> None:
    batch = asked(([X, Y], [(3, 0.9), (1, 0.8), (2, 0.6)], [], []), ([X], [(4, 1.0)], [], []))
    first, second = reranked(RerankMaxSim(blend=(), depth=0, keep=2), batch, at)
    assert (order(first), order(second)) == ([2, 1], [4])
    with pytest.raises(ValueError, match="keep is -1"):
        RerankMaxSim(keep=-1)
    with pytest.raises(ValueError, match="depth is -1"):
        RerankMaxSim(depth=-1)


def test_what_lies_behind_the_depth_stays_behind_negative_scores(tmp_path: Path) -> None:
    """MaxSim of window 1 is −1; window 2, unscored, comes after it all the same."""
    path = vectors([uid(1), uid(2)], np.ones((2, 2)), tmp_path / "p.parquet",
                   [np.array([[-127, 0]]), np.array([[127, 0]])])  # fmt: skip
    BuildTokenIndex().build({"vectors": [path]}, tmp_path, Place())
    batch = asked(([X], [(1, 0.9), (2, 0.8)], [], []))
    at = Place(artifacts={"tokens": tmp_path})
    (row,) = reranked(RerankMaxSim(blend=(), depth=1), batch, at)
    assert order(row) == [1, 2]


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


def test_scores_of_a_channel_go_by_question_and_window() -> None:
    """Question 0 found windows 2 and 0, question 1 window 1; each question's are its own."""
    wanted = pa.array([uid(n) for n in (0, 1, 1, 2)], pa.string())
    found = pa.array([uid(n) for n in (2, 0, 1)], pa.string())
    channel = (found, np.array([0.5, 0.25, 1.0]), np.array([0, 2, 3]))
    assert channel_scores(wanted, np.array([0, 2, 4]), channel).tolist() == [0.25, 0.0, 1.0, 0.0]
    nothing = (found[:0], np.zeros(0), np.array([0, 0, 0]))
    assert channel_scores(wanted, np.array([0, 2, 4]), nothing).tolist() == [0.0] * 4
    assert channel_scores(wanted[:0], np.array([0, 0, 0]), channel).tolist() == []


def test_question_tokens_unpack() -> None:
    values = np.array([[2, -4], [1, 0]], np.int8)
    scales = np.array([0.5, 2.0], np.float16)
    batch = pa.table(
        {
            "query_tokens": pa.array([values.tobytes(), b""], pa.large_binary()),
            "query_token_scales": pa.array([scales.tobytes(), b""], pa.binary()),
        }
    )
    first, second = question_tokens(batch, 2)
    assert first.values.tolist() == [[2, -4], [1, 0]] and first.scale.tolist() == [0.5, 2.0]
    assert second.values.shape == (0, 2) and len(second) == 0


def test_a_colbert_reads_the_questions_itself(tmp_path: Path) -> None:
    """Windows and questions of a late-interaction model beside the sentence encoder."""
    encoder = Encoder(model=str(make_colbert(tmp_path)), backend="colbert", max_tokens=64)
    texts = ["The knee after surgery.", "Ten days in a cast.", "Bed rest for two days."]
    model = load(encoder, threads=1)
    table = EncodeWindows(encoder=encoder).open(Place())(
        pa.table({"unit_id": [uid(n) for n in range(3)], "text": texts})
    )
    pq.write_table(table, tmp_path / "p.parquet")
    BuildTokenIndex().build({"vectors": [tmp_path / "p.parquet"]}, tmp_path, Place())
    step = RerankMaxSim(blend=(), depth=0, index="colbert", encoder=encoder)
    assert "text" in step.reads and "query_tokens" not in step.reads
    asked_texts = ["How long in a cast?", "Is bed rest any good?"]
    batch = pa.table({"text": asked_texts, "hits_fused": hits([[(n, 1.0) for n in range(3)]] * 2)})
    at = Place(artifacts={"colbert": tmp_path})
    both = reranked(step, batch, at)
    assert both == [reranked(step, batch.slice(n, 1), at)[0] for n in range(2)]
    for text, row in zip(asked_texts, both, strict=True):
        expected = model._model.similarity(
            model._model.encode_query([text], normalize_embeddings=True),
            model._model.encode_document(texts, normalize_embeddings=True),
        )[0]
        scores = dict(row)
        assert [scores[n] for n in range(3)] == pytest.approx(expected.tolist(), abs=0.1)


def test_weights_of_tokens(at: Place) -> None:
    """The second token counts three times: windows 1, 2, 3, 4 then have 1, 4, 0 and 3."""
    batch = asked(([X, Y], [(3, 0.9), (1, 0.8), (2, 0.6), (4, 0.5)], [], []))
    weights = pa.array([np.array([1, 3], np.float32).tobytes()], pa.binary())
    step = RerankMaxSim(blend=(), depth=0, weights="query_token_weights")
    assert "query_token_weights" in step.reads
    (row,) = reranked(step, batch.append_column("query_token_weights", weights), at)
    assert [number for number, _ in row] == [2, 4, 1, 3]
    assert [score for _, score in row] == pytest.approx([4, 3, 1, 0], abs=0.02)
    none = batch.append_column("query_token_weights", pa.array([b""], pa.binary()))
    assert reranked(step, none, at) == reranked(RerankMaxSim(blend=(), depth=0), batch, at)


def test_the_heaviest_tokens_count(at: Place) -> None:
    """Sixteen light tokens like the first window's, and one heavy like the second's, the last."""
    batch = asked(([X] * 16 + [Y], [(1, 0.9), (2, 0.8)], [], []))
    step = RerankMaxSim(blend=(), depth=0, weights="query_token_weights")
    light = np.linspace(1.0, 0.5, 16)
    weights = np.array([*light, 2.0], np.float32)
    column = pa.array([weights.tobytes()], pa.binary())
    (row,) = reranked(step, batch.append_column("query_token_weights", column), at)
    assert dict(row)[1] == pytest.approx(light[:15].sum(), abs=0.1)


def test_wrong_weights_reject_the_question(at: Place) -> None:
    batch = asked(([X, Y], [(1, 0.8)], [], []))
    weights = pa.array([np.ones(3, np.float32).tobytes()], pa.binary())
    step = RerankMaxSim(weights="query_token_weights")
    with pytest.raises(ValueError, match="not one number for each of 2 tokens"):
        step.open(at)(batch.append_column("query_token_weights", weights))
    with pytest.raises(ValueError, match="not of `encoder`'s"):
        RerankMaxSim(weights="w", encoder=Encoder())
    with pytest.raises(ValueError, match="document is -1"):
        RerankMaxSim(document=-1.0)


def test_windows_of_the_best_document_rise(sample_root: Path) -> None:
    """Documents keep their order; a document's windows get half of its best score."""
    place = Place(artifacts=Store(sample_root).artifacts("default"), threads=1)
    plain = ranked_documents(RerankMaxSim(blend=(), depth=0, hits="hits_dense"), place)
    step = RerankMaxSim(blend=(), depth=0, hits="hits_dense", document=0.5)
    assert step.needs() == ("tokens", "units")
    for before, after in zip(plain, ranked_documents(step, place), strict=True):
        assert list(dict.fromkeys(d for _, d, _ in before)) == list(
            dict.fromkeys(d for _, d, _ in after)
        )
        best: dict[int, float] = {}
        for _, document, score in before:
            best.setdefault(document, score)
        assert {u: s for u, _, s in after} == pytest.approx(
            {u: s + 0.5 * best[d] for u, d, s in before}, abs=1e-4
        )
        assert [u for u, _, _ in before] != [u for u, _, _ in after]


def ranked_documents(step: RerankMaxSim, place: Place) -> list[list[tuple[str, str, float]]]:
    """The windows of two questions with their documents and scores, best first."""
    rows = [{"query_id": t, "text": t} for t in ("ankle sprain cast", "tendon loading in runners")]
    table = SearchDense(k=60).open(place)(EncodeQuestions().open(place)(question_table(rows)))
    units = Units(place.artifact("units"))
    found = []
    for row in step.open(place)(table)["hits"].to_pylist():
        ids = pa.array([hit["unit_id"] for hit in row])
        names = study_numbers(units, ids).tolist()
        scores = [hit["score"] for hit in row]
        found.append(list(zip(ids.to_pylist(), names, scores, strict=True)))
    return found
