import itertools
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.reading.prose import (
    find_quote,
    has_no_results,
    plain,
    section_role,
    sentence_spans,
    split_sentences,
)


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


def texts(window: str, section: str = "") -> list[str]:
    return [sentence.text for sentence in split_sentences(window, section)]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("Pain fell (p < 0.05). Function rose.", ["Pain fell (p < 0.05).", "Function rose."]),
        ("Smith et al. 2019 agree. So do we.", ["Smith et al. 2019 agree.", "So do we."]),
        ("HIIT vs. MICT was safe. See Fig. 2 for it.", ["HIIT vs. MICT was safe.",
                                                        "See Fig. 2 for it."]),
        ("The gain was 2.5 kg. It held.", ["The gain was 2.5 kg.", "It held."]),
        ("Is it so? Yes! \"Quite.\" Done.", ["Is it so?", "Yes!", "\"Quite.\"", "Done."]),
        ("A dose of vitamin D. The rest fell.", ["A dose of vitamin D.", "The rest fell."]),
        ("Trial no. 12 ended. We say no. They left.", ["Trial no. 12 ended.", "We say no.",
                                                       "They left."]),
        ("e.g. Walking helps. U.S. Guidelines agree.", ["e.g. Walking helps.",
                                                        "U.S. Guidelines agree."]),
        ("soft\nwrapped line. Next", ["soft wrapped line.", "Next"]),
        ("", []),
    ],
)  # fmt: skip
def test_stops_that_end_a_sentence(window: str, expected: list[str]) -> None:
    assert texts(window) == expected


def test_headings_tables_and_marks_are_not_shown() -> None:
    window = "## Results\n\n| a | b |\n|---|---|\n\n- **Pain** fell.\n- `It` held.\n\n---\n"
    assert texts(window) == ["Pain fell.", "It held."]


def test_stars_of_significance_stay() -> None:
    assert plain("12.3** vs 13.1**  cm\n__x__") == "12.3** vs 13.1** cm x"


def test_bracketed_numbers_cannot_look_like_citations() -> None:
    assert (
        plain("true [1][2, 3] and 【4】 or [^5], CI [low]")
        == "true (1)(2, 3) and (4) or (5), CI [low]"
    )


def test_roles_come_from_heading_label_or_section() -> None:
    window = "METHODS: We ran. It was long. CONCLUSIONS: It works.\n\n# Results\n\nIt fell."
    found = split_sentences(window, "Part > Background")
    assert [(s.role, s.text) for s in found] == [
        ("method", "We ran."),
        ("method", "It was long."),
        ("conclusion", "It works."),
        ("result", "It fell."),
    ]
    assert split_sentences("One.", "Results > Background")[0].role == "background"
    assert section_role("Main outcome measures") == "method"
    assert section_role("Acknowledgement") == ""


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(["A. ", "b", "\n", "#", "|", "**"])).map("".join))
)
def test_sentences_are_one_line_and_never_blank_or_marked(window: str) -> None:
    for sentence in split_sentences(window):
        assert sentence.text == sentence.text.strip() != ""
        assert not any(mark in sentence.text for mark in ("[1]", "\n"))


