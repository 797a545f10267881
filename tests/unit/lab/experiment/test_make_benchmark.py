from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from srrag.core.spec import question_id
from srrag.core.standing import Standings
from srrag.core.units import Units
from srrag.lab.experiment.make_benchmark import Dropped, marks_of, note_unfit
from srrag.storage.store import Store


def test_windows_of_an_unfit_paper_are_dropped_with_its_standing(sample_root: Path) -> None:
    """So a decision on a question of one is told why the question is gone."""
    units = Units(Store(sample_root).artifacts("default")["units"])
    unit_id, doc_id = (units.units[name][0].as_py() for name in ("unit_id", "doc_id"))
    held = units.units["doc_id"].to_pylist().count(doc_id)
    note_unfit(units, {doc_id: "retracted"}, dropped := Dropped())
    assert dropped.counts() == {"sample": {"retracted": held}}
    assert question_id(unit_id) in {row["row_id"] for row in dropped.rows}
    assert {row["source"] for row in dropped.rows} == {units.document_keys([unit_id])[0].as_py()}
    note_unfit(units, {}, empty := Dropped())
    assert not empty.rows


def test_what_is_left_is_marked_in_words() -> None:
    (standings := Standings(None)).known = True
    said = {"a": "corrected", "b": "retracted"}
    columns = {"doc_id": [*said], "source_id": [*said], "standing": [*said.values()]}
    standings.table = pa.table({**columns, "link": ["pmid:7", ""]})
    assert marks_of(standings) == {"a": "corrected after publication (PMID 7)"}
    assert marks_of(Standings(None)) == {}
