"""Run a pipeline over many questions: parts of questions, resumable like any stage."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.completion import Usage
from srrag.ids import content_id, segment_id
from srrag.pipeline import Pipeline
from srrag.runner.runner import Runner
from srrag.runner.summary import usage_of
from srrag.schema import QUESTIONS
from srrag.spec import canonical, fingerprint
from srrag.stage import Plan, Resources, Stage
from srrag.step import Place
from srrag.store import Receipt, Store, check_files, read_json

PART_QUESTIONS = 64


@dataclass(frozen=True)
class PipelineRun:
    """A pipeline on the artifacts of one finished build."""

    store: Store
    build: str
    pipeline: Pipeline
    runner: Runner
    resources: Resources = dataclasses.field(default_factory=Resources)

    def place(self, at: Place) -> Place:
        """Bind the artifacts; raises ValueError if the pipeline needs what was not built."""
        artifacts = self.store.artifacts(self.build)
        for stage in self.pipeline.needs():
            if stage not in artifacts:
                raise ValueError(f"pipeline: stage {stage!r} is not in build {self.build!r}")
            check_files(artifacts[stage])
        return dataclasses.replace(at, artifacts=artifacts, root=self.store.root)

    def run(self, questions: pa.Table, at: Place) -> pa.Table:
        """Answer the questions that have no answer yet; returns all rows in their order."""
        if questions.num_rows == 0:
            raise ValueError("there is no question")
        at = self.place(at)
        plan = self.plan()
        source = plan.fingerprint("questions")
        parts = [_write_questions(self.store, source, table) for table in _slices(questions)]
        self.runner.run(plan, self.store, list(dict.fromkeys(parts)), at)
        answered = plan.fingerprint("answers")
        tables = [self.store.read_part("answers", answered, part) for part in parts]
        # The runner skips questions that were rejected from the start; they stand in the answers
        # all the same, each in its place.
        alive = np.asarray(pc.is_null(questions["reject"]))
        tables.append(self.pipeline.refuse(questions.filter(pa.array(~alive))))
        places = np.concatenate([np.flatnonzero(alive), np.flatnonzero(~alive)])
        return pa.concat_tables(tables).take(pa.array(np.argsort(places)))

    def usage(self, questions: pa.Table) -> Usage:
        """What answering these questions took, in this run and those before."""
        fingerprint_ = self.plan().fingerprint("answers")
        parts = dict.fromkeys(map(_part_name, _slices(questions)))
        return usage_of(self.store.read_receipt("answers", fingerprint_, part) for part in parts)

    def plan(self) -> Plan:
        """The one-stage plan; its identity holds that of every artifact it reads."""
        used = self.store.contents(self.build, self.pipeline.needs())
        return Plan(
            "questions",
            fingerprint(used),
            [Stage("answers", self.pipeline, ("questions",), self.resources)],
        )


def check_encoder(
    store: Store, build: str, encoder: dict[str, Any], stage: str = "vectors"
) -> None:
    """Raise ValueError if questions would be encoded otherwise than the windows in a stage were."""
    entry = store.read_pointer(build)["stages"].get(stage)
    if entry is None:
        return
    manifest = read_json(store.stage_dir(stage, entry["fingerprint"]) / "manifest.json")
    built = manifest["spec"].get("encoder", {})
    if canonical(_fields(built)) != canonical(_fields(encoder)):
        raise ValueError(
            f"embedder: the questions' is {canonical(_fields(encoder))}, "
            f"the build's is {canonical(_fields(built))}"
        )


def _fields(encoder: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in encoder.items() if not key.startswith("_")}


def _slices(questions: pa.Table) -> list[pa.Table]:
    starts = range(0, questions.num_rows, PART_QUESTIONS)
    return [questions.slice(start, PART_QUESTIONS) for start in starts]


def _part_name(table: pa.Table) -> str:
    return segment_id(content_id(canonical(row)) for row in table.to_pylist())


def _write_questions(store: Store, fingerprint_: str, table: pa.Table) -> str:
    started = time.perf_counter()
    part = _part_name(table)
    if part not in store.parts("questions", fingerprint_):
        rejected = table.num_rows - table["reject"].null_count

        def receipt(sha256: str, num_bytes: int) -> Receipt:
            seconds = round(time.perf_counter() - started, 4)
            size = table.num_rows
            return Receipt(part, size, 0, 0, size, rejected, sha256, num_bytes, seconds)

        store.write_part("questions", fingerprint_, table.cast(QUESTIONS), receipt)
    return part
