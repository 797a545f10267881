from __future__ import annotations

import json
from pathlib import Path

import pytest

from perf.paper_graph import agreement, measure, prepare

TOPICS = {"knee": "pain function strength", "sleep": "insomnia apnoea waking"}


def graph() -> dict[str, object]:
    """Two topics of twelve entities each, linked in a ring of their own, a document each."""
    nodes, edges = [], []
    for topic, words in TOPICS.items():
        for number in range(12):
            name = f"{topic} {words.split()[number % 3]} {topic}{number}"
            nodes.append({
                "id": f"{topic}-{number}", "name": name, "label": "entity", "topic": topic,
                "schema_type": "Outcome", "chunk": topic,
            })  # fmt: skip
            for step in (1, 2):
                edges.append([f"{topic}-{number}", "improves", f"{topic}-{(number + step) % 12}"])
    return {"nodes": nodes, "edges": edges, "chunks": {topic: topic for topic in TOPICS}}


def test_the_builds_of_a_prepared_graph_find_its_topics(tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(graph()))
    prepare(tmp_path)
    found = measure(tmp_path)
    assert (found["entities"]["entities"], found["entities"]["edges"]) == (24, 48)
    stages = sum(found[name]["cpu_s"] for name in ("entities", "communities", "tree"))
    assert found["cpu_s"] == pytest.approx(stages, abs=0.02)
    assert found["communities"]["communities"] == found["tree"]["communities"] == 2
    assert agreement(tmp_path) == 1.0
