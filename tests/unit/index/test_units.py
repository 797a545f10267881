from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from srrag.core.schema import UNITS
from srrag.core.step import Place
from srrag.core.units import DOCUMENT_COLUMNS, EVIDENCE_COLUMNS, UNIT_COLUMNS, Units, open_units
from srrag.index.units import BuildUnits
from tests.unit.index.tables import REFUSED, documents, row, uid, write

DOC_A, DOC_B = uid(100), uid(200)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Windows 3, 1 (of document A) and 2 (of B) in two parts; window 4 was rejected."""
    first = write(
        [
            row(UNITS, unit_id=uid(3), doc_id=DOC_A, text="three", section="Methods", grade="A"),
            row(UNITS, unit_id=uid(4), doc_id=DOC_A, text="four", reject=REFUSED),
        ],
        UNITS,
        tmp_path / "w1.parquet",
    )
    second = write(
        [
            row(UNITS, unit_id=uid(1), doc_id=DOC_A, text="one", section="Results", grade="A"),
            row(UNITS, unit_id=uid(2), doc_id=DOC_B, text="two", parent_id="chunk", grade="C"),
        ],
        UNITS,
        tmp_path / "w2.parquet",
    )
    known = documents(
        [
            {"doc_id": DOC_B, "source_id": "b", "title": "Beta", "pmid": "22", "year": 2002},
            {"doc_id": DOC_A, "source_id": "a", "title": "Alpha", "pmid": "11", "year": 2001},
            {"doc_id": uid(300), "source_id": "c", "reject": REFUSED},
        ],
        tmp_path / "d.parquet",
    )
    out = tmp_path / "units"
    out.mkdir()
    inputs = {"windows": [first, second], "documents": [known]}
    assert BuildUnits().build(inputs, out, Place()) == {"windows": 3, "documents": 2}
    return out


def test_windows_come_in_the_order_asked(folder: Path) -> None:
    units = Units(folder)
    assert len(units) == 3
    table = units.take([uid(2), uid(3), uid(1), uid(3)])
    assert table.column_names == list(UNIT_COLUMNS)
    assert table["text"].to_pylist() == ["two", "three", "one", "three"]
    assert units.take([uid(1)], ("section",)).to_pydict() == {"section": ["Results"]}


def test_what_was_rejected_or_never_there_is_named(folder: Path) -> None:
    units = Units(folder)
    with pytest.raises(ValueError, match=uid(4)):
        units.take([uid(1), uid(4)])
    with pytest.raises(ValueError, match=uid(300)):
        units.take_documents([uid(300)])


def test_documents_come_in_the_order_asked(folder: Path) -> None:
    table = Units(folder).take_documents([DOC_A, DOC_B, DOC_A])
    assert table.column_names == [*DOCUMENT_COLUMNS, "section"]
    assert table["title"].to_pylist() == ["Alpha", "Beta", "Alpha"]


def test_evidence_joins_a_window_with_its_document(folder: Path) -> None:
    table = open_units(Place(artifacts={"units": folder})).take_evidence([uid(2), uid(1)])
    assert table.column_names == list(EVIDENCE_COLUMNS)
    assert table.to_pylist()[0] == {
        "unit_id": uid(2), "parent_id": "chunk", "doc_id": DOC_B, "source_id": "b", "pmid": "22",
        "grade": "C", "title": "Beta", "section": "", "year": 2002, "char_start": 0, "char_end": 0,
        "text": "two",
    }  # fmt: skip
    assert table["title"].to_pylist() == ["Beta", "Alpha"]


def test_document_keys(folder: Path) -> None:
    units = Units(folder)
    assert units.document_keys([uid(3), uid(2), uid(1)]).to_pylist() == ["a", "b", "a"]
    assert units.document_keys([uid(2), uid(3)], "year").to_pylist() == [2002, 2001]


def test_nothing_asked_nothing_given(folder: Path) -> None:
    units = Units(folder)
    assert units.take([]).num_rows == 0
    assert units.take_evidence([]).num_rows == 0
    assert units.document_keys([]).to_pylist() == []


def test_no_part_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no part to index"):
        BuildUnits().build({"windows": [], "documents": []}, tmp_path, Place())


def test_documents_of_one_pmid_are_a_study(tmp_path: Path) -> None:
    rows = [row(UNITS, unit_id=uid(n), doc_id=uid(100 + n)) for n in range(4)]
    rows.append(row(UNITS, unit_id=uid(9), doc_id=uid(101)))
    pmids = ("7", "", "7", "")
    known = documents(
        [{"doc_id": uid(100 + n), "source_id": str(n), "pmid": p} for n, p in enumerate(pmids)],
        tmp_path / "d.parquet",
    )
    windows = write(rows, UNITS, tmp_path / "w.parquet")
    BuildUnits().build({"windows": [windows], "documents": [known]}, tmp_path, Place())
    units = Units(tmp_path)
    assert units.window_studies.tolist() == [0, 1, 0, 2, 1]
    members, offsets = units.study_windows
    assert [members[a:b].tolist() for a, b in pairwise(offsets)] == [[0, 2], [1, 4], [3]]
    assert units.ids(units.rows([uid(9), uid(2)])).to_pylist() == [uid(9), uid(2)]
