"""Make a benchmark of a finished build: sample, write, pool, grade, answer, review, release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.errors import UsageError
from srrag.core.rows import Row
from srrag.core.step import LLMStep, Step
from srrag.core.units import Units
from srrag.lab.benchmark.decisions import ReviewDecision, apply, check_decisions, revised_nuggets
from srrag.lab.benchmark.pool import pooled
from srrag.lab.benchmark.relations import POOLED, QUESTIONED, REFERENCED, SEEDS
from srrag.lab.benchmark.release import question_row
from srrag.lab.benchmark.sample import SampleSeeds
from srrag.lab.experiment.benchmark_files import Release, write
from srrag.lab.experiment.benchmark_stages import Counted, Stages
from srrag.retrieve.questions import question_table
from srrag.runner.part import live
from srrag.runner.pipeline_run import PipelineRun
from srrag.runner.progress import say


@dataclass
class Dropped:
    """All rows that a stage rejected or failed on."""

    rows: list[Row] = field(default_factory=list)

    def take(self, table: pa.Table) -> pa.Table:
        """Note the rejected rows of a table; returns the others."""
        for row in table.filter(pc.is_valid(table["reject"])).to_pylist():
            self.add(row, **row["reject"])
        return live(table)

    def add(self, row: Row, stage: str, reason: str, detail: str) -> None:
        """Note a row."""
        known = {"row_id": row["query_id"], "source": row["source_id"]}
        self.rows.append({"stage": stage, **known, "reason": reason, "detail": detail})

    def counts(self) -> dict[str, dict[str, int]]:
        """How many, by stage and reason."""
        found: dict[str, Counter[str]] = {}
        for row in self.rows:
            found.setdefault(row["stage"], Counter())[row["reason"]] += 1
        return {stage: dict(reasons.most_common()) for stage, reasons in found.items()}


@dataclass(frozen=True, kw_only=True)
class MakeBenchmark:
    """Settings that make a benchmark of windows.

    `dense` filters the seeds that `sample` draws; the other steps ask a model. `rankings` are the
    baseline, by which a seed is accessible if it stands among the first `accessible_at`, and the
    pipelines whose first `pool_windows` are candidates for gold.
    """

    sample: SampleSeeds
    dense: Step
    questions: LLMStep
    support: LLMStep
    reference: LLMStep
    nuggets: LLMStep
    rankings: Mapping[str, PipelineRun]
    accessible_at: int
    pool_windows: int
    release: Release

    def run(
        self, units: Units, stages: Stages, decisions: Sequence[ReviewDecision]
    ) -> dict[str, Any]:
        """Run all stages and write the files; returns the counts."""
        dropped = Dropped()
        referenced, counts = self._candidates(units, stages, dropped)
        kept = _reviewed(referenced.to_pylist(), decisions, dropped)
        table = pa.Table.from_pylist(kept, schema=REFERENCED)
        made = stages.run("reviewed", table, {"nuggets": self.nuggets})
        finished = dropped.take(made["nuggets"])
        if isinstance(stages, Counted):
            return counts
        asking = (self.questions, self.support, self.reference, self.nuggets)
        model = ", ".join(dict.fromkeys(each.engine.name for each in asking))
        questions, texts = _released(finished.to_pylist(), decisions, model)
        written = write(self.release, questions, texts, dropped.rows)
        return {**counts, **written, "dropped": dropped.counts(), "model": model}

    def _candidates(
        self, units: Units, stages: Stages, dropped: Dropped
    ) -> tuple[pa.Table, dict[str, Any]]:
        """Return the questions with gold and answers before review, and counts of each stage."""
        seeds = self.sample.draw(units)
        say(f"{seeds.num_rows:,} of {len(units):,} windows are sampled")
        dense = dropped.take(stages.run("seeds", seeds, {"dense": self.dense})["dense"])
        written = once_each(dropped.take(self._questions(stages, dense)), dropped)
        table = self._pool(units, stages, written) if written.num_rows else POOLED.empty_table()
        table = dropped.take(table)
        steps = {"support": self.support, "reference": self.reference}
        made = stages.run("pooled", table, steps)
        gold = dropped.take(made["support"])
        referenced = dropped.take(made["reference"])
        tracks = Counter(table["track"].to_pylist())
        counts = {
            "sampled": seeds.num_rows,
            "dense": dense.num_rows,
            "written": written.num_rows,
            "main": tracks["main"],
            "challenge": tracks["challenge"],
            "with_gold": gold.num_rows,
            "with_answers": referenced.num_rows,
            "candidates_not_graded": pc.sum(gold["not_graded"]).as_py() or 0,
            "quotes_not_found": pc.sum(gold["whole_windows"]).as_py() or 0,
            "statements_dropped": pc.sum(referenced["dropped_statements"]).as_py() or 0,
        }
        return referenced, counts

    def _questions(self, stages: Stages, seeds: pa.Table) -> pa.Table:
        """Write the questions, of each document one after the other, which sees those before."""
        asked: dict[str, list[str]] = {}
        made = [QUESTIONED.empty_table()]
        kind = SEEDS.field("asked")
        for each in rounds(seeds):
            told = [asked.setdefault(doc_id, []) for doc_id in each["doc_id"].to_pylist()]
            place = SEEDS.get_field_index("asked")
            table = each.set_column(place, kind, pa.array(told, kind.type))
            made.append(stages.run("round", table, {"questions": self.questions})["questions"])
            for row in live(made[-1]).to_pylist():
                asked[row["doc_id"]].append(row["text"])
        return pa.concat_tables(made).sort_by("query_id")

    def _pool(self, units: Units, stages: Stages, written: pa.Table) -> pa.Table:
        """Tracks and candidates, by the baseline and the pipelines of the pool."""
        asked = written.select(["query_id", "text", "picot"]).to_pylist()
        accessible, *others = stages.rank(self.rankings, question_table(asked))
        at, depth = self.accessible_at, self.pool_windows
        return pooled(written, units, accessible, others, at, depth)


def _reviewed(
    rows: Sequence[Row], decisions: Sequence[ReviewDecision], dropped: Dropped
) -> list[Row]:
    """Apply the decisions; raises UsageError for one about a question that is not there."""
    why = {row["row_id"]: f"dropped at {row['stage']} ({row['reason']})" for row in dropped.rows}
    try:
        check_decisions(decisions, rows, why)
        kept, refused = apply(decisions, rows)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for row in refused:
        dropped.add(row, "review", "rejected", "a reviewer rejected the question")
    return kept


def _released(
    rows: Sequence[Row], decisions: Sequence[ReviewDecision], model: str
) -> tuple[list[Row], dict[str, list[str]]]:
    """The questions as they are written, and the windows of each, the seed first."""
    decided = {each.query_id: each for each in decisions}
    texts: dict[str, list[str]] = {}
    questions = []
    for row in rows:
        decision = decided.get(row["query_id"])
        texts[row["query_id"]] = [row["window"], *(each["text"] for each in row["gold"])]
        row["nuggets"] = revised_nuggets(decision) or row["nuggets"]
        questions.append(question_row(row, model) | {"review": _review(decision)})
    return questions, texts


def _review(decision: ReviewDecision | None) -> dict[str, str]:
    if decision is None:
        return {"decision": "", "comment": ""}
    return {"decision": decision.decision, "comment": decision.comment}


def rounds(seeds: pa.Table) -> Iterator[pa.Table]:
    """Yield the first window of every document, then the second, and so on."""
    seen: Counter[str] = Counter()
    turns: list[int] = []
    for doc_id in seeds["doc_id"].to_pylist():
        turns.append(seen[doc_id])
        seen[doc_id] += 1
    for turn in range(max(turns, default=-1) + 1):
        yield seeds.filter(pa.array([each == turn for each in turns]))


def once_each(table: pa.Table, dropped: Dropped) -> pa.Table:
    """Drop questions whose text repeats an earlier one, ignoring case."""
    first: dict[str, str] = {}
    kept = []
    for row in table.to_pylist():
        key = " ".join(row["text"].casefold().split())
        if (before := first.setdefault(key, row["query_id"])) == row["query_id"]:
            kept.append(row)
        else:
            dropped.add(row, "questions", "duplicate", f"asks the same as {before}")
    return pa.Table.from_pylist(kept, schema=QUESTIONED)
