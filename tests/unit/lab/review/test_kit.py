"""Filled sheets, read back."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import html

from srrag.lab.review.figures import DIMENSIONS
from srrag.lab.review.kit import (
    Kit,
    draw,
    make_kit,
    paragraphs,
    passage,
    read_sheets,
    render,
    sheet_files,
)
from tests.unit.lab.review.kits import NASTY, filled, gold, kit, rows


def test_a_draw_is_balanced_and_seeded() -> None:
    """Of 60, 30 and 10 questions, 20 are 12, 6 and 2."""
    strata = {f"q{n}": "a" if n < 60 else "b" if n < 90 else "c" for n in range(100)}
    drawn = draw(strata, 20, np.random.default_rng(1))
    assert Counter(strata[name] for name in drawn) == {"a": 12, "b": 6, "c": 2}
    assert drawn == draw(strata, 20, np.random.default_rng(1))
    assert drawn != draw(strata, 20, np.random.default_rng(2))


def test_places_left_over_go_to_the_largest_remainders() -> None:
    """Of 5, 3 and 2 questions, 4 would be 2, 1.2 and 0.8."""
    strata = {f"q{n}": "a" if n < 5 else "b" if n < 8 else "c" for n in range(10)}
    drawn = draw(strata, 4, np.random.default_rng(0))
    assert Counter(strata[name] for name in drawn) == {"a": 2, "b": 1, "c": 1}


def test_more_questions_than_there_are() -> None:
    with pytest.raises(ValueError, match="questions=7: only 6"):
        kit(questions=7)
    with pytest.raises(ValueError, match="questions=0"):
        kit(questions=0)


def test_only_questions_that_every_system_answered() -> None:
    lost, reject = rows("two"), {"stage": "answer", "reason": "timeout", "detail": ""}
    lost[0]["reject"], lost[1]["answer"] = reject, " "
    made = make_kit({"one": rows("one"), "two": lost[:5]}, gold(), questions=3)
    assert {each.query_id for each in made.items} == {"q2", "q3", "q4"}


def test_systems_are_hidden_and_the_key_resolves_them() -> None:
    made = kit("one", "two", questions=6)
    key = made.key()["items"]
    assert all(key[each.item]["system"] == each.answer.split()[0] for each in made.items)
    first = [each.system for each in made.items if each.item.endswith("-A")]
    assert set(first) == {"one", "two"}, "the order is drawn anew for every question"


def test_evidence_is_what_is_cited_or_all() -> None:
    item = kit().items[0]
    assert [(piece["number"], piece["cited"]) for piece in item.evidence] == [(2, True)]
    assert item.hidden == 2
    everything = make_kit({"one": rows("one")}, [], questions=1, shown="all")
    assert [piece["cited"] for piece in everything.items[0].evidence] == [False, True, False]


def test_another_sample_has_another_name() -> None:
    assert kit().sample == kit().sample
    assert kit().sample != kit(seed=1).sample


def test_strata_that_nobody_knows() -> None:
    with pytest.raises(ValueError, match="strata=colour: neither"):
        make_kit({"one": rows("one")}, gold(), questions=2, strata="colour")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("## Results\nIt helped.", "It helped."),
        ("#1 of all\nIt helped.", "#1 of all\nIt helped."),
        ("It helped.\n\n### Harms\nNone.", "It helped.\n\nHarms\nNone."),
        ("*Made up.* So **bold**, __so__ (*here*) and `a`.", "Made up. So bold, so (here) and a."),
        ("5*3*2 and 2 * 3 * 4; *p < .05, a_b__c.", "5*3*2 and 2 * 3 * 4; *p < .05, a_b__c."),
        ("* one\n* two", "* one\n* two"),
    ],
)  # fmt: skip
def test_marks_of_markdown_are_not_shown(text: str, shown: str) -> None:
    assert passage({"text": text}) == shown


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
