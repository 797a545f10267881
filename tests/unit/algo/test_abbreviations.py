from __future__ import annotations

import pytest

from srrag.reading.concepts import abbreviations, long_form


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "In chronic obstructive pulmonary disease (COPD) it helps.",
            [("COPD", "chronic obstructive pulmonary disease")],
        ),
        ("The heat shock factor (HSF) binds.", [("HSF", "heat shock factor")]),
        ("Myocyte enhancer factor 2C (MEF2C) is.", [("MEF2C", "Myocyte enhancer factor 2C")]),
        ("We used magnetic resonance imaging (MRI; 3 T).", [("MRI", "magnetic resonance imaging")]),
        ("It rose by half (P < 0.05) in adults (n = 12).", []),
        ("Adults (see Table) were asked (in 2012).", []),
        ("It was cold. Zinc (COPD) helps.", []),
        ("amyotrophic lateral sclerosis (ALS) and Alzheimer's disease (AD)",
         [("ALS", "amyotrophic lateral sclerosis"), ("AD", "Alzheimer's disease")]),
        ("Adults (mean 40) had tumour necrosis factor (TNF).", [("TNF", "tumour necrosis factor")]),
        ("heat and very very shock factor (HSF)", [("HSF", "heat and very very shock factor")]),
        ("heat and very very very shock factor (HSF)", []),  # more than twice its letters away
        ("Of interleukin 6 (IL-6) in blood.", [("IL-6", "interleukin 6")]),
        ("An acute bleed (AB*) is marked.", []),
        ("Of self efficacy (se) and more.", []),
        ("A COPD outcome patient diary (COPD) is kept.", []),
        ("It is AB CD (AB CD) here.", []),
        ("An extremely long label (EXTREMELYLL) is.", []),
        ("of a big cold deep east (A B C DE)", []),
        ("", []),
        ("((((ABC", []),
    ],
)  # fmt: skip
def test_definitions(text: str, expected: list[tuple[str, str]]) -> None:
    assert list(abbreviations(text)) == expected


def test_the_shortest_stretch_of_whole_words() -> None:
    assert long_form("HSF", "the human heat shock factor") == "heat shock factor"
    for none in ("XYZ", "XSF", "HSX"):
        assert long_form(none, "heat shock factor") == ""
    assert long_form("TB", "active tuberculosis") == "tuberculosis"


def test_a_long_text_takes_little_time() -> None:
    assert list(abbreviations("(" * 100_000)) == []
    assert len(list(abbreviations("tumour necrosis factor (TNF) " * 5_000))) == 5_000
