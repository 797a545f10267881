"""What records, types, titles and a user's list say of the standing of papers."""

from pathlib import Path

import pytest

from srrag.core.errors import UsageError
from srrag.core.standing import STANDINGS, of_title, of_types, standing_note
from srrag.corpus.notices import (
    Notice,
    jats_notices,
    keep_statuses,
    list_name,
    may_speak,
    pubmed_notices,
    read_notices,
    read_statuses,
)
from srrag.corpus.read_pubmed import ReadPubmed
from srrag.corpus.record import RawRecord, raw_table
from srrag.storage.atomic_write import read_json
from srrag.storage.store import Store

ABSTRACT = b"<Abstract><AbstractText>Pain fell.</AbstractText></Abstract>"
RETRACTED = b"""<PubmedArticle><MedlineCitation><PMID Version="1">7</PMID><Article>
<ArticleTitle>RETRACTED: Lamps.</ArticleTitle>
<Abstract><AbstractText>Pain fell.</AbstractText></Abstract><PublicationTypeList>
<PublicationType UI="D016441">Retracted Publication</PublicationType></PublicationTypeList>
</Article><CommentsCorrectionsList>
<CommentsCorrections RefType="RetractionIn"><PMID Version="1">9</PMID></CommentsCorrections>
<CommentsCorrections RefType="Cites"><PMID Version="1">3</PMID>
</CommentsCorrections></CommentsCorrectionsList></MedlineCitation></PubmedArticle>"""
PLAIN = RETRACTED.replace(b"RetractionIn", b"Cites").replace(b"Retracted Publication", b"Review")


def jats(
    kind: str, related: str, link: str = 'ext-link-type="doi" xlink:href="10.1000/ABC"'
) -> bytes:
    return (
        f'<article article-type="{kind}" xmlns:xlink="http://www.w3.org/1999/xlink"><front>'
        f'<article-meta><related-article related-article-type="{related}" {link}/>'
        "</article-meta></front></article>"
    ).encode()


def test_pubmed_says_it_by_type_and_by_link() -> None:
    assert pubmed_notices(RETRACTED) == [
        Notice("", "retracted", "", "type"),
        Notice("", "retracted", "pmid:9", "pubmed"),
        Notice("pmid:9", "retraction_notice", "", "pubmed"),
    ]
    assert pubmed_notices(PLAIN) == []


def test_a_retracted_record_without_an_abstract_speaks_of_its_paper_in_other_files() -> None:
    ids = (
        b"<PubmedData><ArticleIdList><ArticleId IdType='doi'>10.1000/X</ArticleId></ArticleIdList>"
    )
    bare = RETRACTED.replace(ABSTRACT, b"")
    bare = bare.replace(b"</PubmedArticle>", ids + b"</PubmedData></PubmedArticle>")
    said = [each for each in pubmed_notices(bare) if each.standing == "retracted"]
    assert {each.about for each in said} == {"", "pmid:7", "doi:10.1000/x"}
    own = b"<Article><ELocationID EIdType='doi'>10.1000/Y</ELocationID>"
    said = pubmed_notices(bare.replace(b"<Article>", own))
    assert "doi:10.1000/y" in {each.about for each in said}
    assert {each.about for each in pubmed_notices(RETRACTED)} == {"", "pmid:9"}


def test_jats_tells_the_notice_from_the_paper() -> None:
    assert jats_notices(jats("retraction", "retracted-article")) == [
        Notice("", "retraction_notice", "", "jats"),
        Notice("", "retraction_notice", "doi:10.1000/abc", "jats"),
        Notice("doi:10.1000/abc", "retracted", "", "jats"),
    ]
    by_pmid = 'ext-link-type="pmid" xlink:href="12"'
    assert jats_notices(jats("research-article", "retraction-forward", by_pmid)) == [
        Notice("", "retracted", "pmid:12", "jats")
    ]
    for link, about in (
        ("https://pubmed.ncbi.nlm.nih.gov/12/", "pmid:12"),
        ("https://www.ncbi.nlm.nih.gov/pmc/articles/PMC12/", "pmcid:PMC12"),
    ):
        told = jats("retraction", "retracted-article", f'ext-link-type="uri" xlink:href="{link}"')
        assert Notice(about, "retracted", "", "jats") in jats_notices(told)
    concern = jats_notices(jats("expression-of-concern", "object-of-concern"))
    assert Notice("doi:10.1000/abc", "concern", "", "jats") in concern
    assert jats_notices(jats("research-article", "companion")) == []


def test_a_body_without_a_word_of_a_notice_is_not_parsed() -> None:
    assert may_speak(RETRACTED)
    assert not may_speak(b"<PubmedArticle>pain</PubmedArticle>")


def test_the_step_reads_pubmed_and_jats_alone_and_no_broken_body() -> None:
    records = [
        RawRecord("a:1", "7", "pubmed", RETRACTED),
        RawRecord("b.xml", "b", "jats", jats("correction", "corrected-article")),
        RawRecord("c", "c", "text", b"Retracted"),
        RawRecord("d", "d", "pubmed", b"<PubmedArticle>Retracted"),
    ]
    rows = read_notices(raw_table(records)).to_pylist()
    assert {row["source_id"] for row in rows} == {"7", "b"}
    assert rows[0]["doc_id"] == records[0].raw_id


