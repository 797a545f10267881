"""LanceDB's own library in place of this package's shards: it finds what they find."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from srrag.core.hits import Ranked
from srrag.core.schema import UNITS
from srrag.core.standing import GRADES
from srrag.core.step import Place
from srrag.index.dense import BuildDenseIndex
from srrag.index.lance import BuildLanceDense, BuildLanceSparse
from srrag.index.opened import open_dense, open_sparse
from srrag.index.sparse import BuildSparseIndex
from tests.unit.index.tables import documents, hashed, row, vectors, write

# Looked for, not imported: each process that collects this would import it, for seconds.
if find_spec("lancedb") is None:
    pytest.skip("the extra lancedb is not installed", allow_module_level=True)

WORDS = ("knee", "hip", "pain", "gait", "load", "resting", "sprain", "tear", "3", "α-tocopherol")
Inputs = dict[str, list[Path]]


def unit_rows(rows: int, seed: int, dimension: int = 16) -> np.ndarray:
    matrix = np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def inputs_of(folder: Path, matrix: np.ndarray, parts: int = 3) -> Inputs:
    """Windows of random grades and words in a few parts, with vectors and documents' titles."""
    draw = np.random.default_rng(7)
    found: Inputs = {"windows": [], "vectors": [], "documents": []}
    for name in found:
        (folder / name).mkdir()
    for number, places in enumerate(np.array_split(np.arange(len(matrix)), parts)):
        ids = [hashed(int(n)) for n in places]
        rows = [
            row(UNITS, unit_id=key, doc_id=f"d{place}", grade=str(draw.choice([*GRADES, ""])),
                text=" ".join(draw.choice(WORDS, size=draw.integers(1, 20))))
            for key, place in zip(ids, places, strict=True)
        ]  # fmt: skip
        titled = [{"doc_id": f"d{n}", "title": str(draw.choice(WORDS[:6]))} for n in places[::2]]
        name = f"part-{number}.parquet"
        found["windows"].append(write(rows, UNITS, folder / "windows" / name))
        found["vectors"].append(vectors(ids, matrix[places], folder / "vectors" / name))
        found["documents"].append(documents(titled, folder / "documents" / name))
    return found


def same(ours: Sequence[Ranked], theirs: Sequence[Ranked], atol: float = 2e-6) -> None:
    for (ids, scores), (others, found) in zip(ours, theirs, strict=True):
        assert ids.to_pylist() == others.to_pylist()
        np.testing.assert_allclose(scores, found, atol=atol)


@pytest.mark.parametrize("grades", [(), ("A",), ("B", "E"), GRADES])
def test_exact_search_is_that_of_our_shards(tmp_path: Path, grades: Sequence[str]) -> None:
    matrix = unit_rows(240, 1)
    matrix[60:75] = matrix[5]  # ties, decided by id
    inputs = inputs_of(tmp_path, matrix)
    queries = np.concatenate([unit_rows(6, 2), matrix[5:6]])
    for step in (BuildDenseIndex(), BuildLanceDense()):
        out = tmp_path / type(step).__name__
        out.mkdir()
        figures = step.build(inputs, out, Place())
        assert (figures["windows"], figures["exact"], figures["recall_at_100"]) == (240, 240, 1.0)
    ours, theirs = (open_dense(tmp_path / n) for n in ("BuildDenseIndex", "BuildLanceDense"))
    assert theirs.dimension == ours.dimension == 16
    for k in (1, 10, 500):
        same(ours.search(queries, k, grades), theirs.search(queries, k, grades))


@pytest.mark.parametrize("pq_bytes", [None, 4])
def test_lists_and_codes_find_most(tmp_path: Path, pq_bytes: int | None) -> None:
    inputs = inputs_of(tmp_path, unit_rows(1200, 3), parts=2)
    (tmp_path / "out").mkdir()
    step = BuildLanceDense(flat_rows=500, probes=40, pq_bytes=pq_bytes)
    figures = step.build(inputs, tmp_path / "out", Place())
    assert figures["exact"] == 0
    assert 0.6 < float(figures["recall_at_100"]) <= 1
    index = open_dense(tmp_path / "out")
    (found,) = index.search(unit_rows(1200, 3)[3:4], 1)
    assert found[0].to_pylist() == [hashed(3)]


def test_codes_of_an_impossible_length(tmp_path: Path) -> None:
    inputs = inputs_of(tmp_path, unit_rows(300, 3))
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match="pq_bytes: 5 does not divide the dimension, 16"):
        BuildLanceDense(flat_rows=1, pq_bytes=5).build(inputs, tmp_path / "out", Place())


def test_no_window(tmp_path: Path) -> None:
    inputs = inputs_of(tmp_path, unit_rows(0, 3), parts=1)
    with pytest.raises(ValueError, match="there is no window to index"):
        BuildLanceDense().build(inputs, tmp_path, Place())


@pytest.mark.parametrize("own_field", [True, False])
def test_words_are_those_of_our_index(tmp_path: Path, own_field: bool) -> None:
    """BM25 agrees for texts of up to 40 words; Tantivy rounds the length of longer ones.

    Titles differ a little, as windows without one seem not to count in LanceDB's statistics.
    """
    tolerance = 0.1 if own_field else 1e-5
    inputs = inputs_of(tmp_path, unit_rows(200, 4))
    kinds = (BuildSparseIndex, BuildLanceSparse)
    for kind in kinds:
        (tmp_path / kind.__name__).mkdir()
        step = kind(titles="documents", own_field=own_field)
        assert step.build(inputs, tmp_path / kind.__name__, Place())["windows"] == 200
    ours, theirs = (open_sparse(tmp_path / kind.__name__) for kind in kinds)
    assert len(theirs) == len(ours)
    spoken = [*WORDS, "rest", "the", "unheard"]
    np.testing.assert_array_equal(ours.rarities(spoken, 1.0), theirs.rarities(spoken, 1.0))
    for grades in ((), ("A", "C")):
        for question in ("pain of the knee", "resting α-tocopherol 3", "knee knee knee"):
            (one,), (other,) = (i.search([question], 300, grades) for i in (ours, theirs))
            scored = dict(zip(one[0].to_pylist(), one[1].tolist(), strict=True))
            found = dict(zip(other[0].to_pylist(), other[1].tolist(), strict=True))
            assert found == pytest.approx(scored, rel=tolerance), question


@pytest.mark.parametrize("question", ["", "the of", "unheard", '"knee" AND (', "\x00", "🦴"])
def test_questions_without_a_hit_or_with_signs(tmp_path: Path, question: str) -> None:
    inputs = inputs_of(tmp_path, unit_rows(30, 4))
    for kind in (BuildSparseIndex, BuildLanceSparse):
        (tmp_path / kind.__name__).mkdir()
        kind().build(inputs, tmp_path / kind.__name__, Place())
    ours, theirs = (open_sparse(tmp_path / n) for n in ("BuildSparseIndex", "BuildLanceSparse"))
    (one,), (other,) = (index.search([question], 50) for index in (ours, theirs))
    assert sorted(one[0].to_pylist()) == sorted(other[0].to_pylist())
