"""The clock of `perf.build`: each name counts for itself alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from perf import build


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
