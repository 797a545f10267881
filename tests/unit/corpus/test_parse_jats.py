"""Of a JATS article all is read but what a list names, and of that the words are counted."""

import pytest

from srrag.corpus.parse_jats import parse_jats, split_articles
from srrag.corpus.parsed import Unparsable

ARTICLE = """<article><front><article-meta><title-group><article-title>Drug Q</article-title>
</title-group><abstract><p>Flares fell.</p></abstract><abstract abstract-type="toc"><p>In short.</p>
</abstract><trans-abstract xml:lang="es"><title>Resumen</title><p>Menos brotes.</p></trans-abstract>
</article-meta></front><body>{body}</body>{after}</article>"""


def text_of(body: str, after: str = "") -> str:
    """The text of an article with this body."""
    return parse_jats(ARTICLE.format(body=body, after=after).encode()).text


@pytest.mark.parametrize(
    ("xml", "said"),
    [
        ("<def-list><def-item><term>SAE</term><def><p>hospital</p></def></def-item></def-list>",
         "- SAE: hospital"),
        ("<table-wrap><table><tr><td>Q*</td></tr></table><table-wrap-foot><fn><p>*rash</p></fn>"
         "</table-wrap-foot></table-wrap>", "*rash"),
        ("<boxed-text><caption><title>Box</title><p>Check the liver.</p></caption></boxed-text>",
         "Check the liver."),
        ("<p>As <xref ref-type='bibr'>Cole et al. (2014)</xref> showed.</p>",
         "As Cole et al. (2014) showed."),
        ("<p>Shown before <xref ref-type='bibr'>12</xref>.</p>", "Shown before."),
        ("<list><list-item><p>one</p><p><list><list-item><p>two</p></list-item></list></p>"
         "</list-item></list>", "- one\n    - two"),
        ("<p>Text<list><list-item><p>in it</p></list-item></list></p>", "- in it"),
        ("<p>As Cole (<xref ref-type='bibr'>2014</xref>) said.<xref ref-type='bibr'>7</xref></p>",
         "As Cole (2014) said."),
        ("<p>Shown <xref ref-type='bibr'>[1]</xref>, <xref ref-type='ref'>[2]</xref>.</p>",
         "Shown."),
        ("<p>Known.<sup><xref ref-type='bibr'>1</xref></sup><sup>,</sup> <sup><xref "
         "ref-type='bibr'>2</xref></sup> But 5<xref ref-type='bibr'>3</xref> or 6.</p>",
         "Known. But 5 or 6."),
        ("<p>In <xref ref-type='bibr'>4</xref> it fell [<xref ref-type='bibr'>5</xref>–<xref "
         "ref-type='bibr'>7</xref>].</p>", "In it fell."),
        ("<def-list><title>Terms</title><def-item><term>CI</term><def><p>interval</p></def>"
         "</def-item></def-list>", "Terms\n\n- CI: interval"),
        ("<sec><table><tr><td>Q</td><td>5</td></tr></table></sec>", "| Q | 5 |"),
        ("<p>Doses: <table><tr><td>Q</td><td>5</td></tr></table></p>", "Doses:\n\n| Q | 5 |"),
        ("<table-wrap><table><tgroup><colspec colname='a'/><colspec colname='b'/><colspec "
         "colname='c'/><thead><row><entry>Arm</entry><entry namest='b' nameend='c'>Dose</entry>"
         "</row></thead><tbody><row><entry morerows='1'>Q</entry><entry>5</entry><entry>6</entry>"
         "</row><row><entry>7</entry><entry>8</entry></row></tbody></tgroup></table></table-wrap>",
         "| Arm | Dose | Dose |\n| --- | --- | --- |\n| Q | 5 | 6 |\n| Q | 7 | 8 |"),
        ("<supplementary-material><label>S1</label><media><caption><p>Doses a day.</p></caption>"
         "</media></supplementary-material>", "Doses a day."),
        ("<fig><label>1</label><alternatives><graphic/><textual-form>A to B</textual-form>"
         "</alternatives><disp-quote><p>It helped.</p></disp-quote></fig>", "A to B\n\nIt helped."),
        ("<sec><title>Methods</title><strange>What no list names.</strange></sec>",
         "What no list names."),
    ],
)  # fmt: skip
def test_what_stands_in_a_container_is_read(xml: str, said: str) -> None:
    assert said in text_of(xml)


def test_floats_appendices_and_translations_are_read_and_letters_are_not() -> None:
    text = text_of(
        "<p>Body.</p>",
        "<back><ack><p>Thanks to all.</p></ack><ref-list><ref>Old paper</ref></ref-list><app-group>"
        "<app><title>Appendix</title><p>Three died.</p></app></app-group></back><floats-group>"
        "<table-wrap><caption><p>Harms</p></caption><table><tr><td>Rash</td><td>7</td></tr></table>"
        "</table-wrap></floats-group><sub-article article-type='translation'><front-stub>"
        "<title-group><article-title>El Q</article-title></title-group></front-stub><body>"
        "<p>Cuerpo.</p></body></sub-article><sub-article article-type='decision-letter'><body>"
        "<p>We liked it.</p></body></sub-article>",
    )
    for said in ("Menos brotes.", "Three died.", "Harms", "| Rash | 7 |", "## El Q", "Cuerpo."):
        assert said in text
    for left_out in ("In short.", "Thanks to all.", "Old paper", "We liked it."):
        assert left_out not in text


def test_the_words_that_are_left_out_are_counted_but_those_of_references() -> None:
    after = "<back><ack><p>Thanks to all.</p></ack><ref-list><ref>Old paper</ref></ref-list></back>"
    parsed = parse_jats(ARTICLE.format(body="<p>Body.</p>", after=after).encode())
    assert parsed.metadata["words_left_out"] == 5


def test_a_set_of_articles_is_split_and_a_single_one_is_not() -> None:
    one = ARTICLE.format(body="<p>One.</p>", after="")
    two = one.replace("One.", "Two.")
    bodies = split_articles(f"<pmc-articleset>{one}{two}</pmc-articleset>".encode())
    assert [parse_jats(body).text.split()[-1] for body in bodies] == ["One.", "Two."]
    assert split_articles(one.encode()) == []


def test_an_article_of_another_kind_says_so_and_one_with_a_body_keeps_its_title() -> None:
    with pytest.raises(Unparsable, match="an <article> of <pubfm>, <bdy>"):
        parse_jats(b"<article><pubfm/><bdy><p>Flares fell.</p></bdy></article>")
    head = b"<article><head><title>Drug Q</title></head>"
    own = head + b"<body><title>Aim</title><p>It is.</p></body></article>"
    assert parse_jats(own).title == "Drug Q"


@pytest.mark.parametrize(
    ("title", "subtitle", "read"),
    [
        ("Drug Q", "a randomised trial", "Drug Q: a randomised trial"),
        ("Does Q help?", "A cohort study", "Does Q help? A cohort study"),
        ("Drug Q: a trial", "a trial", "Drug Q: a trial"),
    ],
)
def test_a_subtitle_is_a_part_of_the_title(title: str, subtitle: str, read: str) -> None:
    xml = ARTICLE.format(body="<p>Body.</p>", after="").replace("Drug Q", title)
    whole = xml.replace("</title-group>", f"<subtitle>{subtitle}</subtitle></title-group>")
    assert parse_jats(whole.encode()).title == read
