import itertools
import random

import pytest

from srrag.reading.prose import sentence_spans


def cut(text: str) -> list[str]:
    return [text[low:high] for low, high in sentence_spans(text)]


@pytest.mark.parametrize(
    "whole",
    [
        "Pain fell more with exercise vs. Usual care (40% vs. 83%).",
        "Kaur et al. Reported less pain, as did Smith et al. (2010).",
        "The index fell by 0.5 points (P = 0. 05, P<.001) at 1.5 years.",
        "As Fig. 2 and ref. 12 show, see p. 5 and No. 7 and Dr. House.",
        "The method of J. Cyriax and A. B. Smith was used in the U.S. Army, i.e. In camps.",
        "The effect (mean 1.2, i.e. 3 points) was small, e.g. 5 of 7.",
        "1. Participants were adults",
        "Is it so? yes, it is.",
        "S. aureus, E. coli and p53 were found.",
        "Outcome Measures. Pain was the primary outcome.",
        "Material and Methods. We drew lots.",
    ],
)
def test_a_stop_inside_a_sentence_does_not_end_it(whole: str) -> None:
    assert cut(whole) == [whole]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Pain fell in group A. The index rose.", "Pain fell in group A."),
        ("There were no results. Pain fell.", "There were no results."),
        ("They took vitamin C. Pain fell.", "They took vitamin C."),
        ("Was there harm? No. There was none.", "Was there harm?"),
        ("There was no harm, no. The trial ended.", "There was no harm, no."),
        ("It fell (P < .05). 12 patients died.", "It fell (P < .05)."),
        ("It fell.[12, 13] Then it rose.", "It fell.[12, 13]"),
        ("It fell.12,13 Then it rose.", "It fell.12,13"),
        ('He said "it fell." Then it rose.', 'He said "it fell."'),
        ("Dose was 5 mg. “High” doses were barred.", "Dose was 5 mg."),
        ("疼痛减轻。没有不良事件。", "疼痛减轻。"),
        ("It fell.\nThen it rose.", "It fell."),
        ("It lasted long. Étienne left.", "It lasted long."),
    ],
)
def test_a_sentence_ends_at_its_stop(text: str, first: str) -> None:
    assert cut(text)[0] == first
    assert len(cut(text)) > 1


def test_headings_rows_and_items_are_spans_of_their_own() -> None:
    text = (
        "## Results\nPain fell\nin both arms. It rose later.\n\n| arm | n |\n|---|---|\n| A | 3 |\n"
        "**Harms**\n- None in A\n- One in B\n\nEnd"
    )
    assert cut(text) == [
        "## Results",
        "Pain fell\nin both arms.",
        "It rose later.",
        "| arm | n |\n|---|---|",
        "| A | 3 |",
        "**Harms**",
        "- None in A",
        "- One in B",
        "End",
    ]


def test_a_text_without_words_is_one_span_and_an_empty_one_none() -> None:
    assert cut(" --- \n\n *** ") == ["--- \n\n ***"]
    assert cut(" \n\t") == []


def test_the_spans_hold_every_character_but_blanks_in_order() -> None:
    draw = random.Random(7)
    parts = [
        *"aZ5.!?。|#*- \n\r\t\"'”[]()é\u2028\ufeff",
        "vs. ",
        "et al. ",
        "\n\n",
        "## ",
        ". A",
        "1. ",
    ]
    for _ in range(2_000):
        text = "".join(draw.choices(parts, k=draw.randrange(40)))
        spans = sentence_spans(text)
        assert "".join("".join(text[low:high] for low, high in spans).split()) == "".join(
            text.split()
        )
        for (_, high), (low, _) in itertools.pairwise(spans):
            assert high <= low
        for low, high in spans:
            assert low < high
            assert text[low:high] == text[low:high].strip()


@pytest.mark.parametrize(
    "piece", ["1. ", "A. ", ". ", "vs. B", "a.1,2", "|", "(\n", '."" ', "[1] "]
)
def test_a_long_text_of_marks_is_read_at_once(piece: str) -> None:
    sentence_spans(piece * (300_000 // len(piece)))
