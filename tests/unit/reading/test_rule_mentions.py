from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.reading.lexicon import bounded
from srrag.reading.mentions import (
    find_breaks,
    find_mentions,
    in_blocks,
    lower_same_length,
    read_mentions,
    zone_of,
)
from srrag.reading.values import find_values, timepoint


def types_of(text: str) -> dict[str, str]:
    """Last type of each mention's wording."""
    return {text[start:end]: kind for kind, start, end in read_mentions(text)}


def test_a_trial_sentence_is_read_into_pico_types() -> None:
    found = types_of(
        "Ibuprofen versus placebo in patients with knee osteoarthritis. "
        "Pain intensity and adverse events were measured after 12 weeks."
    )
    assert found["Ibuprofen"] == "Intervention"
    assert found["placebo"] == "Comparator"
    assert found["patients with knee osteoarthritis"] == "Population"
    assert found["knee osteoarthritis"] == "Condition"
    assert found["after 12 weeks".removeprefix("after ")] == "Timepoint"
    assert any(kind == "Outcome" and "Pain" in words for words, kind in found.items())
    assert any(kind == "AdverseEvent" and "adverse" in words for words, kind in found.items())


def test_recommendations_and_contraindications_come_from_patterns() -> None:
    found = types_of(
        "We recommend that bracing should be offered to patients with ankle sprain. "
        "Manipulation is contraindicated in patients with fracture."
    )
    kinds = {kind: words for words, kind in found.items()}
    assert kinds["Recommendation"].startswith("We recommend")
    assert kinds["Contraindication"] == "contraindicated in patients with fracture"


def test_a_dose_shows_a_drug_and_named_events_are_found_once() -> None:
    mentions = read_mentions("# Results\n\nZqwvine 40 mg and a dosage 5 mg: nausea in some.")
    assert ("Intervention", 11, 18) in mentions
    assert [kind for kind, *_ in mentions].count("AdverseEvent") == 1
    assert not any(start == 29 for _, start, _ in mentions)


def test_ordinary_and_blank_joined_text_agree() -> None:
    plain = "Patients with asthma (n=45) received salmeterol, formoterol or placebo."
    joined = "Patients with asthma ( n = 45 ) received salmeterol , formoterol or placebo ."
    assert [m[0] for m in read_mentions(plain)] == [m[0] for m in read_mentions(joined)]


def test_mentions_do_not_depend_on_the_batch() -> None:
    texts = [
        "Aspirin versus placebo in patients with stroke.",
        "",
        "Quality of life of 30 women after 6 months of supervised training.",
    ]
    together = find_mentions(texts, ["", "", "Results"], [True, True, False])
    alone = [
        find_mentions([text], [section], [lead])[0]
        for text, section, lead in zip(texts, ["", "", "Results"], [True, True, False], strict=True)
    ]
    assert together == alone


def test_offsets_survive_capitals_that_lower_to_two_characters() -> None:
    text = "\u0130\u0130 Ibuprofen versus placebo in patients with asthma."
    assert len(lower_same_length(text)) == len(text)
    assert ("Comparator", text.index("placebo"), text.index("placebo") + 7) in read_mentions(text)


def test_zone_of_a_section_is_that_of_its_last_heading_word() -> None:
    assert zone_of("Abstract > Materials and Methods") == 3
    assert zone_of("Results") == 4
    assert zone_of("Figure legends") == 0


@pytest.mark.parametrize(
    "text",
    [
        "seven in ten patients", "1 in 100 women", "one in five adults", "covid-19 patients",
        "type 2 diabetic patients", "grade 3 patients", "hiv-1 infected patients",
        "1.5 million people", "within 24 h patients left",
    ],
)  # fmt: skip
def test_a_share_or_a_name_with_a_number_is_no_number_of_people(text: str) -> None:
    assert not [each for each in find_values(text) if each.attribute == "sample_size"]


