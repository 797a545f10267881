from __future__ import annotations

from pathlib import Path
from typing import Any

import jobs.ask
from srrag.answer.provenance import tree
from srrag.config.compose import configure

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
