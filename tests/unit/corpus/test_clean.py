# ruff: noqa: E501 (inputs read better whole)
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.corpus.clean import (
    tidy_document,
    tidy_inline,
    unescape,
)
from tests.timing import cpu_seconds

SHARED = Path(__file__).parents[4] / "shared/data"
DIRTY = SHARED / "bioasq/dirty_snippets.jsonl"
ANGLES = SHARED / "ingestion/angle_brackets.jsonl"

# fmt: off
PIECES = st.sampled_from(
    [
        "5mg", "5 mg", "53 %", "1–10", "2×2", "2 x 2", "0x10", "3·5", "−5", "±2", "+/-", "µg", "37 ° C",
        "\x92", "\u200b", "\u00a0", "\u2009", "\t", "\n", "\n\n", "\f", "\r\n", " ", "  ", "# Head", "References",
        "## References", "1. Smith A. 2001", "[3] Jones 1999", "© 2020 Elsevier.", "Copyright 2019 X", ".",
        "Page 3 of 9", "Journal of Y doi 10.1", "e\u0301", "\u0301", "- item", "| a | b |", "12", "B12", "IL-5", ",",
        "Appendix", "(c) 2011 Z", "**References**", "et al.", "www.x.org page 4", "*", "#",
    ]
)
# fmt: on
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=40).map("".join))


def clean_inline(text: str) -> str:
    return tidy_inline(unescape(text))


def clean_document(text: str) -> str:
    return tidy_document(unescape(text))


def digits(text: str) -> str:
    return "".join(char for char in text if char.isdigit())


@pytest.mark.skipif(not DIRTY.exists(), reason="the shared BioASQ snippets are not here")
def test_inline_cleaner_gives_exactly_the_reference_for_every_dirty_snippet() -> None:
    pairs = [json.loads(line) for line in DIRTY.open(encoding="utf-8")]
    assert len(pairs) == 253
    wrong = [pair["raw"] for pair in pairs if clean_inline(pair["raw"]) != pair["clean"]]
    assert wrong == []


@pytest.mark.skipif(not ANGLES.exists(), reason="the shared angle-bracket passages are not here")
def test_comparisons_in_angle_brackets_survive_unchanged() -> None:
    texts = [json.loads(line)["text"] for line in ANGLES.open(encoding="utf-8")]
    assert len(texts) == 88
    assert [text for text in texts if clean_inline(text) != text] == []


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("the &amp;quot;drug&amp;quot;", "the &quot;drug&quot;"),
        ("p &lt; 0.05", "p < 0.05"),
        ("p&lt0.05 &unknown; AT&T", "p&lt0.05 &unknown; AT&T"),
        ("&#8217; &#x2019; &#146;", "’ ’ ’"),
        ("Crohn\x92s", "Crohn’s"),
        ("Guillain-\u200bBarré", "Guillain-Barré"),
        ("6\u00a0min\u2009walk\u202ftest", "6 min walk test"),
        ("CO<sub>2</sub> and 10<sup>6</sup> cells", "CO2 and 10^6 cells"),
        ("Age was 65.<sup>12</sup> In 45%<sup>3</sup> it fell", "Age was 65.^12 In 45%^3 it fell"),
        ("10 <sup>9</sup>/L or 10<sup> 6</sup>/L", "10^9/L or 10^6/L"),
        ("10<sup>&nbsp;6</sup> or 10<sup>&#8202; &minus;6</sup>", "10^6 or 10^\u22126"),
        ("10<sup><i>6</i></sup> or <i>10</i><sup>6</sup>", "10^6 or 10^6"),
        ("10<sup>&minus;6</sup> or 10<sup>&#8722;6</sup>", "10^\u22126 or 10^\u22126"),
        ("of 20 <sup>131</sup>I scans, 10 <sup>99m</sup>Tc", "of 20 131I scans, 10 99mTc"),
        ("<td>12</td><td><sup>3</sup></td>", "12 3"),
        ("<p class='x'>one</p><p>two</p>", "one two"),
        ("if a<b and c>d", "if a<b and c>d"),
        ("aged<70 and>70", "aged<70 and>70"),
        ("&lt;b&gt; is a tag", "<b> is a tag"),
        ("e\u0301", "é"),
        ("\ud800lone", "lone"),
    ],
)
def test_clean_inline(raw: str, clean: str) -> None:
    assert clean_inline(raw) == clean


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("5mg of 10  ml", "5 mg of 10 ml"),
        ("53 % (1–10)", "53% (1-10)"),
        ("−5.2 ± 3 and 5+/-2", "-5.2 ± 3 and 5 ± 2"),
        ("3×10 and 3 x 10 and 0x10", "3 × 10 and 3 × 10 and 0x10"),
        ("3·5 (2·1–4·0) but 5·10^3", "3.5 (2.1-4.0) but 5·10^3"),
        ("5µg, 5μg, 37 ° C", "5 μg, 5 μg, 37 °C"),
        ("IL-5g, B12 g, /5mg, 20-min walk", "IL-5g, B12 g, /5mg, 20-min walk"),
        ("1,000mg a day", "1,000 mg a day"),
    ],
)
def test_numerals_and_units_take_one_form_in_documents(raw: str, clean: str) -> None:
    assert tidy_document(raw) == clean


