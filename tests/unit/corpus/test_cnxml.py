from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from srrag.corpus.parse import parse_documents
from srrag.corpus.read_cnxml import ReadCnxml
from srrag.corpus.record import raw_table

COLLECTION = """<col:collection xmlns:col="http://cnx.rice.edu/collxml"
 xmlns:md="http://cnx.rice.edu/mdml"><col:metadata><md:title>A Book</md:title></col:metadata>
<col:content><col:module document="m0"/><col:subcollection><md:title>Unit</md:title><col:content>
<col:subcollection><md:title>Pain</md:title><col:content><col:module document="m1"/>
<col:module document="m2"/></col:content></col:subcollection>
<col:subcollection><md:title>Rest</md:title><col:content><col:module document="m3"/>
<col:module document="m9"/></col:content></col:subcollection>
</col:content></col:subcollection></col:content></col:collection>"""
HEAD = '<document xmlns="http://cnx.rice.edu/cnxml"{}><title>{}</title><content>{}</content>'
INTRO = (
    '<figure id="f0"><media><image src="../../media/one.jpg"/></media></figure><para>Hello.</para>'
)
SECTION = """<section class="learning-objectives"><title>Learning Outcomes</title>
<list><item>Define pain.</item></list></section>
<section id="s"><title>Kinds</title><para>Pain is <term>nociceptive</term> (see
<link target-id="f1"/>) or <link document="m3">other</link>.</para>
<list><item>acute<list><item>sharp</item></list></item><item>chronic</item></list>
<figure id="f1"><media alt="x"><image src="../../media/two.jpg"/></media><caption>Paths.</caption>
</figure><note class="tip"><title>Clinical Tip</title><para>Ask.</para></note>
<table id="t1"><tgroup><thead><row><entry>Drug</entry><entry>Dose</entry></row></thead>
<tbody><row><entry>A<newline/>(B)</entry><entry>1|2</entry></row></tbody></tgroup>
<caption>Doses</caption></table></section>
<section class="review"><para>What is pain?</para></section>"""
GLOSSARY = (
    "<glossary><definition><term>pain</term><meaning>what hurts</meaning></definition></glossary>"
)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    (tmp_path / "collections").mkdir()
    path = tmp_path / "collections" / "pain.collection.xml"
    path.write_text(COLLECTION, "utf-8")
    modules = {
        "m1": HEAD.format(' class="introduction"', "Introduction", INTRO) + "</document>",
        "m2": HEAD.format("", "What hurts", SECTION) + GLOSSARY + "</document>",
        "m3": "<document>",
    }
    for name, text in modules.items():
        (tmp_path / "modules" / name).mkdir(parents=True)
        (tmp_path / "modules" / name / "index.cnxml").write_text(text, "utf-8")
    return path


def read(path: Path, **options: object) -> pa.Table:
    return parse_documents(raw_table(list(ReadCnxml(path=str(path), **options).scan())))  # type: ignore[arg-type]


def test_modules_are_documents_with_their_place_in_the_book(book: Path) -> None:
    rows = read(book).to_pylist()
    assert [row["source_id"] for row in rows[:2]] == ["pain-01-00", "pain-01-01"]
    assert [row["title"] for row in rows[:2]] == ["1 Pain: Introduction", "1.1 What hurts"]
    told = json.loads(rows[1]["metadata"])
    assert (told["book"], told["chapter"], told["chapter_title"]) == ("A Book", "1", "Pain")
    assert [json.loads(row["metadata"])["order"] for row in rows[:2]] == ["0", "1"]


def test_headings_lists_figures_and_tables(book: Path) -> None:
    text = read(book)["text"][1].as_py()
    assert text.split("\n\n") == [
        "## Kinds",
        "Pain is nociceptive (see Figure 1.2) or other.",
        "- acute\n  - sharp\n- chronic",
        "Figure 1.2. Paths. [two.jpg]",
        "### Clinical Tip",
        "Ask.",
        "Table 1.1. Doses",
        "| Drug | Dose |\n| --- | --- |\n| A (B) | 1/2 |",
    ]


def test_questions_outcomes_and_glossaries_are_left_out(book: Path) -> None:
    text = " ".join(read(book)["text"].to_pylist())
    for said in ("Define pain", "What is pain", "what hurts"):
        assert said not in text
    kept = " ".join(read(book, drop=())["text"].to_pylist())
    assert "Define pain" in kept


def test_broken_and_missing_modules_are_refusals(book: Path) -> None:
    rejects = read(book)["reject"].to_pylist()
    assert rejects[:2] == [None, None]
    assert [each["reason"] for each in rejects[2:]] == ["broken_xml", "unreadable"]
    assert "m9/index.cnxml" in rejects[3]["detail"]


def test_what_is_no_collection_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "e.collection.xml"
    empty.write_text("<collection/>", "utf-8")
    with pytest.raises(ValueError, match="no chapter"):
        ReadCnxml(path=str(empty)).scan()
    (tmp_path / "two.collection.xml").write_text("<collection/>", "utf-8")
    with pytest.raises(ValueError, match="2 collections"):
        ReadCnxml(path=str(tmp_path)).scan()
    with pytest.raises(ValueError, match="drop"):
        ReadCnxml(path=str(empty), drop="review")  # type: ignore[arg-type]
