from __future__ import annotations

import random
import re
import time

import pytest

from srrag.systems.biogen.paragraph import capped, read_numbers, without_markers

IDS = [f"e{n}" for n in range(1, 17)]
ARTICLES = [str(100 + n // 2) for n in range(16)]  # two pieces of evidence each


def cites(paragraph: str) -> list[tuple[str, list[str]]]:
    found = capped(paragraph, IDS, ARTICLES)
    return [(each["text"], each["evidence_ids"]) for each in found.sentences]


@pytest.mark.parametrize(
    ("text", "numbers", "outside"),
    [
        ("[1]", [1], 0),
        ("[1, 3] and [2-4]", [1, 3, 2, 4], 0),
        ("[1][2]", [1, 2], 0),
        ("[2–3; 5]", [2, 3, 5], 0),
        ("[0]", [], 1),
        ("[4-2]", [], 1),
        ("[99]", [], 1),
        ("[1-99]", [*range(1, 17)], 83),
        ("[1-1000000]", [*range(1, 17)], 999984),
        ("[" + "9" * 5000 + "]", [], 1),
        ("[1-" + "9" * 5000 + "]", [], 1),
        ("[[3]]", [3], 0),
        ("[31415926]", [], 1),
        ("[PMID 3] (3) [a] []", [], 0),
    ],
)
def test_markers(text: str, numbers: list[int], outside: int) -> None:
    assert read_numbers(text, 16) == (numbers, outside)


def test_a_marker_belongs_to_its_sentence_before_or_behind_the_stop() -> None:
    expected = [("Zinc helps.", ["e1"]), ("Rest does not.", ["e3"])]
    assert cites("Zinc helps [1]. Rest does not [3].") == expected
    assert cites("Zinc helps. [1] Rest does not. [3]") == expected
    assert cites("Zinc helps.[1] Rest does not.[3]") == expected
    assert cites("Zinc helps [1]. Rest does not [3]") == [expected[0], ("Rest does not", ["e3"])]


def test_three_articles_a_sentence_each_once() -> None:
    """e1 and e2 are one article; of five articles the first three stay."""
    assert cites("Zinc helps [1-16].") == [("Zinc helps.", ["e1", "e3", "e5"])]
    assert cites("Zinc helps [2][1][2].") == [("Zinc helps.", ["e2"])]


def test_a_sentence_without_citation_is_dropped() -> None:
    found = capped("Zinc is a metal. It helps [1]. So they say [99].", IDS, ARTICLES)
    assert [each["text"] for each in found.sentences] == ["It helps."]
    assert (found.invalid, found.dropped) == (1, 2)


def test_the_last_sentences_go_until_the_cap_holds() -> None:
    long = f"Word {'word ' * 119}ends [1]. "
    found = capped(long * 3 + "Short [2].", IDS, ARTICLES)
    assert len(found.sentences) == 2
    assert found.dropped == 2
    assert capped("word " * 5000 + "[1]", IDS, ARTICLES).sentences == []
    assert capped("a b c [1]. D [2].", IDS, ARTICLES, words=3).sentences[0]["text"] == "a b c."


def test_nothing_to_cite() -> None:
    found = capped("Zinc helps [1].", [], [])
    assert (found.sentences, found.invalid, found.dropped) == ([], 1, 1)
    assert capped("", IDS, ARTICLES) == ([], 0, 0)


@pytest.mark.parametrize("text", ["[[1]2] yes", "a [1[2]3]", "see [ 1 ]", "[1][[2]]", "[【1】]"])
def test_no_text_reads_as_if_it_cited(text: str) -> None:
    assert not re.search(r"\[\d[\d ,;–-]*\]", without_markers(text))


PIECES = [
    "[1-99]", "[1][1]", "[[2]]", "[1, [2]]", "[4-2]", "[0]", "[1-1000000]", "[3]", "[2-4]",
    "[1,3]", ".", ". ", "! ", "? ", "\n\n", " ", "e.g. ", "Zinc helps adults", "p = 0.03", "5,000 ",
    "…", "]", "[", "(", ")", "| a | b |", "# Heading\n", "“said”", "高负荷", "\u2028", "[12345678]",
    "**bold**",
    "word " * 90, "x" * 300, "[" * 40, "[1" * 30, "1]" * 30,
]  # fmt: skip


def test_fuzzed_paragraphs_keep_every_cap() -> None:
    draw = random.Random(7)
    started, kept = time.perf_counter(), 0
    for _ in range(1000):
        paragraph = "".join(draw.choice(PIECES) for _ in range(draw.randint(0, 60)))
        size = draw.choice([0, 1, 5, 16])
        found = capped(paragraph, IDS[:size], ARTICLES[:size])
        articles = dict(zip(IDS, ARTICLES, strict=True))
        assert sum(len(each["text"].split()) for each in found.sentences) <= 250
        for each in found.sentences:
            cited = each["evidence_ids"]
            assert 1 <= len(cited) <= 3
            assert set(cited) <= set(IDS[:size])
            assert len({articles[name] for name in cited}) == len(cited)
            assert each["text"]
            assert not re.search(r"\[\d[\d ,;–-]*\]", each["text"])
        assert found.invalid >= 0
        assert found.dropped >= 0
        kept += len(found.sentences)
    assert kept > 500
    assert time.perf_counter() - started < 10


def test_a_hostile_paragraph_takes_little_time() -> None:
    for text in ("[1" * 20_000, "[1,1" * 20_000, "." * 50_000, "[1-" * 20_000, "[1] " * 20_000):
        started = time.perf_counter()
        capped(text, IDS, ARTICLES)
        assert time.perf_counter() - started < 2