def test_document_keeps_headings_lists_and_tables() -> None:
    text = "# T\n\n\n\n## A\n- one\n    - two\n\n| a  | b |\n| --- | --- |\n| 1 | 2 |"
    assert clean_document(text) == (
        "# T\n\n## A\n- one\n    - two\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"
    )


def test_page_headers_footers_and_numbers_go() -> None:
    pages = [f"Journal of Tendons 2020\nBody {word}.\n{n}" for n, word in enumerate("abcd", 1)]
    assert tidy_document("\f".join(pages)) == "Body a.\nBody b.\nBody c.\nBody d."


def test_running_lines_go_even_without_page_breaks_and_recurring_content_stays() -> None:
    strong = "Strong recommendation, moderate evidence"
    text = "\n\n".join(f"J Knee et al. page {n}\n\nFact {n}.\n\n{strong}" for n in range(1, 4))
    assert "et al." not in tidy_document(text)
    assert tidy_document(text).count(strong) == 3


def test_copyright_lines_go_and_their_neighbours_stay() -> None:
    text = "Pain fell by 3 points.\n© 2020 The Authors.\nIt lasted. Copyright © 2019 Elsevier Ltd."
    assert tidy_document(text) == "Pain fell by 3 points.\nIt lasted."
    assert tidy_document("We studied copyright law in 2019.") == "We studied copyright law in 2019."


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("© 2019 Elsevier Ltd. We randomised 100 patients. Mortality was 5% (P = 0.3).",
         "We randomised 100 patients. Mortality was 5% (P = 0.3)."),
        ("**© 2020 J. Adams et al. Published by Wiley. All rights reserved.** Dose: 5 mg.",
         "Dose: 5 mg."),
        ("It lasted. © 2020 The Authors. The dose must not exceed 5 mg in children.",
         "It lasted. The dose must not exceed 5 mg in children."),
        ("We compared (a) nothing, (b) aspirin and (c) 2000 IU heparin daily.",) * 2,
        ("We gave it as follows. (b) Aspirin daily. (c) 2000 IU heparin daily.",) * 2,
        ("(b) Aspirin daily.\n(c) 2000 IU heparin daily.",) * 2,
        ("It lasted. (c) 2019 S. Karger AG, Basel.", "It lasted."),
        ("Copyright © 2019 Adams. This is an open-access article. It may be copied under the terms "
         "of the Creative Commons licence.", ""),
    ],
)  # fmt: skip
def test_what_stands_behind_a_copyright_notice_stays(text: str, kept: str) -> None:
    assert tidy_document(text) == kept
    assert tidy_document(kept) == kept


def test_an_appendix_ends_a_reference_list_at_any_level() -> None:
    after = "### Appendix 1: Dosing in renal failure\nDo not give more than 5 mg."
    text = f"## References\n1. A. 2001\n2. B. 2002\n{after}"
    assert tidy_document(text) == after


def test_volumes_of_air_and_rows_of_results_are_no_running_lines() -> None:
    lines = [f"Tidal volume {n} ml/kg of weight" for n in (6, 8, 12)]
    lines += [f"Adams et al reported {n} deaths of 40" for n in (3, 4, 5)]
    assert tidy_document("\n".join(lines)) == "\n".join(lines)
    heads = "\n\n".join(f"Volume 12, Issue 2, page {n} | J Knee\n\nFact {n}." for n in (7, 8, 9))
    assert tidy_document(heads) == "Fact 7.\n\nFact 8.\n\nFact 9."


def test_only_numbers_that_count_with_the_pages_are_page_numbers() -> None:
    rows = [(23, 12), (15, 9), (19, 11)]
    pages = [
        f"Walking {2020} | page {n} of 30\nPlacebo {a} ({b}%)\nBody {a}.\nS{n + 33} J Knee 12"
        for n, (a, b) in enumerate(rows, 7)
    ]
    assert tidy_document("\f".join(pages)) == "\n".join(
        f"Placebo {a} ({b}%)\nBody {a}." for a, b in rows
    )


