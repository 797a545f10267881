"""LocalRunner: every stage in this process, one part after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from srrag.runner.part import run_part
from srrag.runner.progress import Progress
from srrag.stage import Plan
from srrag.step import Place
from srrag.store import Store


@dataclass(frozen=True)
class LocalRunner:
    """Runs the steps of a plan in this process; `threads` are the CPU threads it may use."""

    threads: int = 0

    def run(self, plan: Plan, store: Store, parts: Sequence[str], at: Place) -> None:
        """Run each stage on the parts that it lacks."""
        for stage in plan.steps:
            fingerprint = plan.fingerprint(stage.name)
            source = (stage.inputs[0], plan.fingerprint(stage.inputs[0]))
            standing = store.parts(stage.name, fingerprint)
            missing = [part for part in parts if part not in standing]
            already = len(parts) - len(missing)
            progress = Progress(stage.name, len(parts), already)
            if not missing:
                continue
            threads = self.threads or stage.resources.threads
            function = stage.step.open(replace(at, threads=threads))
            for count, part in enumerate(missing, start=1):
                run_part(store, stage, fingerprint, source, part, function, progress.rows)
                progress.update(already + count)