def test_types_and_titles() -> None:
    assert of_types(["Randomized Controlled Trial", "Preprint"]) == ["preprint"]
    assert of_types(["Journal Article, Retracted Publication"]) == ["retracted"]
    assert of_types(["Retracted", "Retracted article", "Retraction"]) == [
        "retracted", "retracted", "retraction_notice",
    ]  # fmt: skip
    for title in (
        "[RETRACTED ARTICLE] Lamps", "WITHDRAWN: Lamps for pain", "RETRACTED. Lamps",
        "RETRACTED - Lamps", "Lamps [Retracted]", "Lamps (Retracted Article)",
        "Lamps for pain. (Retracted article. See vol. 3, pg 4, 2015)",
    ):  # fmt: skip
        assert of_title(title) == "retracted"
    for title in ("Withdrawn - why patients leave", "Lamps (retracted) for pain"):
        assert of_title(title) == ""
    assert of_title("Retracted muscles after surgery") == of_title("Retraction: Lamps") == ""


# --- a deleted article ---------------------------------------------------------------------


def article(pmid: int, text: str) -> str:
    return (
        f'<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID>{text}'
        "</MedlineCitation></PubmedArticle>"
    )


def test_a_deletion_takes_the_article_of_its_own_and_of_earlier_files(tmp_path: Path) -> None:
    gone = "<DeleteCitation><PMID>1</PMID>\n<PMID Version='1'>2</PMID></DeleteCitation>"
    (tmp_path / "p1.xml").write_text(f"<S>{article(1, 'old')}{article(3, 'kept')}</S>")
    (tmp_path / "p2.xml").write_text(f"<S>{article(2, 'same file')}{gone}</S>")
    (tmp_path / "p3.xml").write_text(f"<S>{article(2, 'came back')}</S>")
    records = list(ReadPubmed(path=str(tmp_path)).scan())
    told = [(each.source, each.source_id, each.reason) for each in records]
    assert told == [
        ("p3.xml:1", "2", ""), ("p2.xml:1", "2", "deleted"),
        ("p1.xml:1", "1", "deleted"), ("p1.xml:2", "3", ""),
    ]  # fmt: skip
    assert all(each.body == b"" for each in records if each.reason == "deleted")
    assert records[2].detail == "p1.xml:1: PMID 1 was deleted by p2.xml"


def test_later_files_are_known_by_their_name_in_any_folder(tmp_path: Path) -> None:
    for name, text in (("b/p1.xml", "old"), ("a/p2.xml", "new")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(article(5, text))
    first = next(iter(ReadPubmed(path=str(tmp_path)).scan()))
    assert first.source == "a/p2.xml:1" and b"new" in first.body


# --- a user's list -------------------------------------------------------------------------

WATCH = (
    "Record ID,RetractionDate,RetractionDOI,RetractionPubMedID,OriginalPaperDOI,"
    "OriginalPaperPubMedID,RetractionNature\n"
)


def listed(tmp_path: Path, text: str) -> list[Notice]:
    path = tmp_path / "list.csv"
    path.write_text(text)
    return read_statuses(path)


def test_retraction_watch_s_columns(tmp_path: Path) -> None:
    rows = (
        "1,1/2/2020 0:00,10.1000/n,9,10.1000/A,7,Retraction\n"
        "2,3/2/2021 0:00,unavailable,0,10.1000/b,0,Expression of concern\n"
    )
    assert listed(tmp_path, WATCH + rows) == [
        Notice("pmid:7", "retracted", "pmid:9", "list"),
        Notice("doi:10.1000/a", "retracted", "pmid:9", "list"),
        Notice("doi:10.1000/b", "concern", "", "list"),
    ]


def test_a_later_reinstatement_takes_a_retraction_back(tmp_path: Path) -> None:
    retraction, back = "1,1/2/2020 0:00,,0,,7,Retraction\n", "2,1/2/2021 0:00,,0,,7,Reinstatement\n"
    assert listed(tmp_path, WATCH + back + retraction) == []
    again = "3,12/30/2021 0:00,,0,,7,Retraction\n"
    assert len(listed(tmp_path, WATCH + again + back + retraction)) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "needs the columns of Retraction Watch"),
        ("pmid,standing\n7,bad\n", ":2: standing 'bad' is none of deleted, retracted"),
        ("pmid,standing\n,retracted\n", ":2: the row names no paper"),
        (WATCH + "1,,,,,7,Apology\n", ":2: RetractionNature 'apology' is not known"),
    ],
)
def test_a_wrong_list_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=r"list\.csv") as raised:
        listed(tmp_path, text)
    assert said in str(raised.value)


def test_a_list_is_kept_by_its_content(tmp_path: Path) -> None:
    notices = listed(tmp_path, "source_id,standing,link\nx.md,preprint,doi:10.1000/y\nz,deleted,\n")
    store = Store(tmp_path / "root")
    name = keep_statuses(store, notices)
    assert name == list_name(reversed(notices))
    assert read_json(store.root / "statuses" / f"{name}.json")["statuses"][0] == [
        "source_id:x.md", "preprint", "doi:10.1000/y",
    ]  # fmt: skip


# --- what is said of it --------------------------------------------------------------------


def test_the_note_groups_citations_and_names_what_was_left_out() -> None:
    bad = {"doc_id": "d", "standing": "concern", "standing_link": "pmid:9"}
    good = {"doc_id": "e", "standing": "ok", "standing_link": "pmid:1"}
    left = [{"title": "Lamps", "source_id": "7", "standing": "retracted", "standing_link": ""}]
    assert standing_note([bad, good, bad], [1, 2, 3], left) == (
        "[1][3]: under an expression of concern (PMID 9). Not used: “Lamps”, retracted."
    )
    assert standing_note([bad, good], [2], []) == ""
    unknown = {"doc_id": "d", "standing": "", "standing_link": ""}
    assert "not known" in standing_note([unknown], [], [])
    assert all(STANDINGS.values())
