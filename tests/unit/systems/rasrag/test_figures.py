from __future__ import annotations

import pyarrow as pa
import pytest

from srrag.core.schema import EVIDENCE, UNITS, empty_value
from srrag.core.step import Place
from srrag.model.encoder import Encoder
from srrag.systems.rasrag.figures import FindFigures, named
from srrag.systems.rasrag.textbook_tree import BuildTextbookTree
from tests.unit.index.forests import DIMENSION, unit
from tests.unit.index.tables import documents, hashed, row, vectors, write

TEXT = """See Figure 2.1 and Figure 2.10.

Figure 2.1. The path of pain. [path.jpg]

Figure 2.10. Rest

Figure 2.1. Another caption of the same number."""


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("figures")
    place = '{"book": "B", "chapter": "2", "chapter_title": "Pain"}'
    paper = {"doc_id": hashed("d"), "source_id": "s", "title": "T", "metadata": place}
    big = row(UNITS, unit_id=hashed("b"), doc_id=hashed("d"), text=TEXT)
    small = row(UNITS, unit_id=hashed("u"), doc_id=hashed("d"), parent_id=hashed("b"))
    made = {
        "documents": [documents([paper], folder / "d.parquet")],
        "chunks": [write([big], UNITS, folder / "c.parquet")],
        "windows": [write([small], UNITS, folder / "w.parquet")],
        "vectors": [vectors([hashed("u")], unit([1.0])[None, :DIMENSION], folder / "v.parquet")],
    }
    (folder / "forest").mkdir()
    figures = BuildTextbookTree(encoder=Encoder()).build(made, folder / "forest", Place())
    assert figures["figures"] == 2
    return Place(artifacts={"forest": folder / "forest"})


def found(at: Place, *texts: str, doc: str = "d") -> list[list[tuple[str, str, str, str]]]:
    blank = {field.name: empty_value(field.type) for field in EVIDENCE.value_type}
    items = [
        {**blank, "evidence_id": f"e{n}", "doc_id": hashed(doc), "text": text}
        for n, text in enumerate(texts)
    ]
    table = pa.table({"evidence": pa.array([items], EVIDENCE)})
    rows = FindFigures().open(at)(table)["figures"].to_pylist()
    return [[tuple(each.values()) for each in row] for row in rows]


def test_a_passage_gets_the_figures_that_it_names(at: Place) -> None:
    assert found(at, "As in Figure 2.10 (and Fig. 2-1), Figure 2.10.", "No one.") == [
        [
            ("e0", "Figure 2.10", "Rest", ""),
            ("e0", "Figure 2.1", "The path of pain.", "path.jpg"),
        ]
    ]


def test_unknown_figures_and_books_give_nothing(at: Place) -> None:
    assert found(at, "Figure 3.1") == [[]]
    assert found(at, "Figure 2.1", doc="elsewhere") == [[]]


def test_names_are_read_whole() -> None:
    assert named("Figure 12.3a, Figures, configure 1.2, Figure 1.2.") == ["12.3", "1.2"]
