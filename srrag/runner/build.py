"""The build: scan the corpus, run the steps part by part, run the builds, swap the pointer."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srrag.core.errors import SrragError
from srrag.core.stage import Plan
from srrag.core.step import Place
from srrag.corpus.record import RawRecord
from srrag.engine.log.completion_log import CompletionLog
from srrag.runner.deletion.tombstones import Tombstones
from srrag.runner.deletion.vacuum import drop_notes, drop_unfinished
from srrag.runner.doctor import PACKAGES, installed
from srrag.runner.engines import engines_of, log_folder
from srrag.runner.ingest import ingest, standing_parts, take_over
from srrag.runner.progress import built
from srrag.runner.relation_builds import RelationBuilds, entries_of, manifest_of
from srrag.runner.repair import Repair, manifest_problem, mend_marker
from srrag.runner.runner import Runner, discard, lacking, lost_rows
from srrag.runner.summary import summarise
from srrag.storage import mirror
from srrag.storage.atomic_write import commit_json, keep_private
from srrag.storage.manifest import CURE, DamagedError
from srrag.storage.store import Store


class TooManyFailuresError(SrragError, RuntimeError):
    """A stage failed on more rows than the ceiling allows."""


@dataclass(frozen=True)
class BuildJob:
    """One run of a plan over a corpus in a root.

    A stage may lose at most `max_failed_share` of its rows to errors, crashes and bad answers
    (rejects by a step's own rules do not count); above it the run stops and can be resumed; 1 means
    no limit. `retry_failed` repeats parts that lost rows in this way. Without `update`, builds that
    continue their previous version (communities) start from nothing. `repair` first reads all that
    the root holds, then rebuilds and reports the damaged files.
    """

    store: Store
    plan: Plan
    runner: Runner
    name: str = "default"
    command: str = ""
    max_failed_share: float = 0.2
    retry_failed: bool = False
    update: bool = True
    repair: bool = False

    def run(self, records: Iterable[RawRecord], at: Place) -> dict[str, Any]:
        """Build what is missing and swap the pointer; returns the figures of the run."""
        started = time.perf_counter()
        mended = mend_marker(self.store) if self.repair else []
        self.store.create()
        keep_private(self.store.root / "jobs")
        with self.store.lock():
            drop_unfinished(self.store, questions=False)
            log = log_folder(dataclasses.replace(at, root=self.store.root))
            repair = Repair(self.store, self.plan, self.name, log, mended)
            if self.repair:
                repair.run()
            forgotten = Tombstones.of(self.store.root)
            parts = self._ingest(forgotten.passed(records))
            repair.report(parts)
            self._discard(parts)
            drop_notes(self.store, self.plan, parts)
            missing = lacking(self.plan, self.store, parts)
            before = {
                stage.name: len(parts) - len(missing.get(stage.name, ()))
                for stage in self.plan.steps
            }
            self._write_manifests()
            at = dataclasses.replace(at, root=self.store.root)
            paid = self._paid(at)
            self.runner.run(self.plan, self.store, parts, at)
            self._check_failures(parts)
            self._check_rows(parts)
            whole = RelationBuilds(
                self.store, self.plan, self.name, self.runner, tuple(parts), self.update
            )
            for stage in self.plan.builds:
                before[stage.name] = int(whole.run(stage, at))
            pointer = {
                "build": self.name,
                "command": self.command,
                "versions": installed(PACKAGES),
                "stages": entries_of(self.plan, parts),
            }
            self.store.write_pointer(self.name, pointer)
        summary = summarise(self.store, self.name)
        # Of the log, so with the work of processes that died.
        summary["spent"] = {k: round(v - paid[k], 6) for k, v in self._paid(at).items()}
        summary["reused"] = before
        summary["skipped_as_forgotten"] = forgotten.skipped
        if self.repair:
            summary["repaired"] = repair.done
        summary["seconds"] = round(time.perf_counter() - started, 3)
        return summary

    def _paid(self, at: Place) -> dict[str, float]:
        """Return the totals of the completion log; empty if only rules answer."""
        if not engines_of([stage.step for stage in self.plan.steps]):
            return {}
        totals = CompletionLog(log_folder(at)).totals()
        calls = totals.completions + sum(totals.faults.values())
        return {
            "calls": calls,
            "tokens_in": totals.tokens_in,
            "tokens_out": totals.tokens_out,
            "usd": totals.usd,
            "paid_twice": totals.paid_twice,
        }

    def _ingest(self, records: Iterable[RawRecord]) -> list[str]:
        source = self.plan.source
        known = standing_parts(self.store, self.plan, self.name)
        parts = ingest(self.store, self.plan.fingerprint(source), records, known)
        if not parts:
            raise ValueError("the corpus holds no document")
        take_over(self.store, self.plan, known, parts)
        built(source, f"{len(parts)} parts")
        return parts

    def _discard(self, parts: Sequence[str]) -> None:
        """Remove damaged parts, parts to retry, and everything made from them."""

        def amiss(stage: str, standing: Collection[str]) -> set[str]:
            sizes = mirror.sizes(self.store.stage_dir(stage, self.plan.fingerprint(stage)))
            return {part for part in standing if self._is_amiss(stage, part, sizes)}

        discard(self.plan, self.store, parts, amiss)

    def _is_amiss(self, stage: str, part: str, sizes: Mapping[str, int]) -> bool:
        """Whether a part is damaged, or lost rows that this run retries."""
        fingerprint = self.plan.fingerprint(stage)
        try:
            receipt = self.store.read_receipt(stage, fingerprint, part)
        except ValueError:
            return True
        size = sizes.get(self.store.part_path(stage, fingerprint, part).name)
        return receipt.num_bytes != size or (self.retry_failed and lost_rows(receipt) > 0)

    def _write_manifests(self) -> None:
        for stage in self.plan.steps:
            fingerprint = self.plan.fingerprint(stage.name)
            path = self.store.stage_dir(stage.name, fingerprint) / "manifest.json"
            wanted = manifest_of(stage, fingerprint)
            if not mirror.exists(path):
                commit_json(path, wanted, sealed=True)
            elif problem := manifest_problem(path, wanted):
                raise DamagedError(f"{mirror.shown(path)} {problem}; {CURE}")

    def _check_failures(self, parts: Sequence[str]) -> None:
        for stage in self.plan.steps:
            fingerprint = self.plan.fingerprint(stage.name)
            receipts = self.store.receipts(stage.name, fingerprint, parts)
            failed = sum(map(lost_rows, receipts))
            alive = sum(receipt.rows_in - receipt.skipped for receipt in receipts)
            if self.max_failed_share < 1 and failed > self.max_failed_share * alive:
                reasons: Counter[str] = Counter()
                for receipt in receipts:
                    reasons.update(receipt.reasons)
                raise TooManyFailuresError(
                    f"stage {stage.name} failed on {failed} of {alive} rows "
                    f"({', '.join(f'{k}: {v}' for k, v in reasons.most_common(3))}); the ceiling "
                    f"max_failed_share is {self.max_failed_share:g}; retry_failed=true tries again"
                )

    def _check_rows(self, parts: Sequence[str]) -> None:
        """Raise ValueError with the first reason if a stage rejected every row.

        Without a limit on failures (`max_failed_share` 1) even that is allowed.
        """
        if self.max_failed_share >= 1:
            return
        for name in (self.plan.source, *(stage.name for stage in self.plan.steps)):
            fingerprint = self.plan.fingerprint(name)
            receipts = self.store.receipts(name, fingerprint, parts)
            rejected = sum(receipt.rejected for receipt in receipts)
            if rejected and rejected == sum(receipt.rows_out for receipt in receipts):
                part = next(receipt.part for receipt in receipts if receipt.rejected)
                table = self.store.read_part(name, fingerprint, part, ["reject"])
                first = table["reject"].drop_null()[0].as_py()
                raise ValueError(
                    f"nothing is left to build: {name} rejected all {rejected} rows; the first: "
                    f"{first['reason']}: {first['detail']}"
                )
