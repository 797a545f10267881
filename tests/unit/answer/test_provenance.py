from __future__ import annotations

from pathlib import Path
from typing import Any

import jobs.ask
from srrag.answer.provenance import tree, why
from srrag.config.compose import configure


def find(unit: str, channel: str, rank: int, **more: Any) -> dict[str, Any]:
    blank = {"track": "all", "round": 1, "score": 0.5, "entity_id": "", "edge_id": ""}
    return {"unit_id": unit, "channel": channel, "rank": rank, **blank, **more}


def hit(unit: str, rank: int, score: float) -> dict[str, Any]:
    return {"unit_id": unit, "rank": rank, "score": score}


ROW = {
    "found": [
        find("a", "dense", 2),
        find("b", "dense", 1),
        find("a", "graph", 1, round=2, entity_id="e"),
    ],
    "hits_fused": [hit("b", 1, 0.03), hit("a", 2, 0.02), hit("c", 3, 0.01)],
    "hits": [hit("a", 1, 2.0), hit("c", 2, 1.0)],
    "evidence": [{"unit_id": "a"}, {"unit_id": "c"}],
    "rounds": [],
}


def test_each_piece_of_evidence_says_who_found_it_and_where_it_ranked() -> None:
    first, second = why(ROW)
    assert [(each["channel"], each["rank"], each["round"]) for each in first["found"]] == [
        ("dense", 2, 1),
        ("graph", 1, 2),
    ]
    assert first["found"][1]["entity_id"] == "e"
    assert "entity_id" not in first["found"][0], "only what a channel says"
    assert list(first["ranked"]) == ["hits_fused", "hits"], "in the order in which they were made"
    assert first["ranked"]["hits"] == {"rank": 1, "score": 2.0}
    assert second == {
        "unit_id": "c",
        "found": [],
        "ranked": {"hits_fused": {"rank": 3, "score": 0.01}, "hits": {"rank": 2, "score": 1.0}},
    }


def test_no_evidence_and_no_finds() -> None:
    assert why({"evidence": [], "hits": []}) == []
    assert why({"evidence": [{"unit_id": "x"}], "hits": []})[0]["found"] == []


def test_the_sum_of_betr_is_told_where_it_is_what_ranked() -> None:
    terms = {"a": 2.0, "u": {"A": 0.0, "B": -0.5, "C": -1.0, "D": -1.0, "E": -3.0}}
    row = {
        "hits_uncalibrated": [hit("a", 1, 1.5), hit("b", 2, 1.0), hit("c", 3, 0.5)],
        "hits": [hit("a", 1, 2.0), hit("b", 2, -1.0), hit("c", 3, 0.9)],
        "evidence": [
            {"unit_id": "a", "grade": "C"},
            {"unit_id": "b", "grade": ""},
            {"unit_id": "c", "grade": "A"},
        ],
    }
    first, second, third = why(row, terms)
    assert first["betr"] == {"a": 2.0, "s": 1.5, "u": -1.0, "r": 2.0}
    assert second["betr"]["u"] == -3.0, "no grade counts as E"
    assert "betr" not in third, "2 · 0.5 + 0 is not 0.9: those are terms of another calibration"
    assert "betr" not in why(row)[0]
    assert "betr" not in why({**ROW, "evidence": [{"unit_id": "a", "grade": "A"}]}, terms)[0]


QUESTION = "How long may an acute lateral ankle sprain be immobilised in a cast?"


def asked(root: Path, *overrides: str) -> dict[str, Any]:
    config = configure("ask", [f"root={root}", f"question={QUESTION}", *overrides])
    return jobs.ask.run({**config, "command": "test"})


def test_the_trace_tells_why_each_window_is_there(fitted_root: Path) -> None:
    summary = asked(fitted_root, "pipeline=srrag", "trace=true")
    assert summary["off"] == []
    names = [item["step"] for item in summary["trace"]]
    assert names[0] == "IterateRetrieval" and names[-1] == "ComposeAnswer"
    (only,) = summary["expansion"]["rounds"]
    assert only["question"] == QUESTION
    assert [item["step"] for item in only["steps"]][-1] == "SearchTracks"
    assert only["steps"][-1]["items"] == only["new_windows"] > 0
    assert len(summary["why"]) == len(summary["evidence"])
    for item, evidence in zip(summary["why"], summary["evidence"], strict=True):
        assert item["unit_id"] == evidence["unit_id"]
        assert item["found"] or "hits_fused" not in item["ranked"], "found, or of a document found"
        track = "guidelines" if evidence["grade"] == "A" else "studies"
        assert {each["track"] for each in item["found"]} <= {track}
        ranked = [name for name in item["ranked"] if name != "hits_fused"]
        assert ranked == ["hits_whole", "hits_uncalibrated", "hits"]
        assert item["ranked"]["hits"]["score"] == evidence["score"]
    shown = tree(summary)
    assert "dense on guidelines #1" in shown
    assert all(len(line) <= 100 for line in shown.splitlines())


def test_without_asking_there_is_only_the_time_of_each_step(sample_root: Path) -> None:
    summary = asked(sample_root, "pipeline=hybrid")
    assert summary["off"] == [] and summary["why"] is summary["expansion"] is None
    assert all(item["ms"] > 0 and item["fault"] is None for item in summary["trace"])
