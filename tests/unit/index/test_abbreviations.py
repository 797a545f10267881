from __future__ import annotations

from pathlib import Path

import pytest

from srrag.core.schema import DOCUMENTS
from srrag.core.step import Place
from srrag.index.abbreviations import BuildAbbreviations, most_common
from srrag.reading.concepts import read_abbreviations
from tests.unit.index.tables import hashed, row, write

TEXTS = [
    "Amyotrophic lateral sclerosis (ALS) is rare. Anterolateral system (ALS) is a tract.",
    "In amyotrophic lateral sclerosis (ALS) they die.",
    "In amyotrophic lateral sclerosis (ALS) they die early.",
    "Nothing is defined here (n = 12).",
]


def test_the_long_form_of_most_documents(tmp_path: Path) -> None:
    rows = [row(DOCUMENTS, doc_id=hashed(n), text=text) for n, text in enumerate(TEXTS)]
    (tmp_path / "out").mkdir()
    parts = [write(rows, DOCUMENTS, tmp_path / "p.parquet")]
    figures = BuildAbbreviations().build({"documents": parts}, tmp_path / "out", Place())
    assert figures == {"abbreviations": 1, "definitions": 4}
    assert read_abbreviations(tmp_path / "out") == {"ALS": "amyotrophic lateral sclerosis"}


def test_ties_go_by_name() -> None:
    assert most_common({("AB", "b long"): 1, ("AB", "a long"): 1}) == {"AB": "a long"}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "abbreviations.json").write_text("{")
    with pytest.raises(ValueError, match=r"abbreviations\.json"):
        read_abbreviations(tmp_path)
