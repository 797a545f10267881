from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.core.ontology import Ontology
from srrag.extract.schema_growth import (
    Element,
    collect,
    grown,
    judge,
    missing,
    term_name,
    type_name,
)

ONTOLOGY = Ontology(
    entities=["Population", "Outcome"],
    relations={"reports_outcome": {"head": ["Document"], "tail": ["Outcome"]}},
    attributes={"age_range": ["Population"], "note": ["any"]},
)


def refused(head: str, relation: str, tail: str, **values: Any) -> dict[str, Any]:
    defaults = {
        "doc_id": "d", "unit_id": "u", "kind": "relation", "head_type": head,
        "relation": relation, "tail_type": tail, "quote": "words", "confidence": 0.9,
    }  # fmt: skip
    return {**defaults, **values}


def attribute(owner: str, name: str, **values: Any) -> dict[str, Any]:
    return refused(owner, "has_attribute", name, kind="attribute", **values)


@pytest.mark.parametrize(
    ("given_name", "kind", "term"),
    [
        ("age group", "AgeGroup", "age_group"),
        ("ageGroup", "AgeGroup", "age_group"),
        ("AGE_GROUP", "AgeGroup", "age_group"),
        ("MRIFinding", "MriFinding", "mri_finding"),
        ("week-12 visit", "Week12Visit", "week_12_visit"),
        ("", "", ""),
        ("12", "", ""),
        ("drop; use\nthese", "", ""),
        ("one two three four five six", "", ""),
        ("Größe", "", ""),
    ],
)
def test_names_are_spelled_as_the_schema_spells_them(given_name: str, kind: str, term: str) -> None:
    assert type_name(given_name) == kind
    assert term_name(given_name) == term


@pytest.mark.parametrize(
    ("row", "elements"),
    [
        (
            refused("Document", "uses_exercise", "Exercise"),
            [("entity", "Exercise", "", ""), ("relation", "uses_exercise", "Document", "Exercise")],
        ),
        (
            refused("document", "ReportsOutcome", "gait pattern"),
            [
                ("entity", "GaitPattern", "", ""),
                ("relation", "reports_outcome", "Document", "GaitPattern"),
            ],
        ),
        (
            refused("Population", "leads_to", "Outcome"),
            [("relation", "leads_to", "Population", "Outcome")],
        ),
        (refused("Outcome", "reports_outcome", "Population"), []),
        (attribute("Population", "hand size"), [("attribute", "hand_size", "Population", "")]),
        (attribute("Outcome", "age_range"), [("attribute", "age_range", "Outcome", "")]),
        (attribute("Exercise", "note"), [("entity", "Exercise", "", "")]),
        (refused("Document", "uses", "!!"), []),
        (refused("bio marker", "", "", kind="entity"), [("entity", "BioMarker", "", "")]),
        (refused("outcome", "", "", kind="entity"), []),
        (refused("!!", "", "", kind="entity"), []),
    ],
)
def test_a_refused_fact_names_what_the_schema_lacks(
    row: dict[str, Any], elements: list[tuple[str, ...]]
) -> None:
    assert list(missing(row, ONTOLOGY)) == elements


def test_a_window_has_one_vote_and_the_mean_is_over_windows() -> None:
    rows = [
        refused("Document", "uses", "Exercise", unit_id=unit, confidence=confidence)
        for unit, confidence in (("u1", 0.2), ("u1", 0.8), ("u2", 0.5), ("u2", 0.5))
    ]
    support = collect(rows, ONTOLOGY)[Element("entity", "Exercise")]
    assert support.votes == {"u1": 0.8, "u2": 0.5}
    assert support.confidence == pytest.approx(0.65)


def test_what_is_accepted_has_windows_confidence_and_ends() -> None:
    rows = [
        *(refused("Document", "uses", "Exercise", unit_id=f"u{n}") for n in range(3)),
        *(refused("Document", "near", "Place", unit_id=f"u{n}", confidence=0.5) for n in range(3)),
        *(refused("Exercise", "near", "Place", unit_id=f"u{n}") for n in range(1)),
        *(attribute("Place", "size", unit_id=f"u{n}") for n in range(2)),
    ]
    found = collect(rows, ONTOLOGY)
    verdicts = judge(found, ONTOLOGY, threshold=0.85, min_windows=2)
    assert {tuple(element): verdict for element, verdict in verdicts.items()} == {
        ("entity", "Exercise", "", ""): "accepted",
        ("relation", "uses", "Document", "Exercise"): "accepted",
        # Votes of 0.9, 0.9 (a window's best) and 0.5.
        ("entity", "Place", "", ""): "below_threshold",
        ("relation", "near", "Document", "Place"): "below_threshold",
        ("relation", "near", "Exercise", "Place"): "few_windows",
        ("attribute", "size", "Place", ""): "unknown_end",
    }


def test_the_threshold_itself_is_enough() -> None:
    found = collect([refused("Document", "uses", "Exercise", confidence=0.5)], ONTOLOGY)
    assert set(judge(found, ONTOLOGY, threshold=0.5, min_windows=1).values()) == {"accepted"}


def test_the_grown_schema_holds_the_old_one_which_stays_as_it_was() -> None:
    before = ONTOLOGY.describe()
    new = grown(
        ONTOLOGY,
        [
            Element("relation", "reports_outcome", "Document", "Exercise"),
            Element("relation", "uses", "Document", "Exercise"),
            Element("relation", "uses", "Population", "Exercise"),
            Element("attribute", "age_range", "Exercise"),
            Element("entity", "Exercise"),
        ],
    )
    assert ONTOLOGY.describe() == before
    assert new.entities == ["Population", "Outcome", "Exercise"]
    assert new.relations["reports_outcome"]["tail"] == ["Outcome", "Exercise"]
    assert new.relations["uses"] == {"head": ["Document", "Population"], "tail": ["Exercise"]}
    assert new.attributes == {"age_range": ["Population", "Exercise"], "note": ["any"]}


ROWS = st.lists(
    st.builds(
        refused,
        st.sampled_from(["Document", "Population", "Exercise", "Place"]),
        st.sampled_from(["uses", "reports_outcome", "near"]),
        st.sampled_from(["Outcome", "exercise", "Place"]),
        unit_id=st.sampled_from("abcd"),
        confidence=st.floats(0, 1),
        quote=st.sampled_from(["q1", "q2", "q3", "q4"]),
        kind=st.sampled_from(["relation", "attribute"]),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(rows=ROWS, seed=st.integers(0, 99), threshold=st.floats(0, 1))
def test_any_order_gives_the_same_and_every_accepted_set_is_a_schema(
    rows: list[dict[str, Any]], seed: int, threshold: float
) -> None:
    found = collect(rows, ONTOLOGY)
    mixed = list(rows)
    random.Random(seed).shuffle(mixed)
    assert collect(mixed, ONTOLOGY) == found
    verdicts = judge(found, ONTOLOGY, threshold=threshold, min_windows=2)
    accepted = [element for element in found if verdicts[element] == "accepted"]
    new = grown(ONTOLOGY, accepted)
    admitted = {e for row in rows for e in missing(row, new)}
    assert not admitted & set(accepted)
