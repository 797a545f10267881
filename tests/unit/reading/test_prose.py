import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.reading.prose import plain, section_role, split_sentences


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
    assert time.process_time() - start < 5
