from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.spec import build, spec
from srrag.retrieve.search import SearchDense, SearchSparse
from tests.unit.retrieve.parts import Corpus, corpus, unit_rows


def test_the_column_to_search_for_is_a_field(tmp_path: Path) -> None:
    place = corpus(tmp_path / "c", ["B"] * 30).place
    batch = pa.table({"text": ["knee", "the"], "asked_next": ["gait", "sprain"]})
    step = SearchSparse(text="asked_next", into="hits_next")
    assert step.reads == ("asked_next",)
    found = step.open(place)(batch)["hits_next"].to_pylist()
    plain = SearchSparse().open(place)(pa.table({"text": ["gait", "sprain"]}))
    assert found == plain["hits_sparse"].to_pylist()
    assert all(found)
    assert build(spec(step)) == step


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return corpus(tmp_path_factory.mktemp("dense") / "c", ["B"] * 50)


def table(*rows: np.ndarray, name: str = "query_vector") -> pa.Table:
    """A question a matrix: one or several vectors, or none."""
    return pa.table({name: pa.array([row.astype(np.float32).tobytes() for row in rows])})


def found(windows: Corpus, step: SearchDense, batch: pa.Table) -> list[list[tuple[str, float]]]:
    out = step.open(windows.place)(batch)[step.into].to_pylist()
    return [[(hit["unit_id"], hit["score"]) for hit in row] for row in out]


def test_several_vectors_are_one_list_by_the_best_score(windows: Corpus) -> None:
    """Three passages a question, against brute force over the maximum of the three."""
    passages = [unit_rows(3, seed) for seed in (1, 2)]
    step = SearchDense(vectors="passages", k=10)
    assert step.reads == ("passages",)
    rows = found(windows, step, table(*passages, name="passages"))
    for row, queries in zip(rows, passages, strict=True):
        best = (queries @ windows.matrix.T).max(axis=0)
        order = sorted(range(50), key=lambda n: (-round(float(best[n]), 5), windows.ids[n]))[:10]
        assert [key for key, _ in row] == [windows.ids[n] for n in order]
        assert [score for _, score in row] == pytest.approx(best[order], abs=1e-6)


def test_questions_of_none_one_and_several_vectors_go_together(windows: Corpus) -> None:
    one, three, none = unit_rows(1, 4), unit_rows(3, 5), np.zeros((0, 8))
    rows = found(windows, SearchDense(k=7), table(none, one, three, none))
    assert [len(row) for row in rows] == [0, 7, 7, 0]
    alone = [found(windows, SearchDense(k=7), table(item))[0] for item in (none, one, three, none)]
    assert [[key for key, _ in row] for row in rows] == [[key for key, _ in row] for row in alone]


def test_the_same_vector_twice_counts_once(windows: Corpus) -> None:
    one = unit_rows(1, 6)
    once, twice = found(windows, SearchDense(k=9), table(one, np.concatenate([one, one])))
    assert [key for key, _ in once] == [key for key, _ in twice]
    assert len({key for key, _ in twice}) == 9


def test_bytes_that_are_no_vectors_are_refused(windows: Corpus) -> None:
    with pytest.raises(ValueError, match="'query_vector': 20 bytes are no vectors of 8 numbers"):
        found(windows, SearchDense(), table(np.zeros(5)))


def test_no_question(windows: Corpus) -> None:
    assert found(windows, SearchDense(), table().cast(table(np.zeros(8)).schema)) == []


def test_the_column_is_identity() -> None:
    step = SearchDense(vectors="passages", into="hits_hyde")
    assert build(spec(step)) == step
    assert spec(step) != spec(SearchDense(into="hits_hyde"))


def test_k_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="k is 0"):
        SearchDense(k=0)


def test_scores_are_the_inner_products(windows: Corpus, tmp_path: Path) -> None:
    query = unit_rows(1, 8)
    (row,) = found(windows, SearchDense(k=50), table(query))
    scores = dict(zip(windows.ids, (query @ windows.matrix.T)[0].tolist(), strict=True))
    assert [score for _, score in row] == pytest.approx([scores[key] for key, _ in row], abs=1e-6)
