import json

import pytest

from srrag.answer.snippets import MAX_SNIPPETS, Snippets, render
from srrag.completion import read

SNIPPET = {
    "snippet": "Pain fell at 3 months.",
    "reason": "outcome in time",
    "contains_population": False,
    "contains_intervention": False,
    "contains_comparator": False,
    "contains_outcome": True,
    "contains_time": True,
    "outcome_and_time_same_window": True,
}


@pytest.mark.parametrize(("count", "fits"), [(0, True), (MAX_SNIPPETS, True), (4, False)])
def test_at_most_three_snippets(count: int, fits: bool) -> None:
    answer = read(json.dumps({"windows": [SNIPPET] * count}), Snippets)
    assert (answer.fault is None) == fits


@pytest.mark.parametrize("name", sorted(SNIPPET))
def test_every_field_of_the_listing_is_needed(name: str) -> None:
    lacking = {key: value for key, value in SNIPPET.items() if key != name}
    assert read(json.dumps({"windows": [lacking]}), Snippets).fault is not None


def test_the_passage_is_shown_as_it_is() -> None:
    system, user = render("Q?", 'Line "one"\nand $two')
    assert "At most 3 snippets" in system
    assert user.endswith('<passage>\nLine "one"\nand $two\n</passage>')
