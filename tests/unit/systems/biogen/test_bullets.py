from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from srrag.core.schema import EVIDENCE, empty_value
from srrag.core.spec import evidence_id
from srrag.core.step import Place
from srrag.systems.biogen.bullets import CUT, SelectBullets
from srrag.systems.biogen.paragraph import quotes

BLANK = {item.name: empty_value(item.type) for item in EVIDENCE.value_type}
QUESTION = "Does zinc shorten the common cold?"
TEXTS = [
    "Taping prevents ankle sprains in athletes.",
    "Zinc shortens the common cold by a day.",
    "Zinc shortens the common cold by one day.",
    "Zinc may cause nausea and a bad taste.",
]


def documents(*texts: str, start: int = 0) -> list[dict[str, Any]]:
    return [
        BLANK
        | {"evidence_id": f"d{n}", "kind": "document", "unit_id": f"u{n}", "pmid": str(n)}
        | {"char_start": start, "char_end": start + len(text), "text": text}
        for n, text in enumerate(texts, start=1)
    ]


def chosen(*texts: str, start: int = 0, **fields: Any) -> list[dict[str, Any]]:
    table = pa.table(
        {
            "text": [QUESTION],
            "reformulations": pa.array([["zinc cold"]], pa.list_(pa.string())),
            "summaries": pa.array([documents(*texts, start=start)], EVIDENCE),
        }
    )
    (row,) = SelectBullets(**fields).open(Place())(table)["evidence"].to_pylist()
    return list(row)


def texts_of(bullets: list[dict[str, Any]]) -> list[str]:
    return [each["text"] for each in bullets]


def test_rank_keeps_the_order_of_the_documents() -> None:
    assert texts_of(chosen(*TEXTS, relevance="rank")) == TEXTS
    assert texts_of(chosen(*TEXTS, relevance="rank", n=2)) == TEXTS[:2]


def test_tfidf_begins_with_the_nearest_and_puts_off_its_twin() -> None:
    found = texts_of(chosen(*TEXTS, relevance="tfidf", diversity=0.3))
    assert found[0] == TEXTS[1]
    assert found.index(TEXTS[2]) > 1
    alike = texts_of(chosen(*TEXTS, relevance="tfidf", diversity=1.0))
    assert alike[:2] == [TEXTS[1], TEXTS[2]]


def test_both_weighs_rank_and_words() -> None:
    """By rank the first is worth 1 and the second 15/16, which words make up for."""
    found = texts_of(chosen(*TEXTS, rank_weight=0.5))
    assert found[0] == TEXTS[1]
    assert found.index(TEXTS[0]) < texts_of(chosen(*TEXTS, relevance="tfidf")).index(TEXTS[0])
    assert texts_of(chosen(*TEXTS, rank_weight=1.0, diversity=1.0)) == TEXTS


def test_bullets_are_cut_and_few_a_document() -> None:
    text = " ".join(
        f"Sentence {name} speaks of zinc and colds." for name in ("one", "two", "three")
    )
    assert len(chosen(text + " Four speaks of zinc too.", relevance="rank")) == 3
    assert len(chosen(text, relevance="rank", per_document=1)) == 1
    long = "Zinc shortens the cold " + "word " * 40
    (only,) = chosen(long, relevance="rank")
    assert only["text"] == f"Zinc shortens the cold {'word ' * 24}…"
    assert (only["char_start"], only["char_end"]) == (0, len(only["text"]) - len(CUT))


def test_a_cut_behind_a_bracket_is_marked() -> None:
    text = f"Zinc shortens {'word ' * 22}the cold (OR 0.50) but only in men, not in women."
    (only,) = chosen(text, start=7, relevance="rank")
    assert only["text"] == f"{text.partition(' but')[0]} …"
    assert text[: only["char_end"] - 7] == text.partition(" but")[0]
    assert quotes({"text": QUESTION, "evidence": [only]}, []) == f"{only['text']} [1]"


def test_the_sentence_of_a_models_summary_stays_whole() -> None:
    long = "Zinc shortens the cold " + "word " * 40 + "by a day (p = .01)."
    (document,) = documents(long)
    (only,) = SelectBullets().bullets([document | {"kind": "summary"}])
    assert only.text == long


def test_a_bullet_knows_where_it_stands() -> None:
    text = "Zinc is a metal of old. Zinc shortens the common cold by a day."
    first, second = chosen(text, start=100, relevance="rank")
    assert (first["char_start"], second["char_start"]) == (100, 124)
    assert second["char_end"] - second["char_start"] == len(second["text"])
    assert second["kind"] == "bullet"
    assert second["evidence_id"] == evidence_id("bullet", "u1", second["text"])
    assert second["pmid"] == "1"


def test_a_text_that_is_not_verbatim_has_no_span() -> None:
    (only,) = chosen("Zinc shortens the cold, they say.", start=-1, relevance="rank")
    assert (only["char_start"], only["char_end"]) == (-1, -1)
    (only,) = chosen("Zinc  shortens\nthe cold, they say.", start=5, relevance="rank")
    assert (only["char_start"], only["char_end"]) == (-1, -1)


def test_fragments_and_repetitions_are_left_out() -> None:
    assert chosen("The par", "O.", "", "described.") == []
    twice = "Zinc shortens the common cold. Zinc shortens the common cold."
    assert len(chosen(twice, relevance="rank")) == 1


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"relevance": "bm25"}, "relevance"),
        ({"n": 0}, "at least 1"),
        ({"words": 0}, "at least 1"),
        ({"diversity": 1.5}, "diversity"),
        ({"rank_weight": -0.1}, "rank_weight"),
    ],
)
def test_settings_that_do_not_work(fields: dict[str, Any], hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        SelectBullets(**fields)
