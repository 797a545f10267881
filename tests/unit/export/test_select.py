from __future__ import annotations

import numpy as np
import pytest

from srrag.export.select import Selection, select_community, select_entity
from tests.unit.export.graphs import Written, key


def names(written: Written, selection: Selection) -> list[str]:
    ids = written.graph.ids.to_pylist()
    known = {key(name): name for name in
             ("guide", "trial", "quoted", "script", "control", "twin", "other twin", "dose",
              "other dose", "alone")}  # fmt: skip
    return [known[ids[row]] for row in selection.rows]


def test_the_members_of_a_community_the_most_linked_first(written: Written) -> None:
    selection = select_community(written.graph, key("left")[:6])
    assert names(written, selection)[0] == "twin"
    assert set(names(written, selection)) == {"guide", "twin", "dose", "control"}
    assert selection.title == f"Community “Exercise ({key('left')[:6]})”"


def test_the_largest_community_stands_for_none(written: Written) -> None:
    assert len(select_community(written.graph).rows) == 5


def test_an_unknown_community_is_answered_with_the_largest(written: Written) -> None:
    with pytest.raises(ValueError, match=rf"no community.*{key('right')} \(5\)"):
        select_community(written.graph, "zz")


def test_a_neighbourhood_grows_by_hops_and_both_ways(written: Written) -> None:
    one = select_entity(written.graph, "daily", hops=0)
    assert set(names(written, one)) == {"dose", "other dose"}
    near = select_entity(written.graph, " ALONE  åé.", hops=3)
    assert names(written, near) == ["alone"]
    two = select_entity(written.graph, "A guideline", hops=1)
    assert names(written, two)[0] == "guide"
    assert set(names(written, two)) == {"guide", "quoted", "twin"}
    three = select_entity(written.graph, "A guideline", hops=2)
    assert set(names(written, three)) == {
        "guide", "quoted", "twin", "trial", "script", "other dose", "dose", "control",
    }  # fmt: skip


def test_one_name_of_several_types_means_all_of_them(written: Written) -> None:
    selection = select_entity(written.graph, "exercise", hops=0)
    assert set(names(written, selection)) == {"twin", "other twin"}
    assert set(selection.centres) == set(np.sort(selection.rows))


def test_a_name_that_is_not_there_is_answered_with_the_nearest(written: Written) -> None:
    with pytest.raises(ValueError, match="nearest: 'exercise'"):
        select_entity(written.graph, "exercize")
    with pytest.raises(ValueError, match=r"nearest: .*line break .*, 'A guideline'"):
        select_entity(written.graph, "line break")
    with pytest.raises(ValueError, match="hops=-1"):
        select_entity(written.graph, "daily", hops=-1)
