"""Both kinds of sheets, filled and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

from srrag.lab.review.filled import read_sheets, sheet_files
from srrag.lab.review.forms import LIKERT, RASRAG, Form
from srrag.lab.review.kit import Kit
from srrag.lab.review.workbook import write_workbook
from tests.unit.lab.review.kits import filled, kit


def items(made: Kit) -> list[str]:
    return [each.item for each in made.items]


def workbook(path: Path, made: Kit, rater: str, changes: dict[str, Any], form: Form) -> Path:
    write_workbook(made, form, path)
    book = load_workbook(path)
    book["Start"]["B1"] = rater
    for cell, value in changes.items():
        book["Ratings"][cell] = value
    book.save(path)
    return path


def test_a_spreadsheet_is_read_back_with_what_is_missing(tmp_path: Path) -> None:
    made = kit()
    changes = {"E2": 5, "F2": "4", "G2": 3.0, "J2": "good", "E3": 1}
    path = workbook(tmp_path / "a.xlsx", made, " Ann ", changes, LIKERT)
    first, second, third = read_sheets([path], LIKERT, made.sample, items(made))
    assert list(first.values.values()) == [5, 4, 3, None, None]
    assert (first.rater, first.item, first.comment) == ("Ann", "Q01", "good")
    assert list(second.values.values()) == [1, None, None, None, None]
    assert set(third.values.values()) == {None}


def test_cells_take_the_values_of_their_scale(tmp_path: Path) -> None:
    write_workbook(kit(), LIKERT, tmp_path / "a.xlsx")
    sheet = load_workbook(tmp_path / "a.xlsx")["Ratings"]
    rules = {str(rule.sqref): rule for rule in sheet.data_validations.dataValidation}
    assert set(rules) == {f"{column}2:{column}4" for column in "EFGHI"}
    assert (rules["E2:E4"].formula1, rules["E2:E4"].formula2) == ("1", "5")
    assert sheet["C2"].data_type == "s"
    assert sheet["C2"].value.startswith("=Reference"), "no formula, no control character"
    assert sheet.protection.sheet
    assert sheet["A2"].protection.locked
    assert not sheet["E2"].protection.locked


def test_evidence_in_a_spreadsheet_has_no_marks_of_markdown(tmp_path: Path) -> None:
    write_workbook(kit(), LIKERT, tmp_path / "a.xlsx")
    texts = [row[-1] for row in load_workbook(tmp_path / "a.xlsx")["Evidence"].values]
    assert texts[0] == "text"
    assert texts[1].startswith("Text 2 ")


def test_points_of_the_other_form_are_limited_by_a_formula(tmp_path: Path) -> None:
    write_workbook(kit(form="rasrag"), RASRAG, tmp_path / "a.xlsx")
    rules = load_workbook(tmp_path / "a.xlsx")["Ratings"].data_validations.dataValidation
    formulas = {str(rule.sqref): rule.formula1 for rule in rules}
    assert "AND($E2=6,F2>=1,F2<=2)" in formulas["F2:F4"]
    assert "AND($E2=0,G2>=0,G2<=0)" in formulas["G2:G4"]
    assert all(len(formula) <= 255 for formula in formulas.values()), "Excel takes no longer one"


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


def test_a_bad_cell_of_a_spreadsheet_is_named(tmp_path: Path) -> None:
    made = kit()
    path = workbook(tmp_path / "a.xlsx", made, "Ann", {"F3": 6}, LIKERT)
    with pytest.raises(ValueError, match=r"a\.xlsx: row 3, column 'faithfulness': 6 is not"):
        read_sheets([path], LIKERT, made.sample, items(made))


def test_the_same_rater_twice_on_an_item(tmp_path: Path) -> None:
    made = kit()
    path = filled(tmp_path, made, "Bo", {"Q01": [5] * 5})
    other = workbook(tmp_path / "a.xlsx", made, "bo ", {"E2": 4}, LIKERT)
    with pytest.raises(ValueError, match=r"a\.xlsx: row 2, column 'item': .*Bo\.json: row 1"):
        read_sheets([path, other], LIKERT, made.sample, items(made))
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "ratings": content["ratings"] * 2}))
    with pytest.raises(ValueError, match=r"Bo\.json: row 2, column 'item': .*Bo\.json: row 1"):
        read_sheets([path], LIKERT, made.sample, items(made))
    with pytest.raises(ValueError, match=r"a\.xlsx: row 2, .* already in .*a\.xlsx: row 2"):
        read_sheets([other, other], LIKERT, made.sample, items(made))


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
    for name in ("a.xlsx", "a.json", "a.txt"):
        (tmp_path / name).write_text("nothing")
        with pytest.raises(ValueError, match=rf"{name}: (not|a filled)"):
            read_sheets([tmp_path / name], LIKERT, "s", ["Q01"])


def test_folders_and_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no"):
        sheet_files([tmp_path])
    for name in ("b.json", "a.xlsx", "~$a.xlsx", "c.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in sheet_files([tmp_path])] == ["a.xlsx", "b.json"]
    with pytest.raises(ValueError, match="does not exist"):
        sheet_files([tmp_path / "none"])
