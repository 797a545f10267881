"""Big and small text units of a textbook, and its chapter fields on the way to them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.core.step import Place
from srrag.corpus.parse import parse_documents
from srrag.corpus.read_jsonl import ReadJsonl
from srrag.corpus.record import raw_table
from srrag.model.encoder import Encoder
from srrag.systems.rasrag.text_units import CutBigUnits, CutSmallUnits, split_spans
from tests.unit.corpus.test_readers import SHARED, needs_shared

TEXTS = st.text(alphabet="ab. \n", max_size=120)


def parts(text: str, size: int) -> list[str]:
    return [text[start:end] for start, end in split_spans(text, size)]


def test_pieces_are_joined_while_they_fit() -> None:
    assert parts("aa\n\nbb\n\ncccc", 6) == ["aa\n\nbb", "cccc"]


def test_a_long_piece_is_cut_at_the_next_separator_and_not_joined_with_its_neighbours() -> None:
    text = "aa\n\nOne two. Three four. Five\n\nbb"
    assert parts(text, 12) == ["aa", "One two.", "Three four.", "Five", "bb"]


def test_a_run_without_a_separator_is_cut_at_the_limit() -> None:
    assert parts("abcdefgh", 3) == ["abc", "def", "gh"]


def test_blank_text_has_no_unit() -> None:
    assert split_spans(" \n\n ", 5) == split_spans("", 5) == []


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="size is 0"):
        split_spans("a", 0)


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.integers(1, 40))
def test_every_character_that_is_not_blank_is_in_one_span(text: str, size: int) -> None:
    spans = split_spans(text, size)
    assert all(0 < end - start <= size for start, end in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())
    assert all(text[a:b] == text[a:b].strip() for a, b in spans)


def test_a_long_text_takes_linear_time() -> None:
    spans = split_spans("word " * 50_000, 1000)
    assert len(spans) == 250


SECTION = {
    "id": "b-02-01",
    "title": "2.1 Pain",
    "book": "A Book",
    "chapter_no": 2,
    "chapter_title": "Pain and Rest",
    "section_no": 1,
    "markdown": "# 2.1 Pain\n\nLead words here.\n\n## Causes\n\n"
    + "A cause is named. " * 8
    + "\n\n### Rare causes\n\n"
    + "A rare one. " * 8,
}


def documents(*rows: dict[str, object], folder: Path) -> pa.Table:
    path = folder / "documents.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return parse_documents(raw_table(list(ReadJsonl(path=str(path)).scan())))


def cut(table: pa.Table, big: int = 200, small: int = 60) -> tuple[pa.Table, pa.Table]:
    units = CutBigUnits(size_chars=big).open(Place())(table)
    return units, CutSmallUnits(encoder=Encoder(), size_chars=small).open(Place())(units)


def test_the_place_in_a_book_reaches_the_documents(tmp_path: Path) -> None:
    (row,) = documents(SECTION, folder=tmp_path).to_pylist()
    metadata = json.loads(row["metadata"])
    assert {name: metadata[name] for name in ("book", "chapter", "chapter_title", "order")} == {
        "book": "A Book",
        "chapter": "2",
        "chapter_title": "Pain and Rest",
        "order": "1",
    }


def test_a_record_without_a_book_keeps_its_id(tmp_path: Path) -> None:
    """Parts of a root are named by these ids."""
    (record,) = ReadJsonl(path=str(_written(tmp_path))).scan()
    assert record.body == b'{"text": "words", "title": "T"}'


def _written(folder: Path) -> Path:
    path = folder / "d.jsonl"
    path.write_text('{"id": "1", "title": "T", "text": "words", "section": "x"}\n', "utf-8")
    return path


def test_small_units_lie_in_big_ones_and_cover_the_document(tmp_path: Path) -> None:
    table = documents(SECTION, folder=tmp_path)
    (document,) = table.to_pylist()
    big, small = cut(table)
    spans = {row["unit_id"]: (row["char_start"], row["char_end"]) for row in big.to_pylist()}
    assert big.num_rows > 1
    assert set(big["view"].to_pylist()) == {"btu"}
    assert set(small["view"].to_pylist()) == {"stu"}
    for row in small.to_pylist():
        low, high = spans[row["parent_id"]]
        assert low <= row["char_start"] < row["char_end"] <= high
        assert document["text"][row["char_start"] : row["char_end"]] == row["text"]
        assert len(row["text"]) <= 60
        assert row["num_tokens"] > 0
    joined = "".join("".join(text.split()) for text in small["text"].to_pylist())
    assert joined == "".join(document["text"].split())


def test_units_name_their_section(tmp_path: Path) -> None:
    big, small = cut(documents(SECTION, folder=tmp_path), big=10_000, small=120)
    assert big["section"].to_pylist() == [""]
    assert dict.fromkeys(small["section"].to_pylist()) == dict.fromkeys(
        ["", "Causes", "Causes > Rare causes"]
    )


def test_rejected_rows_and_empty_tables_make_no_unit(tmp_path: Path) -> None:
    table = documents({"id": "1", "title": "T", "text": "  "}, folder=tmp_path)
    assert table["reject"].null_count == 0
    big, small = cut(table)
    assert big.num_rows == small.num_rows == 0


@pytest.mark.parametrize("size", [0, -5])
def test_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="size_chars"):
        CutBigUnits(size_chars=size)
    with pytest.raises(ValueError, match="size_chars"):
        CutSmallUnits(encoder=Encoder(), size_chars=size)


@needs_shared
def test_no_learning_outcome_is_in_what_is_indexed() -> None:
    """All but the one that the data card names, which stands in its chapter's introduction.

    What the reader passes on holds all that is indexed: later steps only leave out and cut. Fewer
    than five words, such as "define pain", stand in sentences of their own right.
    """
    path = SHARED / "textbook"
    records = ReadJsonl(path=str(path / "documents_md.jsonl")).scan()
    texts = (json.loads(record.body)["text"] for record in records)
    indexed = " ".join(word for text in texts for word in text.casefold().split())
    with (path / "outcomes.jsonl").open(encoding="utf-8") as file:
        outcomes = [json.loads(line) for line in file]
    assert len(outcomes) == 626
    texts_ = {row["id"]: " ".join(row["text"].casefold().split()) for row in outcomes}
    long = {name: text for name, text in texts_.items() if len(text.split()) >= 5}
    found = [name for name, text in long.items() if text.removesuffix(".") in indexed]
    assert len(long) > 500
    assert found == ["pharmacology-06-01-lo01"]
