from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.schema import DOCUMENTS, TITLES, UNITS
from srrag.core.step import Place
from srrag.index.dense import BuildDenseIndex
from srrag.index.opened import DenseIndex
from srrag.index.titles import EncodeTitles, with_titles
from srrag.index.tokens import BuildTokenIndex, TokenIndex
from tests.unit.index.tables import REFUSED, row, uid, vectors, write

SENTENCES = np.array([[1, 0], [0, 1], [1, 0]], np.float32)


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, list[Path]]:
    """Three windows, the first two of one document, whose title points along the second axis."""
    owners = ["d1", "d1", "d2"]
    rows = [row(UNITS, unit_id=uid(n), doc_id=owner) for n, owner in enumerate(owners)]
    title = row(TITLES, doc_id="d1", vector=np.array([0, 1], np.float32).tobytes())
    for name in ("vectors", "windows", "titles"):
        (tmp_path / name).mkdir()
    return {
        "vectors": [vectors([uid(n) for n in range(3)], SENTENCES, tmp_path / "vectors/p.parquet")],
        "windows": [write(rows[::-1], UNITS, tmp_path / "windows/p.parquet")],
        "titles": [write([title], TITLES, tmp_path / "titles/p.parquet")],
    }


MIXED = [[1 / 1.25**0.5, 0.5 / 1.25**0.5], [0, 1], [1, 0]]
"""(1, 0) + half of (0, 1), at unit length; the title's own direction; no title."""


def test_a_title_is_added_by_its_weight_at_unit_length(inputs: dict[str, list[Path]]) -> None:
    ids = pa.array([uid(n) for n in range(3)])
    mixed = with_titles(SENTENCES, ids, inputs["windows"][0], inputs["titles"][0], 0.5)
    assert mixed == pytest.approx(np.array(MIXED), abs=1e-6)


def test_both_indexes_hold_the_same_vectors(inputs: dict[str, list[Path]], tmp_path: Path) -> None:
    for name in ("dense", "tokens"):
        (tmp_path / name).mkdir()
    BuildDenseIndex(titles="titles", title_weight=0.5).build(inputs, tmp_path / "dense", Place())
    tokens = BuildTokenIndex(titles="titles", windows="windows", title_weight=0.5)
    tokens.build(inputs, tmp_path / "tokens", Place())
    stored = TokenIndex(tmp_path / "tokens").take_vectors([uid(n) for n in range(3)])
    assert stored == pytest.approx(np.array(MIXED), abs=1e-6)
    ((ids, scores),) = DenseIndex(tmp_path / "dense").search(np.array([[0, 1]], np.float32), 3)
    assert ids.to_pylist() == [uid(1), uid(0), uid(2)]
    assert scores == pytest.approx([1, MIXED[0][1], 0], abs=1e-6)


def test_titles_alone_are_encoded(tmp_path: Path) -> None:
    rows = [
        row(DOCUMENTS, doc_id="a", title="Rest after a sprain"),
        row(DOCUMENTS, doc_id="b", title="  "),
        row(DOCUMENTS, doc_id="c", title="Refused") | {"reject": REFUSED},
    ]
    run = EncodeTitles().open(Place(threads=1))
    made = run(pa.Table.from_pylist(rows, schema=DOCUMENTS))
    assert made["doc_id"].to_pylist() == ["a"]
    assert np.linalg.norm(np.frombuffer(made["vector"][0].as_py(), np.float32)) == pytest.approx(1)
    assert made.schema == TITLES
