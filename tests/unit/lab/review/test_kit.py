from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from srrag.lab.review.kit import draw, make_kit, passage
from tests.unit.lab.review.kits import gold, kit, rows


def test_a_draw_is_balanced_and_seeded() -> None:
    """Of 60, 30 and 10 questions, 20 are 12, 6 and 2."""
    strata = {f"q{n}": "a" if n < 60 else "b" if n < 90 else "c" for n in range(100)}
    drawn = draw(strata, 20, np.random.default_rng(1))
    assert Counter(strata[name] for name in drawn) == {"a": 12, "b": 6, "c": 2}
    assert drawn == draw(strata, 20, np.random.default_rng(1))
    assert drawn != draw(strata, 20, np.random.default_rng(2))


def test_places_left_over_go_to_the_largest_remainders() -> None:
    """Of 5, 3 and 2 questions, 4 would be 2, 1.2 and 0.8."""
    strata = {f"q{n}": "a" if n < 5 else "b" if n < 8 else "c" for n in range(10)}
    drawn = draw(strata, 4, np.random.default_rng(0))
    assert Counter(strata[name] for name in drawn) == {"a": 2, "b": 1, "c": 1}


def test_more_questions_than_there_are() -> None:
    with pytest.raises(ValueError, match="questions=7: only 6"):
        kit(questions=7)
    with pytest.raises(ValueError, match="questions=0"):
        kit(questions=0)


def test_only_questions_that_every_system_answered() -> None:
    lost, reject = rows("two"), {"stage": "answer", "reason": "timeout", "detail": ""}
    lost[0]["reject"], lost[1]["answer"] = reject, " "
    made = make_kit({"one": rows("one"), "two": lost[:5]}, gold(), questions=3)
    assert {each.query_id for each in made.items} == {"q2", "q3", "q4"}


def test_systems_are_hidden_and_the_key_resolves_them() -> None:
    made = kit("one", "two", questions=6)
    key = made.key()["items"]
    assert all(key[each.item]["system"] == each.answer.split()[0] for each in made.items)
    first = [each.system for each in made.items if each.item.endswith("-A")]
    assert set(first) == {"one", "two"}, "the order is drawn anew for every question"


def test_evidence_is_what_is_cited_or_all() -> None:
    item = kit().items[0]
    assert [(piece["number"], piece["cited"]) for piece in item.evidence] == [(2, True)]
    assert item.hidden == 2
    everything = make_kit({"one": rows("one")}, [], questions=1, shown="all")
    assert [piece["cited"] for piece in everything.items[0].evidence] == [False, True, False]


def test_another_sample_has_another_name() -> None:
    assert kit().sample == kit().sample
    assert kit().sample != kit(seed=1).sample


def test_strata_that_nobody_knows() -> None:
    with pytest.raises(ValueError, match="strata=colour: neither"):
        make_kit({"one": rows("one")}, gold(), questions=2, strata="colour")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("## Results\nIt helped.", "It helped."),
        ("#1 of all\nIt helped.", "#1 of all\nIt helped."),
        ("It helped.\n\n### Harms\nNone.", "It helped.\n\nHarms\nNone."),
        ("*Made up.* So **bold**, __so__ (*here*) and `a`.", "Made up. So bold, so (here) and a."),
        ("5*3*2 and 2 * 3 * 4; *p < .05, a_b__c.", "5*3*2 and 2 * 3 * 4; *p < .05, a_b__c."),
        ("* one\n* two", "* one\n* two"),
    ],
)  # fmt: skip
def test_marks_of_markdown_are_not_shown(text: str, shown: str) -> None:
    assert passage({"text": text}) == shown
