"""Watch the stages of a run on Ray: report progress, and stop a run that stalls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import ray

from srrag.core.errors import SrragError
from srrag.core.stage import Plan, Stage
from srrag.runner.engines import Figures
from srrag.runner.progress import CallProgress, Progress, say
from srrag.storage.store import Store


class StalledError(SrragError, RuntimeError):
    """No part was finished for too long; the message names the stage and what it waits for."""


class Watch:
    """Counts and reports finished parts by stage, and calls; raises when nothing moves."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        stages: Sequence[Stage],
        total: int,
        stall_s: float,
        figures: Callable[[], Figures] = dict,
    ) -> None:
        """Count the parts that are finished now; `figures` returns the engines' figures."""
        self.store = store
        self.figures = figures
        self.calls = CallProgress(figures)
        self.answered = 0
        self.stall_s = stall_s
        self.total = total
        self.fingerprints = {stage.name: plan.fingerprint(stage.name) for stage in stages}
        self.counts = self._count()
        self.progress = {
            name: Progress(name, total, already=count) for name, count in self.counts.items()
        }
        self.moved = time.monotonic()
        self.warned = False

    def _count(self) -> dict[str, int]:
        return {
            name: min(self.total, len(self.store.parts(name, fingerprint)))
            for name, fingerprint in self.fingerprints.items()
        }

    def look(self) -> None:
        """Compare with the last look; raises StalledError after `stall_s` without change."""
        counts = self._count()
        if counts != self.counts:
            for name, count in counts.items():
                if count != self.counts[name]:
                    self.progress[name].update(count)
            self.counts, self.moved, self.warned = counts, time.monotonic(), False
            return
        self.calls.show()
        quiet_s = time.monotonic() - self.moved
        if quiet_s > self.stall_s / 20 and self._answering():
            self.moved, self.warned = time.monotonic(), False
            return
        if quiet_s > self.stall_s:
            raise StalledError(self._message(quiet_s))
        if quiet_s > self.stall_s / 10 and not self.warned:
            self.warned = True
            say(self._message(quiet_s))

    def _answering(self) -> bool:
        """Whether an engine has answered since the last check, as a part may take hours."""
        answered: int = sum(done["calls"] for done in self.figures().values())
        moved, self.answered = answered != self.answered, answered
        return moved

    def _message(self, quiet_s: float) -> str:
        free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
        waiting = ", ".join(
            f"{name} has {self.total - count} parts to do"
            for name, count in self.counts.items()
            if count < self.total
        )
        return (
            f"no part was finished for {quiet_s:.0f} s: {waiting}; free: "
            f"{free.get('CPU', 0.0):g} CPU, {free.get('GPU', 0.0):g} GPU"
        )
