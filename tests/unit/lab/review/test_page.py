from __future__ import annotations

import re

from lxml import html

from srrag.lab.review.filled import paragraphs, render
from srrag.lab.review.forms import LIKERT, RASRAG
from srrag.lab.review.kit import make_kit
from tests.unit.lab.review.kits import NASTY, gold, kit, rows


def test_the_page_holds_every_answer_and_scale_with_its_anchors() -> None:
    made = kit("one", "two")
    page = html.fromstring(render(made, LIKERT))
    items = page.xpath("//article/@data-item")
    assert items == [each.item for each in made.items]
    assert len(page.xpath("//input[@type='radio']")) == len(items) * 5 * 5
    text = page.text_content()
    assert all(anchor in text for each in LIKERT.dimensions for anchor in each.levels.values())
    assert "PMID 10002" in text
    assert "Grade B" in text


def test_texts_of_documents_are_no_markup() -> None:
    made = kit()
    page = html.fromstring(render(made, LIKERT))
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
    made = make_kit({NASTY: told}, references, form="likert", questions=3, strata="condition")
    page = html.fromstring(render(made, LIKERT))
    assert not page.xpath("//img") and len(page.xpath("//script")) == 1
    assert not [link for link in page.xpath("//@href") if not link.startswith("#")]
    assert page.text_content().count(NASTY) > 12


def test_the_page_names_no_system_and_no_address() -> None:
    made = kit("hybrid-of-ours", "bm25-of-theirs")
    text = render(made, LIKERT)
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
    page = html.fromstring(render(kit(), LIKERT))
    ids = set(page.xpath("//@id"))
    links = page.xpath("//article//a/@href")
    assert links
    assert {link.removeprefix("#") for link in links} <= ids


def test_the_other_form_limits_points_by_the_first() -> None:
    page = html.fromstring(render(kit(form="rasrag"), RASRAG))
    assert '"given_first": {"0": [0]' in page.xpath("//body/@data-rules")[0]
    assert len(page.xpath("//output")) == 3
