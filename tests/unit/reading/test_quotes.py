import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.reading.prose import find_quote

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
