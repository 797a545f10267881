import gzip
import json
import os
import tracemalloc
import zipfile
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from srrag.core.kinds import class_of
from srrag.core.schema import RAW
from srrag.core.spec import content_id
from srrag.corpus.parse import parse_documents
from srrag.corpus.parse_html import parse_html
from srrag.corpus.read_folder import ReadFolder
from srrag.corpus.read_jsonl import ReadBeir, ReadJsonl
from srrag.corpus.read_pubmed import ReadPubmed
from srrag.corpus.record import RawRecord, plain_id, raw_table, refusal, unique

SHARED = Path(__file__).parents[4] / "shared/data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not here")


def reasons(records: list[RawRecord]) -> dict[str, str]:
    return {record.source: record.reason for record in records}


# --- records -------------------------------------------------------------------------------


def test_raw_id_is_the_hash_of_the_id_and_the_content() -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert RawRecord("a.md", "x", "markdown").raw_id == content_id("x", empty)
    assert RawRecord("b.md", "x", "text").raw_id == content_id("x", empty)
    assert RawRecord("a.md", "x", "markdown", b"y").raw_id != content_id("x", empty)


def test_unique_keeps_the_first_and_names_its_place() -> None:
    first = RawRecord("f:1", "7", "json", b"a")
    later = RawRecord("f:9", "7", "json", b"b")
    same_text = RawRecord("f:2", "8", "json", b"a")
    broken = refusal("f:3", "json", "broken_json", "f:3: no", "7")
    kept = list(unique([first, same_text, broken, later]))
    assert [record.reason for record in kept] == ["", "", "broken_json", "duplicate_id"]
    assert kept[3].detail == "f:9: id '7' was first seen in f:1"
    assert kept[3].body == b""
    assert len({record.raw_id for record in kept}) == 4


def test_raw_table_has_the_declared_schema() -> None:
    table = raw_table([RawRecord("a", "1", "text", b"x"), refusal("b", "text", "no", "b: no")])
    assert table.schema.equals(RAW)
    assert table["reject"].to_pylist() == [
        None,
        {"stage": "read", "reason": "no", "detail": "b: no"},
    ]
    assert raw_table([]).schema.equals(RAW)


def test_ids_are_printable_text() -> None:
    assert plain_id(12) == "12"
    assert plain_id(" a\nb\x00\ud800 ") == "ab\\ud800"
    assert plain_id(True) == plain_id(None) == plain_id(["a"]) == ""


# --- folder --------------------------------------------------------------------------------


def test_folder_reads_sorted_and_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("z.md", "a.txt", "sub/b.HTM", "c.nxml", "d.pdf", "x.docx", "noext", ".hidden.md"):
        (tmp_path / name).write_text(f"text of {name}")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/x.md").write_text("hidden")
    records = list(ReadFolder(path=str(tmp_path)).scan())
    assert reasons(records) == {
        "a.txt": "",
        "c.nxml": "",
        "d.pdf": "",
        "noext": "unsupported_format",
        "x.docx": "",
        "z.md": "",
        "sub/b.HTM": "",
    }
    assert [record.format for record in records if not record.reason] == [
        "text",
        "jats",
        "pdf",
        "docx",
        "markdown",
        "html",
    ]


