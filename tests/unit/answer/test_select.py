from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from srrag.answer.select import SelectEvidence, select
from srrag.ids import content_id
from srrag.index.units import EVIDENCE_COLUMNS
from srrag.schema import EVIDENCE, HITS
from srrag.step import Place


class ThreeChunks:
    """Windows w0, w1, … of which each four belong to one chunk."""

    def take(self, unit_ids: Sequence[str], columns: Sequence[str]) -> pa.Table:
        return self.take_evidence(unit_ids).select(list(columns))

    def take_evidence(self, unit_ids: Sequence[str]) -> pa.Table:
        numbers = [int(unit_id[1:]) for unit_id in unit_ids]
        text = {name: [f"{name} {n}" for n in numbers] for name in EVIDENCE_COLUMNS}
        columns = text | {
            "unit_id": unit_ids,
            "parent_id": [f"c{n // 4}" for n in numbers],
            "year": [2000 + n for n in numbers],
        }
        types = {name: pa.int32() if name == "year" else pa.string() for name in columns}
        return pa.table({name: pa.array(columns[name], types[name]) for name in EVIDENCE_COLUMNS})


def questions(*rankings: list[int]) -> pa.Table:
    hits = [
        [{"unit_id": f"w{n}", "score": -float(i), "rank": i + 1} for i, n in enumerate(ranking)]
        for ranking in rankings
    ]
    return pa.table({"text": [""] * len(hits), "hits": pa.array(hits, HITS)})


def chosen(step: SelectEvidence, *rankings: list[int]) -> list[list[str]]:
    table = step.bind(ThreeChunks())(questions(*rankings))
    return [[item["unit_id"] for item in row] for row in table["evidence"].to_pylist()]


def test_few_windows_of_a_chunk_and_never_more_than_found() -> None:
    step = SelectEvidence(k=4, max_per_chunk=3)
    assert chosen(step, [3, 2, 1, 0, 4, 8, 9], [], [7]) == [["w3", "w2", "w1", "w4"], [], ["w7"]]


def test_defaults_are_those_of_table_s3() -> None:
    assert (SelectEvidence().k, SelectEvidence().max_per_chunk) == (12, 3)
    assert [len(row) for row in chosen(SelectEvidence(), list(range(40)))] == [12]


def test_select_goes_by_rank_within_a_question() -> None:
    rows, ranks = np.array([1, 0, 0, 1, 0]), np.array([1, 3, 1, 2, 2])
    kept = select(rows, ranks, np.zeros(5, np.int64), k=2, max_per_chunk=9)
    assert kept.tolist() == [2, 4, 0, 3]


def test_evidence_carries_what_the_index_says() -> None:
    table = SelectEvidence().bind(ThreeChunks())(questions([5]))
    assert table.schema.field("evidence").type == EVIDENCE
    (item,) = table["evidence"].to_pylist()[0]
    assert item["evidence_id"] == content_id("window", "w5")
    assert (item["unit_id"], item["grade"], item["year"]) == ("w5", "grade 5", 2005)


def test_batches_slices_and_empty_tables() -> None:
    run = SelectEvidence(k=2).bind(ThreeChunks())
    both = questions([1, 2, 3], [], [9, 4])
    halves = pa.concat_tables([run(both.slice(0, 1)), run(both.slice(1))])
    assert run(both).equals(halves)
    assert run(both.slice(0, 0)).schema == run(both).schema
    assert run(run(both)).equals(run(both))


def test_place_without_windows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"stage .units. is not built"):
        SelectEvidence().open(Place())
    with pytest.raises(ValueError, match="at least 1"):
        SelectEvidence(k=0)
