"""Cells that span stand in each row and column that they cover."""

from srrag.corpus.inline_xml import MAX_COLUMNS, grid, markdown, span_of
from srrag.corpus.inline_xml import TableCell as Cell


def test_a_dose_for_two_forms_stands_beside_both() -> None:
    rows = [
        [Cell("Form"), Cell("Dose"), Cell("Peak")],
        [Cell("Tablet"), Cell("5", rows=2), Cell("40")],
        [Cell("Capsule"), Cell("90")],
    ]
    assert grid(rows, "")[2] == ["Capsule", "5", "90"]


def test_a_heading_over_two_columns_is_repeated_and_a_bar_does_not_end_a_cell() -> None:
    rows = [
        [Cell(""), Cell("Drug | Q", columns=2)],
        [Cell("n"), Cell("7"), Cell("0")],
    ]
    assert list(markdown(rows)) == [
        "|  | Drug / Q | Drug / Q |",
        "| --- | --- | --- |",
        "| n | 7 | 0 |",
    ]


def test_a_short_row_beneath_a_span_leaves_its_place_empty() -> None:
    rows = [[Cell("a"), Cell("b"), Cell("c", rows=2)], [Cell("d")]]
    assert grid(rows, "") == [["a", "b", "c"], ["d", "", "c"]]


def test_spans_that_make_no_sense_are_one_and_none_is_wider_than_the_bound() -> None:
    assert [span_of(told) for told in (None, "0", "-3", "x", "2", "9" * 12)] == [1, 1, 1, 1, 2, 1]
    assert len(grid([[Cell("a", columns=span_of("5000"))]], "")[0]) == MAX_COLUMNS
