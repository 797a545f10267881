"""The clock of `perf.build`, where each name counts for itself alone, and where its figures go."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perf import build
from perf.figures import FIELDS


def test_time_within_a_stage_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(build, "cpu_seconds", lambda: now[0])
    clock = build.Clock()

    def takes(seconds: float) -> None:
        now[0] += seconds

    owner = SimpleNamespace(run=lambda stage, seconds: takes(seconds))
    clock.watch(owner, "run", 0)

    def whole() -> None:
        takes(1)
        owner.run(SimpleNamespace(name="vectors"), 4)
        owner.run(SimpleNamespace(name="vectors"), 2)
        owner.run(SimpleNamespace(name="tokens"), 0.5)
        with pytest.raises(ZeroDivisionError):
            clock.timed("dense", lambda: (takes(3), 1 // 0))

    clock.timed("all else", whole)
    assert clock.rounded() == {"vectors": 6.0, "dense": 3.0, "all else": 1.0, "tokens": 0.5}
    assert list(clock.rounded()) == ["vectors", "dense", "all else", "tokens"]


def test_figures_take_the_place_of_those_of_the_same_command(tmp_path: Path) -> None:
    results = tmp_path / "speed.json"
    other = {"name": "old", "command": "x", "machine": "another"}
    results.write_text(json.dumps({"title": "T", "about": "A", "rows": [other]}))
    found: dict[str, Any] = {
        "passages": 5, "build_over_encoding": 1.2, "times_the_rate_of": {"txtai": 1.3},
        "systems": {"build": {"work_s": 2.0}, "txtai": {"work_s": 2.6}, "encode": {"work_s": 1.7}},
        "passages_per_cpu_s": {"build": 2.5, "txtai": 1.9},
    }  # fmt: skip
    for seconds in (2.0, 1.5):
        found["systems"]["build"]["work_s"] = seconds
        build.keep(found, ["embedder=minilm"], "D/bioasq", results)
    rows = json.loads(results.read_text())["rows"]
    assert rows[-1] == other
    told = {(row["name"], row["unit"]): row["value"] for row in rows[:-1]}
    assert len(told) == len(rows) - 1 == 7
    assert told["build, embedder=minilm", "CPU s"] == 1.5
    assert told["build, embedder=minilm", "× txtai"] == 1.3
    assert all(set(row) == FIELDS for row in rows[:-1])
