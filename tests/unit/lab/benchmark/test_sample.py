from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.core.units import Units
from srrag.lab.benchmark.relations import SEEDS
from srrag.lab.benchmark.sample import SampleSeeds, allocate, level
from srrag.storage.store import Store


def test_shares_are_equal_and_small_groups_are_filled_up() -> None:
    assert level([10, 2, 10], 12) == [5, 2, 5]
    assert level([10, 10, 10], 11) == [4, 4, 3]
    assert level([1, 1], 9) == [1, 1]
    assert level([], 3) == []


def test_what_a_condition_lacks_goes_to_the_others_of_its_grade() -> None:
    sizes = {("A", "AT"): 1, ("A", "LBP"): 9, ("B", "AT"): 9}
    assert allocate(sizes, 10) == {("A", "AT"): 1, ("A", "LBP"): 4, ("B", "AT"): 5}
    assert allocate({(): 9}, 4) == {(): 4}


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(0, 60))
def test_shares_never_exceed_what_there_is_and_use_all_of_it(sizes: list[int], total: int) -> None:
    shares = level(sizes, total)
    assert sum(shares) == min(total, sum(sizes))
    assert all(share <= size for share, size in zip(shares, sizes, strict=True))
    unfilled = [share for share, size in zip(shares, sizes, strict=True) if share < size]
    assert max(unfilled, default=0) - min(unfilled, default=0) <= 1


def test_the_sample_corpus_is_drawn_by_grade_and_condition(sample_root: Path) -> None:
    units = Units(Store(sample_root).artifacts("default")["units"])
    table = SampleSeeds(windows=55).draw(units)
    assert table.schema.equals(SEEDS)
    assert Counter(table["grade"].to_pylist()) == dict.fromkeys("ABCDE", 11)
    rows = table.to_pylist()
    by_cell = Counter((row["grade"], row["condition"]) for row in rows)
    assert max(by_cell.values()) <= 2, "as many of each condition as there are to have"
    assert table.equals(SampleSeeds(windows=55).draw(units))
    other = SampleSeeds(windows=55, seed=1).draw(units)
    assert {row["unit_id"] for row in rows} != set(other["unit_id"].to_pylist())


def test_a_document_gives_no_more_than_it_may(sample_root: Path) -> None:
    units = Units(Store(sample_root).artifacts("default")["units"])
    table = SampleSeeds(windows=1000, per_document=1, strata=()).draw(units)
    assert set(Counter(table["doc_id"].to_pylist()).values()) == {1}
    assert table.num_rows == units.documents.num_rows
    assert SampleSeeds(windows=1000, per_document=None).draw(units).num_rows == len(units)


@pytest.mark.parametrize(
    ("values", "named"),
    [({"windows": 0}, "windows=0"), ({"strata": ("year",)}, "year"), ({"per_document": 0}, "per_")],
)
def test_a_sample_that_cannot_be_drawn_is_refused(values: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        SampleSeeds(**values)  # type: ignore[arg-type]