def test_a_copy_or_a_link_is_no_second_piece_of_evidence(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Pain fell.")
    (tmp_path / "b.md").write_text("Pain fell.")
    (tmp_path / "c.md").symlink_to(tmp_path / "a.md")
    (tmp_path / "d.md").write_text("Pain rose.")
    records = list(ReadFolder(path=str(tmp_path)).scan())
    assert reasons(records) == {
        "a.md": "", "b.md": "duplicate_content", "c.md": "duplicate_content", "d.md": ""
    }  # fmt: skip
    assert records[1].detail == "b.md: the same bytes as a.md"


def test_a_jsonl_line_without_text_names_its_keys(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "1", "content": "Pain fell.", "x": 1}\n')
    [record] = ReadJsonl(path=str(tmp_path / "a.jsonl")).scan()
    assert record.reason == "no_text"
    assert "has the keys content, id, x; name yours, as in corpus.text=[content]" in record.detail


def test_folder_takes_the_id_of_front_matter_and_finds_its_duplicates(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\nid: knee-1\n---\nOne")
    (tmp_path / "b.md").write_text("---\nid: knee-1\n---\nTwo")
    first, second = ReadFolder(path=str(tmp_path)).scan()
    assert (first.source_id, first.reason) == ("knee-1", "")
    assert (second.reason, second.detail) == (
        "duplicate_id",
        "b.md: id 'knee-1' was first seen in a.md",
    )


def test_folder_follows_no_link_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    inside = tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "secret.md").write_text("secret")
    (inside / "real.md").write_text("real")
    (inside / "folder").symlink_to(outside)
    (inside / "file.md").symlink_to(outside / "secret.md")
    (inside / "up.md").symlink_to("../outside/secret.md")
    (inside / "loop").symlink_to(inside)
    (inside / "own.md").symlink_to(inside / "real.md")
    (inside / "gone.md").symlink_to(inside / "nothing.md")
    os.mkfifo(inside / "pipe.md")
    records = list(ReadFolder(path=str(inside)).scan())
    assert reasons(records) == {
        "folder": "outside_folder",
        "file.md": "outside_folder",
        "up.md": "outside_folder",
        "gone.md": "unreadable",
        "pipe.md": "not_a_file",
        "real.md": "",
        "own.md": "duplicate_content",
    }
    assert not any(b"secret" in record.body for record in records)


def test_a_large_file_is_refused_without_being_read(tmp_path: Path) -> None:
    with (tmp_path / "big.txt").open("wb") as file:
        file.truncate(200_000_000)
    tracemalloc.start()
    records = list(ReadFolder(path=str(tmp_path)).scan())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert records[0].reason == "too_large"
    assert records[0].detail == "big.txt: 200000000 bytes, the cap is 50000000"
    assert peak < 5_000_000


@pytest.mark.parametrize("reader", [ReadFolder, ReadPubmed, ReadJsonl, ReadBeir])
def test_an_empty_or_missing_place_is_one_line_of_value_error(reader: type, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(ValueError, match=str(place)) as error:
            reader(path=str(place)).scan()
        assert "\n" not in str(error.value)


def test_a_file_is_a_folder_of_one_but_no_beir(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("x")
    assert reasons(list(ReadFolder(path=str(tmp_path / "a.md")).scan())) == {"a.md": ""}
    with pytest.raises(ValueError, match="not a folder"):
        ReadBeir(path=str(tmp_path / "a.md")).scan()


def test_packaged_corpora_are_found_through_their_package() -> None:
    with pytest.raises(ValueError, match="no package 'no_such_package'"):
        ReadFolder(path="pkg://no_such_package/documents").scan()
    records = list(ReadFolder(path="pkg://srrag/corpus").scan())
    assert "prompts/grade_document.md" in reasons(records)


# --- json lines ----------------------------------------------------------------------------


def test_jsonl_maps_fields_and_refuses_broken_lines(tmp_path: Path) -> None:
    lines = [
        b'\xef\xbb\xbf{"id": 7, "text": "a", "evidence_grade": "B", "pmid": "12"}',
        b"",
        b'{"broken": ',
        b"[1, 2]",
        b'{"text": "caf\xe9"}',
        b'{"_id": "y", "sections": [{"heading": "H", "text": "t"}]}',
        b'{"text": "no id"}',
        b"[" * 100_000,
    ]
    path = tmp_path / "docs.jsonl"
    path.write_bytes(b"\n".join(lines))
    records = list(ReadJsonl(path=str(path)).scan())
    assert [(r.source, r.source_id, r.reason) for r in records] == [
        ("docs.jsonl:1", "7", ""),
        ("docs.jsonl:3", "docs.jsonl:3", "broken_json"),
        ("docs.jsonl:4", "docs.jsonl:4", "broken_json"),
        ("docs.jsonl:5", "docs.jsonl:5", "broken_json"),
        ("docs.jsonl:6", "y", ""),
        ("docs.jsonl:7", "docs.jsonl:7", ""),
        ("docs.jsonl:8", "docs.jsonl:8", "broken_json"),
    ]
    assert records[1].detail.startswith("docs.jsonl:3: ")
    assert json.loads(records[0].body) == {"grade": "B", "pmid": "12", "text": "a"}


def test_jsonl_takes_other_names_of_fields(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"key": "k", "body": "words", "level": "C"}\n')
    reader = ReadJsonl(path=str(tmp_path), id=("key",), text=("body",), grade=("level",))
    (record,) = reader.scan()
    assert record.source_id == "k"
    assert json.loads(record.body) == {"grade": "C", "text": "words"}


def test_a_mapping_must_list_its_keys() -> None:
    with pytest.raises(ValueError, match="text: a list of keys is wanted"):
        ReadJsonl(path="x", text="body")  # type: ignore[arg-type]


def test_an_over_long_line_is_refused_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1", "text": "' + "x" * 5_000 + '"}\n{"id": "2", "text": "y"}\n')
    records = list(ReadJsonl(path=str(path), max_line_bytes=1_000).scan())
    assert [(r.source, r.reason) for r in records] == [
        ("a.jsonl:1", "too_large"),
        ("a.jsonl:2", ""),
    ]


@needs_shared
@pytest.mark.parametrize(
    ("file", "rows"),
    [
        ("rehab/documents_md.jsonl", 316),
        ("pubmedqa/docs.jsonl", 699),
        ("evidence_inference/articles.jsonl", 1723),
    ],
)
def test_real_json_lines_read_with_the_default_mapping(file: str, rows: int) -> None:
    records = list(ReadJsonl(path=str(SHARED / file)).scan())
    assert len(records) == rows
    assert {record.reason for record in records} == {""}


# --- BEIR ----------------------------------------------------------------------------------


def test_beir_needs_an_id_and_keeps_the_first(tmp_path: Path) -> None:
    lines = ['{"_id": "1", "text": "a"}', '{"text": "b"}', '{"_id": "1", "text": "c"}']
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    records = list(ReadBeir(path=str(tmp_path)).scan())
    assert [record.reason for record in records] == ["", "no_id", "duplicate_id"]


@needs_shared
@pytest.mark.parametrize(("folder", "rows"), [("bioasq", 12483), ("rehab", 1117)])
def test_real_beir_folders_read(folder: str, rows: int) -> None:
    records = list(ReadBeir(path=str(SHARED / folder)).scan())
    assert len(records) == rows
    assert {record.reason for record in records} == {""}


# --- PubMed --------------------------------------------------------------------------------


def article(pmid: int, text: str = "words") -> str:
    return (
        f'<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID><Article><Abstract>'
        f"<AbstractText>{text}</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle>"
    )


def baseline(*articles: str) -> bytes:
    head = '<?xml version="1.0" encoding="utf-8"?>\n<PubmedArticleSet>\n'
    return (head + "\n".join(articles) + "\n</PubmedArticleSet>\n").encode()


def test_pubmed_cuts_files_at_articles_newest_file_first(tmp_path: Path) -> None:
    (tmp_path / "pubmed26n0001.xml.gz").write_bytes(gzip.compress(baseline(article(1), article(2))))
    (tmp_path / "pubmed26n0002.xml").write_bytes(baseline(article(2, "revised")))
    (tmp_path / "pubmed26n0002.xml.gz.md5").write_text("0")
    (tmp_path / "export.nbib").write_text("PMID- 3")
    records = list(ReadPubmed(path=str(tmp_path)).scan())
    assert [(r.source, r.source_id, r.reason) for r in records] == [
        ("pubmed26n0002.xml:1", "2", ""),
        ("pubmed26n0001.xml.gz:1", "1", ""),
        ("pubmed26n0001.xml.gz:2", "2", "duplicate_id"),
        ("export.nbib", "export.nbib", "unsupported_format"),
    ]
    assert b"revised" in records[0].body


def test_articles_are_found_across_block_borders(tmp_path: Path) -> None:
    articles = [article(n, "x" * (997 * n % 4_000)) for n in range(1, 1_501)]
    path = tmp_path / "a.xml"
    path.write_bytes(baseline(*articles))
    assert path.stat().st_size > 2 << 20
    records = list(ReadPubmed(path=str(path)).scan())
    assert [record.body.decode() for record in records] == articles


def test_a_truncated_gzip_keeps_what_was_read_before(tmp_path: Path) -> None:
    packed = gzip.compress(baseline(*[article(n, os.urandom(600).hex()) for n in range(3_000)]))
    (tmp_path / "cut.xml.gz").write_bytes(packed[: len(packed) // 2])
    records = list(ReadPubmed(path=str(tmp_path)).scan())
    assert records[-1].reason == "broken_gzip"
    assert records[-1].detail.startswith("cut.xml.gz: ")
    assert len(records) > 500
    assert {record.reason for record in records[:-1]} == {""}


def test_a_file_that_is_no_gzip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xml.gz").write_bytes(b"plain")
    (record,) = ReadPubmed(path=str(tmp_path)).scan()
    assert record.reason == "broken_gzip"


def test_a_truncated_article_is_refused_and_the_rest_kept(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(baseline(article(1), article(2))[:-60])
    records = list(ReadPubmed(path=str(tmp_path)).scan())
    assert [record.reason for record in records] == ["", "broken_xml"]


def test_a_gzip_bomb_is_refused_early_with_what_came_before(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "bomb.xml.gz", "wb", compresslevel=9) as file:
        file.write(baseline(article(1)).removesuffix(b"</PubmedArticleSet>\n"))
        for _ in range(300):
            file.write(b"<x/>" * 250_000)
    assert (tmp_path / "bomb.xml.gz").stat().st_size < 2_000_000
    tracemalloc.start()
    records = list(ReadPubmed(path=str(tmp_path)).scan())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [record.reason for record in records] == ["", "gzip_bomb"]
    assert "bomb.xml.gz" in records[1].detail
    assert "1 articles read before" in records[1].detail
    assert peak < 40_000_000


def test_caps_on_a_file_and_on_an_article(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(baseline(article(1), article(2, "x" * 3_000_000)))
    by_file = list(ReadPubmed(path=str(path), max_file_bytes=1_000_000).scan())
    by_article = list(ReadPubmed(path=str(path), max_article_bytes=1_000_000).scan())
    assert [record.reason for record in by_file] == ["too_large"]
    assert [record.reason for record in by_article] == ["", "too_large"]


def test_chapters_of_books_are_read_and_other_files_are_named(tmp_path: Path) -> None:
    book = article(7).replace("PubmedArticle", "PubmedBookArticle")
    (tmp_path / "a.xml").write_bytes(baseline(article(1), book))
    (tmp_path / "b.xml").write_text("<article><body><p>JATS</p></body></article>")
    deleted = "<PubmedArticleSet><DeleteCitation><PMID>1</PMID></DeleteCitation></PubmedArticleSet>"
    (tmp_path / "0.xml").write_text(deleted)
    records = list(ReadPubmed(path=str(tmp_path)).scan())
    assert [(r.source, r.reason) for r in records] == [
        ("b.xml", "unsupported_format"),
        ("a.xml:1", ""),
        ("a.xml:2", ""),
    ]
    assert records[0].detail == "b.xml: holds no article of PubMed, 0 articles read before"


def test_an_article_without_pmid_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(baseline("<PubmedArticle><X/></PubmedArticle>"))
    (record,) = ReadPubmed(path=str(tmp_path)).scan()
    assert (record.source, record.reason) == ("a.xml:1", "no_id")


def test_an_epub_is_read_chapter_by_chapter_in_its_order(tmp_path: Path) -> None:
    container = '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>'
    package = (
        '<package><manifest><item id="nav" href="nav.xhtml" properties="nav"/>'
        '<item id="b" href="text/b%20two.xhtml"/><item id="a" href="text/a.xhtml"/>'
        '<item id="c" href="../OPS/text/./c.xhtml"/><item id="gone" href="gone.xhtml"/></manifest>'
        '<spine><itemref idref="nav"/><itemref idref="b"/><itemref idref="a"/><itemref idref="c"/>'
        '<itemref idref="gone"/></spine></package>'
    )
    page = '<?xml version="1.0"?><html><head><title/></head><body><p>{}</p></body></html>'
    with zipfile.ZipFile(tmp_path / "book.epub", "w") as book:
        book.writestr("META-INF/container.xml", container)
        book.writestr("OPS/book.opf", package)
        for name in ("nav", "text/a", "text/b two", "text/c"):
            book.writestr(f"OPS/{name}.xhtml", page.format(f"What {name} says."))
    (tmp_path / "other.epub").write_bytes(b"no book")
    records = list(ReadFolder(path=str(tmp_path)).scan())
    assert [record.source for record in records] == [
        "book.epub/OPS/text/b two.xhtml",
        "book.epub/OPS/text/a.xhtml",
        "book.epub/OPS/text/c.xhtml",
        "book.epub/OPS/gone.xhtml",
        "other.epub",
    ]
    assert records[4].reason == "broken_archive"
    (gone,) = parse_documents(raw_table(records[3:4])).to_pylist()
    assert gone["reject"]["reason"] == "no_text"
    assert "What text/a says." in parse_html(records[1].body).text, "<title/> closes itself"


CONF = Path(__file__).parents[3] / "conf/corpus"


@pytest.mark.parametrize("name", ["folder", "jsonl", "beir", "pubmed", "sample"])
def test_every_corpus_file_names_a_reader_and_its_fields(name: str) -> None:
    config = yaml.safe_load((CONF / f"{name}.yaml").read_text("utf-8"))
    reader = class_of(config.pop("_target_"))
    assert set(config) <= {field.name for field in fields(reader)}
    assert "path" in config


def test_the_packaged_sample_is_read_without_a_refusal() -> None:
    config = yaml.safe_load((CONF / "sample.yaml").read_text("utf-8"))
    reader = class_of(config.pop("_target_"))
    records: list[RawRecord] = list(reader(**config).scan())
    assert len(records) > 20
    assert {record.reason for record in records} == {""}