@pytest.mark.parametrize("piece", ["a. ", "A. ", "**a ", "[1 ", "A:", "x", "__", "et al. A", "#\n"])
def test_time_stays_linear(piece: str) -> None:
    start = time.process_time()
    split_sentences(piece * (200_000 // len(piece)))
    assert time.process_time() - start < 60


PLAN = "Ninety adults will be randomised. They will receive laser or sham. Pain will be measured."


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Laser for knee osteoarthritis: study protocol for a randomised trial", ""),
        ("Protocol: does nitrite protect the heart in infarction?", "It is randomised."),
        ("Protocol for a multicentre randomised trial of casts", "Adults are treated at home."),
        ("The IDEA trial: design and rationale", "Adults with overweight are randomised."),
        ("Laser for knee osteoarthritis", PLAN),
        ("Laser: study protocol", "Exercise was significantly better than rest in another trial."),
        ("Laser", "This is a protocol for a randomised trial. Adults will be recruited."),
        ("Laser", "## Methods/design\n\nA total of 226 adults will be recruited."),
        ("Laser", "We will randomise 226 adults to laser or sham. The outcome is pain."),
        ("Laser", "This multicentre randomised trial will enroll 226 adults with knee pain."),
        ("Laser", "We plan to recruit adults with knee pain from three clinics."),
        ("Laser", "We will measure pain. We will collect costs. We will analyse both."),
    ],
)
def test_a_paper_that_plans_a_study_has_no_results(title: str, text: str) -> None:
    assert has_no_results(title, text)


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Dry needling in a therapeutic exercise protocol", "Pain fell more with needling."),
        ("Two protocols of exercise after knee surgery", "Strength did not differ."),
        ("Laser for knee osteoarthritis", f"{PLAN} Pain was 2 points lower (P = 0.03)."),
        ("Laser", "## Methods/design\n\n226 adults were recruited."),
        ("A trial of casts", "Casts will be cheaper. The groups were compared at a year."),
        ("A trial of casts", "Pain fell. A later trial will enrol older adults."),
        ("A trial of casts", "Pain fell. We will be glad to enrol others. This trial will help."),
        ("Laser: study protocol and its results", "Pain fell by 2 points (95% CI 1 to 3)."),
    ],
)
def test_a_paper_that_reports_is_no_protocol(title: str, text: str) -> None:
    assert not has_no_results(title, text)


FORGIVEN = [
    ("fell by -2.1 points", "Pain fell by −2.1 points.", "fell by −2.1 points"),
    ('a "clear" effect', "Found a “clear” effect.", "a “clear” effect"),
    ("a 'clear' effect", 'Found a "clear" effect.', 'a "clear" effect'),
    ("the 12-month visit", "At the 12‑month visit", "the 12‑month visit"),
    ("6-12 weeks", "for 6–12 weeks", "6–12 weeks"),
    ("primary outcome: Pain", "Primary  Outcome:\n pain at rest", "Primary  Outcome:\n pain"),
    ("(95% CI 6 to 52; p=0.016)", "lower (95 % CI 6 to 52; P = 0.016).",
     "(95 % CI 6 to 52; P = 0.016)"),
    ("1.8 points", "by 1·8 points", "1·8 points"),
    ("die Ärzte", "Sagen die A\u0308rzte", "die A\u0308rzte"),
    ("'Schmerz' nahm ab", "Der „Schmerz“ nahm ab.", "„Schmerz“ nahm ab"),
    ("el 'dolor' disminuyó", "Que el «dolor» disminuyó.", "el «dolor» disminuyó"),
    ("efficient", "It is e\ufb03cient.", "e\ufb03cient"),
    ("exer\u00adcise", "Exercise helps", "Exercise"),
    ("p <= 0.05", "with p ≤ 0.05", "p ≤ 0.05"),
    ("Pain was lower.", "Pain was lower, and function better.", "Pain was lower"),
    ("pain was lower...", "And pain was lower in both", "pain was lower"),
]  # fmt: skip


@pytest.mark.parametrize(("quote", "text", "found"), FORGIVEN)
def test_typography_is_forgiven_and_places_are_those_of_the_text(
    quote: str, text: str, found: str
) -> None:
    span = find_quote(quote, text)
    assert span is not None
    assert text[slice(*span)] == found


def test_an_exact_whole_quote_is_preferred() -> None:
    assert find_quote("rest", "REST, arrest; resting; rest") == (23, 27)


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("placebo", "no control group"),
        ("", "text"),
        (" \n", "text"),
        ("...", "no... more"),
        ("arr", "Cardiac arrest"),
        ("2.1 points", "by 12.1 points"),
        ("p < 0.05", "p > 0.05"),
        ("1 point", "0.1 point"),
        ("by 2", "by 2.5 points"),
        ("fell by 2.1", "fell by 21"),
        ("control . group", "no control group"),
    ],
)
def test_what_is_not_there_is_not_found(quote: str, text: str) -> None:
    assert find_quote(quote, text) is None


def test_writing_without_blanks_has_no_words_to_cut() -> None:
    assert find_quote("疼痛", "运动减轻疼痛了") == (4, 6)


@given(st.text(max_size=60))
def test_a_text_is_found_in_itself(text: str) -> None:
    assert (find_quote(text, f"({text})") is not None) == any(map(str.isalnum, text))
