from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from srrag.core.ontology import Ontology
from srrag.core.schema import TRIPLES
from srrag.core.spec import build
from srrag.core.step import Place
from srrag.extract.schema_growth import GrowSchema
from tests.unit.index.tables import row, write

ONTOLOGY = Ontology(
    entities=["Outcome"],
    relations={"reports_outcome": {"head": ["Document"], "tail": ["Outcome"]}},
)


def refused(window: int, reason: str = "unknown_type", **values: Any) -> dict[str, object]:
    defaults = {
        "doc_id": f"d{window // 2}", "unit_id": f"u{window}", "kind": "relation",
        "head_type": "Document", "relation": "uses", "tail_type": "Exercise",
        "quote": f"squats\n{window}", "confidence": 0.9, "char_start": 0, "char_end": 6,
        "reject": {"stage": "extract", "reason": reason, "detail": ""},
    }  # fmt: skip
    return row(TRIPLES, **{**defaults, **values})


def grow(folder: Path, rows: list[dict[str, object]], **settings: Any) -> dict[str, Any]:
    part = write(rows, TRIPLES, folder / "part.parquet")
    (folder / "out").mkdir()
    step = GrowSchema(ontology=ONTOLOGY, **{"min_windows": 3, **settings})
    return dict(step.build({"triples": [part]}, folder / "out", Place()))


def version(path: Path) -> Ontology:
    made = build(yaml.safe_load(path.read_text("utf-8")))
    assert isinstance(made, Ontology)
    return made


def test_accepted_proposals_make_a_new_version_beside_the_old(tmp_path: Path) -> None:
    figures = grow(tmp_path, [refused(n) for n in range(4)])
    assert figures == {"proposed": 2, "accepted": 2, "elements": "Exercise, uses", "version": 2}
    new = version(tmp_path / "out" / "schema-2.yaml")
    assert new.entities == ["Outcome", "Exercise"]
    assert new.relations["uses"] == {"head": ["Document"], "tail": ["Exercise"]}
    report = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert "## entity Exercise: accepted" in report
    assert "4 windows of 2 documents" in report
    assert "    squats 0  [d0 u0]" in report


def test_without_an_accepted_proposal_there_is_no_new_version(tmp_path: Path) -> None:
    figures = grow(tmp_path, [refused(n, confidence=0.7) for n in range(4)], number=3)
    assert (figures["accepted"], figures["version"]) == (0, 3)
    assert [path.name for path in sorted((tmp_path / "out").glob("schema-*"))] == []
    report = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert "## entity Exercise: below_threshold" in report


@pytest.mark.parametrize(
    "fault",
    [
        {"char_end": 0},
        {"reason": "ungrounded"},
        {"reason": "type_mismatch"},
        {"reject": None},
    ],
)
def test_only_grounded_facts_refused_for_want_of_a_type_count(
    tmp_path: Path, fault: dict[str, Any]
) -> None:
    assert grow(tmp_path, [refused(n, **fault) for n in range(4)])["proposed"] == 0


@pytest.mark.parametrize(
    ("row", "title"),
    [
        (
            {"kind": "entity", "head_type": "Biomarker", "relation": "", "tail_type": ""},
            "entity Biomarker",
        ),
        (
            {
                "reason": "unknown_attribute",
                "kind": "attribute",
                "head_type": "Outcome",
                "relation": "has_attribute",
                "tail_type": "unit of measure",
            },
            "attribute unit_of_measure of Outcome",
        ),
    ],
)
def test_a_type_alone_and_an_attribute_are_voted_for_too(
    tmp_path: Path, row: dict[str, Any], title: str
) -> None:
    assert grow(tmp_path, [refused(n, **row) for n in range(4)])["accepted"] == 1
    report = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert f"## {title}: accepted" in report


def test_neither_order_nor_parts_matter(tmp_path: Path) -> None:
    rows = [refused(n, confidence=n / 10, reason="proposed") for n in range(10)]
    for name, chosen in (("one", rows), ("two", rows[::-1])):
        (tmp_path / name).mkdir()
        grow(tmp_path / name, chosen, threshold=0.4)
    for path in sorted((tmp_path / "one" / "out").iterdir()):
        assert path.read_bytes() == (tmp_path / "two" / "out" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"threshold": 1.1}, "threshold must lie"), ({"min_windows": 0}, "min_windows must be")],
)
def test_wrong_thresholds_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        GrowSchema(ontology=ONTOLOGY, **settings)
