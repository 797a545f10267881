"""The standing of documents: of several statements the gravest, found by any id."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.core.schema import DOCUMENTS, NOTICES, empty_value
from srrag.core.spec import content_id
from srrag.core.standing import Standings
from srrag.core.step import Place
from srrag.corpus.notices import Notice, keep_statuses, read_notices
from srrag.corpus.record import RawRecord, raw_table
from srrag.index.standing import BuildStanding
from srrag.storage.store import Store

DOCS = {
    "1": {"pmid": "1", "title": "Lamps"},
    "2": {"pmid": "2", "title": "RETRACTED: Rings", "metadata": '{"doi": "10.1000/B"}'},
    "3": {"pmid": "3", "metadata": '{"publication_types": ["Preprint"]}'},
    "4": {"pmid": "", "metadata": '{"doi": "10.1000/D", "article_type": "retraction", '
          '"publication_types": ["Retracted Publication"]}'},
    "5": {"pmid": "", "metadata": '{"pmcid": "PMC55"}'},
    "6": {"pmid": "6", "title": "Retracted muscles"},
}  # fmt: skip
NOTED = ("source_id", "about", "standing", "link")
NOTES = [
    ("9", "pmid:1", "corrected", ""),
    ("8", "pmid:1", "concern", ""),
    ("8", "", "concern_notice", "pmid:1"),
    ("7", "pmcid:PMC55", "retracted", ""),
    ("20", "", "retracted", "pmid:21"),
    ("30", "", "corrected", "pmid:31"),
]


def written(tmp_path: Path, name: str, rows: list[dict[str, object]], schema: pa.Schema) -> Path:
    blank = {field.name: empty_value(field.type) for field in schema} | {"reject": None}
    path = tmp_path / f"{name}.parquet"
    pq.write_table(pa.Table.from_pylist([blank | row for row in rows], schema=schema), path)
    return path


def built(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listed: list[Notice] | None = None,
    docs: dict[str, dict[str, str]] = DOCS,
) -> dict[str, tuple[str, str]]:
    """Standing and link by source id, as a search sees it; each document lies in its own part."""
    monkeypatch.setattr("srrag.storage.manifest.check_part", lambda path: None)
    documents = [{"doc_id": content_id(n), "source_id": n, **row} for n, row in docs.items()]
    notes = [
        {"doc_id": content_id(n), "source_id": n, "about": about, "standing": standing,
         "link": link, "said_by": "pubmed"} for n, about, standing, link in NOTES
    ]  # fmt: skip
    inputs = {
        "documents": [
            written(tmp_path, f"documents-{n}", [each], DOCUMENTS)
            for n, each in enumerate(documents)
        ],
        "notices": [written(tmp_path, "notices", notes, NOTICES)],
    }
    store = Store(tmp_path / "root")
    name = keep_statuses(store, listed) if listed else ""
    out = tmp_path / "out"
    out.mkdir()
    figures = BuildStanding(statuses=name).build(inputs, out, Place(root=store.root))
    ids = ("doi", "pmcid")
    assert figures["without_id"] == sum(
        not row.get("pmid") and not any(f'"{kind}"' in row.get("metadata", "") for kind in ids)
        for row in docs.values()
    )
    monkeypatch.setattr("srrag.core.standing.pull_build", lambda folder: folder)
    found = Standings(out).find([content_id(n) for n in (*docs, "8")])
    return dict(zip((*docs, "8"), zip(*found, strict=True), strict=True))


def test_the_gravest_statement_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert built(tmp_path, monkeypatch) == {
        "1": ("concern", "pmid:8"),
        "2": ("retracted", ""),
        "3": ("preprint", ""),
        "4": ("retraction_notice", ""),
        "5": ("retracted", "pmid:7"),
        "6": ("ok", ""),
        "8": ("concern_notice", "pmid:1"),
    }


def test_what_a_record_says_of_itself_by_type_or_title_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such records have no notice of JATS or PubMed beside these fields."""
    told = {
        "a": '{"article_type": "preprint", "publication_types": ["Retracted Publication"]}',
        "b": '{"article_type": "preprint"}',
        "c": '{"article_type": "correction"}',
        "d": '{"article_type": "retraction", "publication_types": ["Retracted Publication"]}',
        "e": '{"publication_types": ["Retracted"]}',
        "f": '{"publication_types": ["Retraction"]}',
    }
    docs = {n: {"metadata": each} for n, each in told.items()}
    docs["g"] = {"title": "Lamps (Retracted article. See vol. 3, pg 4, 2015)"}
    found = built(tmp_path, monkeypatch, docs=docs)
    assert {n: standing for n, (standing, _) in found.items() if n in docs} == {
        "a": "retracted",
        "b": "preprint",
        "c": "correction_notice",
        "d": "retraction_notice",
        "e": "retracted",
        "f": "retraction_notice",
        "g": "retracted",
    }


def test_a_list_names_papers_by_any_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [
        Notice("doi:10.1000/d", "superseded", "doi:10.1000/e", "list"),
        Notice("source_id:6", "deleted", "", "list"),
        Notice("pmid:1", "corrected", "", "list"),
        Notice("pmid:404", "retracted", "", "list"),
    ]
    found = built(tmp_path, monkeypatch, listed)
    assert found["4"] == ("superseded", "doi:10.1000/e")
    assert found["6"] == ("deleted", "")
    assert found["1"] == ("concern", "pmid:8"), "what a list says does not make it lighter"


