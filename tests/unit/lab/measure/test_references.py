from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srrag.core.schema import UNITS
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.index.units import BuildUnits
from srrag.lab.measure.references import (
    must_have,
    questions_of,
    quote_windows,
    read_gold,
    resource_path,
    split_of,
    window_qrels,
)
from tests.unit.index.tables import documents, row, uid, write

BRACE, REST = uid(100), uid(200)


@pytest.fixture
def units(tmp_path: Path) -> Units:
    """Two windows of `brace` that overlap, one of `rest`."""
    texts = [
        (uid(1), BRACE, "A brace eased the pain.\nIt lasted a year."),
        (uid(2), BRACE, "It lasted  a year. Gait was unchanged."),
        (uid(3), REST, "It lasted a year."),
    ]
    rows = [row(UNITS, unit_id=unit, doc_id=doc, text=text) for unit, doc, text in texts]
    inputs = {
        "windows": [write(rows, UNITS, tmp_path / "w.parquet")],
        "documents": [
            documents(
                [{"doc_id": BRACE, "source_id": "brace"}, {"doc_id": REST, "source_id": "rest"}],
                tmp_path / "d.parquet",
            )
        ],
    }
    BuildUnits().build(inputs, tmp_path, Place())
    return Units(tmp_path)


def question(*gold: tuple[str, str, int], query_id: str = "q") -> dict[str, Any]:
    return {
        "query_id": query_id,
        "text": "?",
        "gold": [{"doc": doc, "quote": quote, "relevance": n} for doc, quote, n in gold],
    }


def test_every_window_that_holds_the_quote_is_judged(units: Units) -> None:
    """And none of another document with the same words."""
    qrels = window_qrels([question(("brace", "It lasted a year.", 2))], units)
    assert qrels == {"q": {uid(1): 2, uid(2): 2}}


def test_the_best_relevance_stands(units: Units) -> None:
    gold = [("brace", "eased", 1), ("brace", "lasted a year", 2), ("brace", "pain.", 1)]
    for quotes in (gold, gold[::-1]):
        assert window_qrels([question(*quotes)], units) == {"q": {uid(1): 2, uid(2): 2}}


def test_blanks_and_line_ends_do_not_count(units: Units) -> None:
    qrels = window_qrels([question(("brace", " pain.  It\n", 1))], units)
    assert qrels == {"q": {uid(1): 1}}


def test_statements_that_an_answer_has_to_make(units: Units) -> None:
    """A statement is a quote of relevance 2, in all windows that hold it."""
    first = question(("brace", "pain.", 2), ("rest", "year", 1), query_id="a")
    quotes = quote_windows([first, question(("rest", "year", 1), query_id="b")], units)
    assert quotes["b"] == [(1, quotes["a"][1][1])]
    assert must_have(quotes) == {"a": [quotes["a"][0][1]]}


def test_questions_are_judged_apart_and_none_without_gold(units: Units) -> None:
    questions = [
        question(("brace", "Gait", 1), ("rest", "year", 1), query_id="a"),
        question(query_id="b"),
        question(("rest", "year", 3), query_id="c"),
    ]
    assert window_qrels(questions, units) == {"a": {uid(2): 1, uid(3): 1}, "c": {uid(3): 3}}


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        (("brace", "lasted two years", 1), "no window of brace holds its quote"),
        (("nowhere", "year", 1), "no document 'nowhere' is here; build its corpus"),
    ],
)
def test_a_quote_that_is_in_no_window_is_named(
    units: Units, gold: tuple[str, str, int], said: str
) -> None:
    with pytest.raises(ValueError, match=f"question q: {said}"):
        window_qrels([question(gold)], units)


def test_gold_is_read(tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    rows = [question(("brace", "x", 1)), {**question(), "query_id": "r", "text": "Übung?"}]
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), "utf-8")
    assert list(read_gold(path)) == rows


@pytest.mark.parametrize("line", ['{"query_id": "q", "text": "?"}',
                                  '{"query_id": "q", "text": "?", "gold": null}'])  # fmt: skip
def test_a_question_that_names_no_gold_has_none(tmp_path: Path, line: str) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text(line + "\n")
    assert [row["gold"] for row in read_gold(path)] == [[]]


@pytest.mark.parametrize(
    "line",
    [
        "{", "[]", '"x"', "5", '{"text": "?"}', '{"gold": []}', '{"gold": 5, "text": "?"}',
        '{"gold": 5, "text": "?", "query_id": "r"}', '{"gold": "x", "text": "?", "query_id": "r"}',
        '{"gold": [], "text": "?"}', '{"gold": [], "text": "\\ud800", "query_id": "r"}',
    ],
)  # fmt: skip
def test_a_bad_line_of_gold_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text(json.dumps(question()) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=r"gold\.jsonl:2: not a question with `gold`"):
        list(read_gold(path))


@pytest.mark.parametrize(
    "gold", ['[{"doc": "d", "quote": "x"}]', '[{"doc": "d", "relevance": 1}]', '["x"]', '"x"']
)
def test_a_gold_entry_that_is_none_is_named(tmp_path: Path, gold: str) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text(f'{{"query_id": "q", "text": "?", "gold": {gold}}}\n')
    try:
        read = list(read_gold(path))
    except ValueError:
        return
    raise AssertionError(f"{read} was taken for questions")


def test_an_empty_quote_is_no_quote(units: Units) -> None:
    with pytest.raises(ValueError, match="question q"):
        window_qrels([question(("brace", " ", 1))], units)


def test_paths_inside_a_package() -> None:
    import srrag

    path = resource_path("pkg://srrag/core/schema.py")
    assert path == Path(srrag.__file__).parent / "core" / "schema.py"
    assert path.is_file()
    assert resource_path("some/where") == Path("some/where")


QUESTIONS = [{"query_id": f"q{n}"} for n in range(300)]


def test_every_question_is_on_one_side() -> None:
    train, test = (questions_of(QUESTIONS, split) for split in ("train", "test"))
    assert sorted(row["query_id"] for row in train + test) == sorted(
        row["query_id"] for row in QUESTIONS
    )
    assert 70 < len(test) < 130
    assert questions_of(iter(QUESTIONS), None) == QUESTIONS


def test_a_question_keeps_its_side_among_others() -> None:
    assert questions_of(QUESTIONS[50:60], "test") == [
        row for row in QUESTIONS[50:60] if row in questions_of(QUESTIONS, "test")
    ]
    assert (split_of("acl-03"), split_of("acl-01")) == ("test", "train")


def test_another_split_is_named() -> None:
    with pytest.raises(ValueError, match=r"bench\.split=dev"):
        questions_of(QUESTIONS, "dev")
