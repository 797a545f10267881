from __future__ import annotations

from perf.communities import measured, summarise
from tests.unit.algo.test_communities import planted


def test_phases_are_parts_of_the_whole() -> None:
    """Both phases take time, other work too, and the functions are themselves again afterwards."""
    graph, _ = planted(10, 20)
    (before, after), row = measured(graph)
    assert 0 < row["share_leiden"] < 1 and 0 < row["share_merging"] < 1
    assert row["share_leiden"] + row["share_merging"] < 1
    assert row["communities_leiden"] == before.max() + 1
    assert row["communities"] == after.max() + 1 == row["communities_leiden"] - row["merges"]
    again = measured(graph)[1]
    assert again["modularity"] == row["modularity"]


def test_medians_are_of_one_design_and_of_all() -> None:
    row = measured(planted(5, 20)[0])[1] | {"ari_leiden": 0.0}
    key = {"topic_size": 40, "p_in": 0.7}
    found = [
        {**key, "edge_factor": factor, **row, "ari": ari}
        for factor, ari in ((1.0, 0.1), (1.0, 0.2), (1.0, 0.9), (1.5, 0.8), (1.5, 1.0))
    ]
    told = summarise(found)
    assert [each["ari"] for each in told["medians"]] == [0.2, 0.9]
    assert told["over_all"]["ari"] == 0.8