def test_a_list_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give statuses=… again"):
        BuildStanding(statuses="0" * 32).build({"notices": []}, tmp_path, Place(root=tmp_path))


def test_without_the_stage_nothing_is_known() -> None:
    assert Standings.of(Place()).find(["a" * 32]) == ([""], [""])


BODY = " ".join(f"word{n} of the trial" for n in range(90))
LONG = " ".join(f"line{n} of the trial" for n in range(900))
COPIES = {
    "a.pdf": {"source": "a.pdf", "text": f"{BODY} page 1", "metadata": '{"doi": "10.1/A"}'},
    "a.xml": {"source": "a.xml", "text": BODY, "metadata": '{"doi": "10.1/a", "pmcid": "PMC7"}'},
    "71": {"pmid": "71", "text": BODY[:200], "metadata": '{"pmcid": "PMC7"}'},
    "b.md": {"text": "Other words share the DOI of the paper that they comment on.",
             "metadata": '{"doi": "10.1/a"}'},
    "c.md": {"text": BODY},
    "full": {"text": LONG, "metadata": '{"doi": "10.1/c", "article_type": "preprint"}'},
    "abstract": {"text": LONG[:400], "metadata": '{"doi": "10.1/c"}'},
}  # fmt: skip


def test_the_richest_text_of_a_work_stands_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = ("copy", "a.xml")
    assert built(tmp_path, monkeypatch, docs=COPIES) == {
        "a.xml": ("ok", ""),
        "a.pdf": copy,
        "71": copy,
        "b.md": ("ok", ""),
        "c.md": ("ok", ""),
        "full": ("preprint", ""),
        "abstract": ("copy", "full"),
        "8": ("concern_notice", "pmid:1"),
    }


def test_what_is_said_of_a_copy_holds_for_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [Notice("pmid:71", "retracted", "pmid:72", "list")]
    found = built(tmp_path, monkeypatch, listed, COPIES)
    assert found["a.xml"] == ("retracted", "pmid:72")
    assert found["a.pdf"] == found["71"] == ("copy", "a.xml")


def test_what_a_record_of_pubmed_says_of_its_paper_holds_for_other_texts_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record's abstract was replaced by a notice, so its words are no part of the text."""
    texts = {
        n: {"pmid": pmid, "text": text}
        for pmid in ("20", "30")
        for n, text in ((pmid, "This article has been withdrawn."), (f"{pmid}.xml", BODY))
    }
    found = built(tmp_path, monkeypatch, docs=texts)
    assert found["20"] == found["20.xml"] == ("retracted", "pmid:21")
    assert found["30"] == ("corrected", "pmid:31")
    assert found["30.xml"] == ("ok", ""), "a correction may be of one version alone"


RECORD = """<PubmedArticle><MedlineCitation><PMID>50</PMID><Article><ELocationID EIdType="doi">
10.1000/Q.5</ELocationID><Abstract><AbstractText>Pain fell.</AbstractText></Abstract>
<PublicationTypeList><PublicationType>Retracted Publication</PublicationType></PublicationTypeList>
</Article></MedlineCitation><PubmedData><ArticleIdList><ArticleId IdType="pmc">PMC50</ArticleId>
</ArticleIdList></PubmedData></PubmedArticle>"""
EXPORTED = {
    "export": "refs.nbib", "pmid": "50", "doi": "10.1000/Q.5", "pmcid": "PMC50",
    "text": "Pain fell.", "publication_types": ["Retracted Publication"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("format", "body"),
    [("pubmed", RECORD), ("json", json.dumps(EXPORTED))],
    ids=["pubmed", "export"],
)
def test_each_text_of_a_retracted_paper_is_retracted_whatever_id_ties_it_to_the_record(
    format: str, body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The abstract in English shares no words with a page in German, which has no PMID."""
    said = read_notices(raw_table([RawRecord("a", "50", format, body.encode())])).to_pylist()
    monkeypatch.setitem(globals(), "NOTES", [tuple(map(row.get, NOTED)) for row in said])
    texts = {
        "50": {"pmid": "50", "text": "Pain fell.", "metadata": '{"doi": "10.1000/q.5"}'},
        "by-doi": {"text": BODY, "metadata": '{"doi": "10.1000/q.5"}'},
        "by-pmcid": {"text": LONG, "metadata": '{"pmcid": "PMC50"}'},
        "by-pmid": {"pmid": "50", "text": LONG.replace("line", "row")},
    }
    found = built(tmp_path, monkeypatch, docs=texts)
    assert {n: found[n][0] for n in texts} == dict.fromkeys(texts, "retracted")
    assert found["50"][1] == "", "no paper is its own notice"


@pytest.mark.parametrize("gone", ["forgotten", "deleted"])
def test_without_the_richest_text_the_next_one_stands(
    gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = {n: row for n, row in COPIES.items() if n != "a.xml" or gone == "deleted"}
    listed = [Notice("source_id:a.xml", "deleted", "", "list")] if gone == "deleted" else None
    left["71"] = left["71"] | {"metadata": '{"doi": "10.1/a"}'}
    found = built(tmp_path, monkeypatch, listed, left)
    assert (found["a.pdf"], found["71"]) == (("ok", ""), ("copy", "a.pdf"))
    assert gone == "forgotten" or found["a.xml"] == ("deleted", "")