def test_reference_lists_go_and_what_follows_stays() -> None:
    text = "## Results\nGood.\n## References\n1. A. 2001\n### Web\n2. B. 2002\n## Appendix\nTable."
    assert tidy_document(text) == "## Results\nGood.\n## Appendix\nTable."
    bare = "Good.\nReferences\n[1] A. 2001\n[2] B. 2002\nAppendix\nTable."
    assert tidy_document(bare) == "Good.\nAppendix\nTable."


ITEMS = "\n".join(f"{n}. Adams B, Cole D. Walking. J Knee. 2019;{n}:2." for n in range(1, 7))
WRAPPED = "\n\n".join(
    f"{n}. Adams B, Cole D. Walking uphill\nand downhill and on the level in those\nwho have pain of"
    f" the knee or hip\nor back. J Knee. 2019;{n}:2." for n in range(1, 7)
)  # fmt: skip

INSTITUTIONS = (
    "World Health Organization\nInternational\nclassification of functioning\nGeneva, 2001\n\nNational"
    " Institute for Health and Care\nExcellence. Low back\npain in over sixteens\nLondon, 2016"
)
MIXED = f"{WRAPPED}\n\n{INSTITUTIONS}\n\n{WRAPPED}"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"Q is good.\n\nReferences\n\n{ITEMS}\n\nChapter 2\n\nNever give Q to children.\n\nReferences"
         f"\n\n{ITEMS}\n", "Q is good.\n\nChapter 2\n\nNever give Q to children."),
        (f"Q is good.\n\n**References**\n{ITEMS}\n\n**Chapter 2**\n\nNever give Q.", "Q is good.\n\n"
         "**Chapter 2**\n\nNever give Q."),
        (f"Q is good.\nReferences\n{ITEMS}\nChapter 2\nNot\nfor\nchildren\nor infants.", "Q is good.\n"
         "Chapter 2\nNot\nfor\nchildren\nor infants."),
        (f"Q is good.\n\nReferences\n\n{WRAPPED}\n\nChapter 2\n\nNever give Q.", "Q is good.\n\nChapter 2"
         "\n\nNever give Q."),
        (f"Q is good.\n\nReferences\n\n{ITEMS}\n\nFurther reading\n\n{ITEMS}", "Q is good."),
        (f"Q is good.\n\nReferences\n\n{MIXED}", "Q is good."),
        ("Q is good.\n\nReferences\n\n" + MIXED.replace("\n\n", "\n"), "Q is good."),
        (f"Q is good.\n\nReferences\n\n{MIXED}\n\nDiscussion\n\nQ helped (Smith 2001).\n\nIt is safe.",
         "Q is good.\n\nDiscussion\n\nQ helped (Smith 2001).\n\nIt is safe."),
    ],
)  # fmt: skip
def test_a_list_of_references_without_headings_ends_where_its_items_end(
    text: str, kept: str
) -> None:
    assert tidy_document(text) == kept
    assert tidy_document(kept) == kept


def test_the_bare_word_references_before_prose_stays() -> None:
    text = "References\nwere checked by two readers\nfor further trials"
    assert tidy_document(text) == text


@given(TEXTS)
@settings(max_examples=400, deadline=None)
def test_tidying_is_idempotent(text: str) -> None:
    assert tidy_inline(tidy_inline(text)) == tidy_inline(text)
    once = tidy_document(text)
    assert tidy_document(once) == once


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_cleaning_is_idempotent_where_no_mark_up_is_left(text: str) -> None:
    once = clean_document(text)
    if unescape(once) == once:
        assert clean_document(once) == once


@given(st.text(alphabet="0123456789 .,·–−-—×x±+/%mgµlLhC°()IB\n", max_size=120))
@settings(max_examples=500, deadline=None)
def test_no_digit_is_ever_changed(text: str) -> None:
    assert digits(tidy_inline(text)) == digits(text)
    if not any(line.strip() for line in text.splitlines() if line.strip().startswith("(c)")):
        assert digits(tidy_document(text)) == digits(text)


# fmt: off
ADVERSARIAL = [
    "<b ", '<b a="x" ', "<", " ", "1,", "1 ", "a", "&", "&a", "5 x ", "\n", "# ", "References\n",
    "References\n1. x\n", "page 1 journal\n", "© ", ". © 2", "a\f", "·5", "(c)", "copyright ", "[1]",
    "1", "*", "doi ", "References\n\n\n\n", "<b a=", "±", "\u0301",
]
# fmt: on


@pytest.mark.slow
@pytest.mark.parametrize("piece", ADVERSARIAL)
def test_anything_is_cleaned_in_linear_time(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        return cpu_seconds(lambda: (clean_document(text), clean_inline(text)), runs=1)

    seconds(1000)
    # Ten times the text; quadratic work would be a hundred times the time.
    assert any(seconds(100_000) < 40 * max(seconds(10_000), 0.01) for _ in range(3))
