"""Filled sheets, read back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from lxml import html

from srrag.lab.review.figures import DIMENSIONS
from srrag.lab.review.kit import Kit, make_kit, paragraphs, read_sheets, render, sheet_files
from tests.unit.lab.review.kits import NASTY, filled, gold, kit, rows


def items(made: Kit) -> list[str]:
    return [each.item for each in made.items]


def test_items_that_a_rater_left_out_are_missing(tmp_path: Path) -> None:
    made = kit()
    path = filled(tmp_path, made, "Bo", {"Q02": [5, 5, 5, 5, None]})
    found = read_sheets([path], made.sample, items(made))
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
        read_sheets([path], made.sample, items(made))


@pytest.mark.parametrize("value", ["4.5", 4.5, "five", True, [4], float("nan"), float("inf")])
def test_a_rating_that_is_no_whole_number(tmp_path: Path, value: Any) -> None:
    made = kit()
    path = filled(tmp_path, made, "Bo", {"Q01": [value, 5, 5, 5, 5]})
    with pytest.raises(ValueError, match=r"row 1, column 'accuracy': .* is not a whole number"):
        read_sheets([path], made.sample, items(made))


def test_the_same_rater_twice_on_an_item(tmp_path: Path) -> None:
    made = kit()
    path = filled(tmp_path, made, "Bo", {"Q01": [5] * 5})
    other = filled(tmp_path, made, "bo ", {"Q01": [4] * 5})
    with pytest.raises(ValueError, match=r"bo \.json: row 1, column 'item': .*Bo\.json: row 1"):
        read_sheets([path, other], made.sample, items(made))
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "ratings": content["ratings"] * 2}))
    with pytest.raises(ValueError, match=r"Bo\.json: row 2, column 'item': .*Bo\.json: row 1"):
        read_sheets([path], made.sample, items(made))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sample": "other"}, "a sheet of sample 'other'"),
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
        read_sheets([path], made.sample, items(made))


def test_a_file_that_is_no_sheet(tmp_path: Path) -> None:
    for name in ("a.json", "a.txt"):
        (tmp_path / name).write_text("nothing")
        with pytest.raises(ValueError, match=rf"{name}: (not|a filled)"):
            read_sheets([tmp_path / name], "s", ["Q01"])


def test_folders_and_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no"):
        sheet_files([tmp_path])
    for name in ("b.json", "a.json", "c.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in sheet_files([tmp_path])] == ["a.json", "b.json"]
    with pytest.raises(ValueError, match="does not exist"):
        sheet_files([tmp_path / "none"])


def test_the_page_holds_every_answer_and_scale_with_its_anchors() -> None:
    made = kit("one", "two")
    page = html.fromstring(render(made))
    items = page.xpath("//article/@data-item")
    assert items == [each.item for each in made.items]
    assert len(page.xpath("//input[@type='radio']")) == len(items) * 5 * 5
    text = page.text_content()
    assert all(anchor in text for each in DIMENSIONS for anchor in each.levels.values())
    assert "PMID 10002" in text
    assert "Grade B" in text


def test_texts_of_documents_are_no_markup() -> None:
    made = kit()
    page = html.fromstring(render(made))
    assert not page.xpath("//img")
    assert len(page.xpath("//script")) == 1
    assert NASTY in page.text_content()


def test_no_field_of_an_answer_or_a_reference_is_markup() -> None:
    told = rows("one", 3)
    for row in told:
        row["text"] += NASTY
        for item in row["evidence"]:
            item |= {name: f"{item[name]} {NASTY}" for name in ("title", "source_id", "section")}
            item |= {"pmid": f"javascript:alert(1) {NASTY}", "grade": NASTY, "doc_id": NASTY}
    references = [row | {"ideal_answer": NASTY, "strata": {"condition": NASTY}} for row in gold(3)]
    made = make_kit({NASTY: told}, references, questions=3, strata="condition")
    page = html.fromstring(render(made))
    assert not page.xpath("//img") and len(page.xpath("//script")) == 1
    assert not [link for link in page.xpath("//@href") if not link.startswith("#")]
    assert page.text_content().count(NASTY) > 12


def test_the_page_names_no_system_and_no_address() -> None:
    made = kit("hybrid-of-ours", "bm25-of-theirs")
    text = render(made)
    # The made-up answers say who they are by; nothing else may.
    hidden = re.sub(r"(hybrid-of-ours|bm25-of-theirs) says", "", text)
    assert "of-ours" not in hidden
    assert "of-theirs" not in hidden
    assert "://" not in text
    assert "default-src &#39;none&#39;" in text


def test_citations_lead_to_evidence_that_is_shown() -> None:
    item = kit().items[0]
    first = paragraphs(item)[0]
    assert [(piece.text, piece.number) for piece in first][-2:] == [("[2]", 2), ("", None)]
    page = html.fromstring(render(kit()))
    ids = set(page.xpath("//@id"))
    links = page.xpath("//article//a/@href")
    assert links
    assert {link.removeprefix("#") for link in links} <= ids
