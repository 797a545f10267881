from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.storage.mapped_table import Lookup, id_keys, write_lookup
from tests.unit.index.tables import hashed, uid


def test_finds_rows_in_the_order_asked(tmp_path: Path) -> None:
    ids = [uid(9), uid(2), uid(5)]
    write_lookup(ids, tmp_path, "units")
    lookup = Lookup(tmp_path, "units")
    assert lookup.find([uid(5), uid(9), uid(5), uid(2)]).tolist() == [2, 0, 2, 1]
    assert lookup.find([]).tolist() == []


@pytest.mark.parametrize("absent", [uid(0), uid(3), uid(2**63)])
def test_an_unknown_id_is_named(tmp_path: Path, absent: str) -> None:
    """Below, between and above the ids that are there."""
    write_lookup([uid(2), uid(9)], tmp_path, "units")
    with pytest.raises(ValueError, match=f"{absent} is not in this index"):
        Lookup(tmp_path, "units").find([uid(2), absent])


def test_the_same_id_twice_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{uid(7)} occurs twice"):
        write_lookup([uid(7), uid(1), uid(7)], tmp_path, "units")


def test_an_empty_lookup_knows_no_id(tmp_path: Path) -> None:
    write_lookup([], tmp_path, "units")
    lookup = Lookup(tmp_path, "units")
    assert lookup.find([]).tolist() == []
    with pytest.raises(ValueError, match=f"{uid(1)} is not in this index"):
        lookup.find([uid(1)])


def test_keys_are_the_first_64_bits() -> None:
    assert id_keys(["00000000000000ff" + "f" * 16, "f" * 32]).tolist() == [255, 2**64 - 1]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 10**6), unique=True, max_size=40), st.randoms())
def test_every_row_is_found(numbers: list[int], random: object) -> None:
    ids = [hashed(number) for number in numbers]
    with tempfile.TemporaryDirectory() as folder:
        write_lookup(ids, Path(folder), "x")
        lookup = Lookup(Path(folder), "x")
        order = list(range(len(ids)))
        random.shuffle(order)  # type: ignore[attr-defined]
        assert lookup.find([ids[row] for row in order]).tolist() == order