@pytest.mark.parametrize(
    ("text", "attribute", "value"),
    [
        ("groups (n = 1,204)", "sample_size", "1204"),
        ("forty-five obese patients", "sample_size", "45"),
        ("seven of ten patients", "sample_size", "10"),
        ("12 of 40 patients", "sample_size", "40"),
        ("(48 obese patients)", "sample_size", "48"),
        ("1,234 adults", "sample_size", "1234"),
        ("aged 6 to 24 months", "age_range", "6 to 24 months"),
        ("aged 6-12 weeks", "age_range", "6-12 weeks"),
        ("at week 12 in 45 patients", "sample_size", "45"),
        ("aged 18 to 65 years", "age_range", "18 to 65"),
        ("12-17 years of age", "age_range", "12-17"),
        ("healthy older adults", "age_bin", "older adults"),
        ("female volunteers", "sex", "female"),
        ("moderate to severe asthma", "baseline_severity", "moderate to severe"),
        ("6 months after surgery", "time_since_injury_or_surgery", "6 months"),
        ("inclusion criteria were knee pain for a year.", "inclusion_criteria", "were knee pain"),
        ("exclusion criteria: fracture.", "exclusion_criteria", "fracture"),
        ("400 mg/kg/day of drug", "dose", "400 mg/kg/day"),
        ("three times a week", "frequency", "three times a week"),
        ("30-min sessions", "session_duration", "30-min"),
        ("at 80% of 1rm", "intensity", "80% of 1rm"),
        ("load increased by 5 kg every week", "progression_rule", "increased by 5 kg every week"),
        ("home-based exercise", "setting", "home-based"),
        ("unsupervised training", "supervision", "unsupervised"),
        ("followed up for 2 years", "followup_weeks", "104.4"),
        ("a 12-week follow-up", "followup_weeks", "12"),
        ("the berg balance scale", "measure_name", "berg balance scale"),
        ("better quality of life", "outcome_domain", "quality of life"),
        ("the primary outcome was pain at rest.", "primary_outcome", "pain at rest"),
        ("strongly recommend rest", "recommendation_strength", "strongly recommend"),
        ("low-quality evidence", "evidence_certainty", "low-quality evidence"),
        ("a double-blind randomised trial", "study_design", "double-blind randomised trial"),
        ("3 sets of 10 repetitions, daily", "protocol_params", "3 sets of 10 repetitions"),
    ],
)
def test_attributes(text: str, attribute: str, value: str) -> None:
    found = {item.attribute: item for item in find_values(text)}
    assert found[attribute].value.startswith(value)
    assert 0 <= found[attribute].start < found[attribute].end <= len(text)


def test_timepoint_number_and_unit() -> None:
    assert timepoint("after twelve months") == ("12", "months")
    assert timepoint("6-week follow-up") == ("6", "weeks")
    assert timepoint("at baseline") is None


def test_no_pattern_is_left_without_a_ceiling() -> None:
    with pytest.raises(ValueError, match="unbounded"):
        bounded(r"a+b")
    assert bounded(r"\d+\s*mg").pattern == r"\d{1,9}\s{0,3}mg"


@pytest.mark.parametrize("piece", ["a-", "1,", "twice ", "1 ", " ", "(", "n = 3 ", "5 mg pain "])
def test_hostile_repetition_stays_fast(piece: str) -> None:
    text = piece * (40_000 // len(piece))
    began = time.process_time()
    find_mentions([text], [""], [True])
    find_values(text)
    assert time.process_time() - began < 60


TEXT = """## Scope
Adults with low back pain were given supervised exercise.

## Manual therapy
- Gentle active movement
- Neck strengthening
| Collar | Rest |
"""


def pieces(text: str, run: str) -> list[str]:
    start = text.index(run)
    return [text[a:b] for a, b in in_blocks(find_breaks(text), start, start + len(run))]


@pytest.mark.parametrize(
    ("run", "found"),
    [
        ("Scope\nAdults with low back pain", ["Adults with low back pain"]),
        ("Manual therapy", ["Manual therapy"]),
        ("Manual therapy\n- Gentle active", ["Gentle active"]),
        ("Gentle active movement\n- Neck", ["Gentle active movement", "Neck"]),
        ("Collar | Rest", ["Collar", "Rest"]),
        ("supervised exercise", ["supervised exercise"]),
    ],
)
def test_a_run_is_cut_where_blocks_part(run: str, found: list[str]) -> None:
    assert pieces(TEXT, run) == found


@given(text=st.text("# \n-|ab1.", max_size=40), data=st.data())
def test_pieces_lie_in_their_run_in_order(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    found = in_blocks(find_breaks(text), start, end)
    assert all(start <= a < b <= end for a, b in found) or found == [(start, end)]
    assert all(one[1] <= other[0] for one, other in pairwise(found))


def test_no_mention_holds_the_heading_before_it() -> None:
    (found,) = find_mentions([TEXT], ["Scope"], [True])
    assert found and not [m for m in found if "\n" in TEXT[m.start : m.end]]


def test_ages_count_nobody() -> None:
    text = (
        "healthy adults aged 18 to 64 years and adults with complaints; 64 older adults took part"
    )
    values = [value for value in find_values(text) if value.attribute == "sample_size"]
    assert [(value.value, text[value.start : value.end]) for value in values] == [
        ("64", "64 older adults")
    ]
