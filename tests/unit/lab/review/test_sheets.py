"""Filled sheets, read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srrag.lab.review.filled import read_sheets, sheet_files
from srrag.lab.review.forms import LIKERT
from srrag.lab.review.kit import Kit
from tests.unit.lab.review.kits import filled, kit


def items(made: Kit) -> list[str]:
    return [each.item for each in made.items]


def test_items_that_a_rater_left_out_are_missing(tmp_path: Path) -> None:
    made = kit()
    path = filled(tmp_path, made, "Bo", {"Q02": [5, 5, 5, 5, None]})
    found = read_sheets([path], LIKERT, made.sample, items(made))
    assert [each.item for each in found] == ["Q02", "Q01", "Q03"]
    assert sum(value is None for each in found for value in each.values.values()) == 11


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"Q01": [5, 5, 5, 5, 7]}, r"Bo\.json: row 1, column 'picot': 7 is not on the scale of 1"),
        ({"Q01": [0, 5, 5, 5, 5]}, r"row 1, column 'accuracy': 0 is not"),
        ({"Q01": [5] * 5, "Q09": [5] * 5}, r"Bo\.json: row 2, column 'item': 'Q09' is not in"),
        ({"Q01": [None] * 5}, r"Bo\.json: no item is rated"),
        ({}, r"Bo\.json: no item is rated"),
    ],
)  # fmt: skip
def test_a_bad_rating_is_named(tmp_path: Path, values: Any, message: str) -> None:
    made = kit()
    path = filled(tmp_path, made, "Bo", values)
    with pytest.raises(ValueError, match=message):
        read_sheets([path], LIKERT, made.sample, items(made))


@pytest.mark.parametrize("value", ["4.5", 4.5, "five", True, [4], float("nan"), float("inf")])
def test_a_rating_that_is_no_whole_number(tmp_path: Path, value: Any) -> None:
    made = kit()
    path = filled(tmp_path, made, "Bo", {"Q01": [value, 5, 5, 5, 5]})
    with pytest.raises(ValueError, match=r"row 1, column 'accuracy': .* is not a whole number"):
        read_sheets([path], LIKERT, made.sample, items(made))


def test_the_same_rater_twice_on_an_item(tmp_path: Path) -> None:
    made = kit()
    path = filled(tmp_path, made, "Bo", {"Q01": [5] * 5})
    other = filled(tmp_path, made, "bo ", {"Q01": [4] * 5})
    with pytest.raises(ValueError, match=r"bo \.json: row 1, column 'item': .*Bo\.json: row 1"):
        read_sheets([path, other], LIKERT, made.sample, items(made))
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "ratings": content["ratings"] * 2}))
    with pytest.raises(ValueError, match=r"Bo\.json: row 2, column 'item': .*Bo\.json: row 1"):
        read_sheets([path], LIKERT, made.sample, items(made))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sample": "other"}, "a sheet of sample 'other'"), ({"form": "rasrag"}, "form 'rasrag'"),
        ({"rater": " "}, "the rater's name is missing"), ({"kind": "x"}, "not a filled review"),
        ({"layout": 9}, "layout 9"), ({"ratings": [1]}, "'ratings' is not a list"),
    ],
)  # fmt: skip
def test_a_sheet_that_does_not_belong_here(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    made = kit()
    path = filled(tmp_path, made, "Bo", {"Q01": [5] * 5})
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=rf"Bo\.json: {message}"):
        read_sheets([path], LIKERT, made.sample, items(made))


def test_a_file_that_is_no_sheet(tmp_path: Path) -> None:
    for name in ("a.json", "a.txt"):
        (tmp_path / name).write_text("nothing")
        with pytest.raises(ValueError, match=rf"{name}: (not|a filled)"):
            read_sheets([tmp_path / name], LIKERT, "s", ["Q01"])


def test_folders_and_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no"):
        sheet_files([tmp_path])
    for name in ("b.json", "a.json", "c.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in sheet_files([tmp_path])] == ["a.json", "b.json"]
    with pytest.raises(ValueError, match="does not exist"):
        sheet_files([tmp_path / "none"])
