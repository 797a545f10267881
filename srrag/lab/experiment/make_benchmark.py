"""Make a benchmark of a finished build: sample, write, pool, grade, answer, review, release."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.errors import UsageError
from srrag.core.rows import Row
from srrag.core.spec import question_id
from srrag.core.standing import NOT_LOOKED, Standings, mark
from srrag.core.step import LLMStep, Place, Step
from srrag.core.units import Units
from srrag.lab.benchmark.release import question_row
from srrag.lab.benchmark.review import (
    ReviewDecision,
    apply,
    check_decisions,
    revised_ideal,
    revised_nuggets,
)
from srrag.lab.benchmark.sample import (
    POOLED,
    QUESTIONED,
    REFERENCED,
    SEEDS,
    UNFIT,
    SampleSeeds,
    pooled,
    unfit_papers,
    windows_of,
)
from srrag.lab.experiment.benchmark_files import Release, write
from srrag.lab.experiment.running import Running, run_stages
from srrag.llm.completion import Engine, Usage
from srrag.retrieve.questions import question_table
from srrag.runner.engines import log_folder
from srrag.runner.estimate import (
    RULES_ASK_NOTHING,
    CountingClient,
    counting_clients,
    figures_of,
)
from srrag.runner.part import live
from srrag.runner.pipeline_run import PipelineRun, Sweep
from srrag.runner.progress import say
from srrag.runner.summary import usage_of
from srrag.storage.store import Store


class Stages(Protocol):
    """Runs the steps of a benchmark over tables."""

    def run(self, source: str, table: pa.Table, steps: Mapping[str, Step]) -> dict[str, pa.Table]:
        """Chain the steps; return the output of each, rejected rows included."""
        ...

    def rank(self, rankings: Mapping[str, PipelineRun], questions: pa.Table) -> list[pa.Table]:
        """Return the questions with ranked windows, one table for each ranking."""
        ...


@dataclass
class Standing:
    """Stages in the store of a benchmark, which reuse the parts that exist."""

    store: Store
    running: Running
    usage: dict[str, Usage] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path, running: Running) -> Standing:
        """Open the store in a folder of the root that `forget` deletes as a whole."""
        store = Store(root / "jobs" / "benchmark")
        store.root.mkdir(parents=True, exist_ok=True)
        store.create()
        return cls(store, running)

    def run(self, source: str, table: pa.Table, steps: Mapping[str, Step]) -> dict[str, pa.Table]:
        """Run the steps on the missing parts."""
        reads = dict(zip(steps, [source, *steps], strict=False))
        staged = run_stages(self.store, self.running, source, table, steps, reads)
        for name, each in staged.items():
            if any(receipt.usage for receipt in each.receipts):
                self.usage.setdefault(name, Usage()).add(usage_of(each.receipts))
            took = sum(receipt.seconds for receipt in each.receipts)
            self.seconds[name] = round(self.seconds.get(name, 0.0) + took, 3)
        return {name: each.table for name, each in staged.items()}

    def rank(self, rankings: Mapping[str, PipelineRun], questions: pa.Table) -> list[pa.Table]:
        """Rank the questions that have no ranking yet; shared stages run once."""
        started = time.perf_counter()
        bound = list(rankings.values())
        sweep = Sweep(
            bound[0].store,
            bound[0].build,
            tuple(each.pipeline for each in bound),
            bound[0].runner,
            bound[0].resources,
        )
        sweep.run(questions, self.running.place)
        for number, name in enumerate(rankings):
            if (usage := sweep.usage(number, questions)) != Usage():
                self.usage[f"ranking {name}"] = usage
        self.seconds["ranking"] = round(time.perf_counter() - started, 3)
        return [sweep.table(number, questions) for number in range(len(bound))]


@dataclass
class Counted:
    """A dry run: counts the calls that no log answers, lets the rules answer, writes nothing."""

    at: Place
    counting: dict[str, dict[Engine, CountingClient]] = field(default_factory=dict)

    def run(self, source: str, table: pa.Table, steps: Mapping[str, Step]) -> dict[str, pa.Table]:
        """Render the prompts and count them."""
        made = {}
        log = log_folder(self.at)
        for name, step in steps.items():
            clients = self.counting.get(name) or counting_clients(
                [step], log, set(), self.at.account.fresh
            )
            if clients:
                self.counting[name] = clients
            table = step.open(replace(self.at, clients=clients))(live(table))
            made[name] = table = table.select(step.writes.names)
        return made

    def rank(self, rankings: Mapping[str, PipelineRun], questions: pa.Table) -> list[pa.Table]:
        """Rank in this process, and count what the rankings ask."""
        steps = [each.pipeline for each in rankings.values()]
        fresh = self.at.account.fresh
        if clients := counting_clients(steps, log_folder(self.at), set(), fresh):
            self.counting["ranking"] = clients
        placed = (replace(each.place(self.at), clients=clients) for each in rankings.values())
        return [step.open(at)(questions) for step, at in zip(steps, placed, strict=True)]

    def told(self, counts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the estimate with the counts of the stages; ValueError if nothing is asked."""
        if not self.counting:
            raise ValueError(RULES_ASK_NOTHING)
        figures = figures_of(self.counting, counts["sampled"])
        windows = figures.pop("documents")
        return {**figures, "windows": windows, "not_counted": [], "counts": counts}


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
        self,
        units: Units,
        standings: Standings,
        stages: Stages,
        decisions: Sequence[ReviewDecision],
    ) -> dict[str, Any]:
        """Run all stages and write the files; returns the counts."""
        dropped = Dropped()
        if not standings.known:
            say(NOT_LOOKED)
        unfit = unfit_papers(standings)
        referenced, counts = self._candidates(units, unfit, stages, dropped)
        marks = marks_of(standings)
        lost = unfit_questions(units, unfit, decisions)
        kept = _reviewed(referenced.to_pylist(), decisions, dropped, marks, lost)
        finished = with_nuggets(stages, self.nuggets, kept, decisions, dropped)
        if isinstance(stages, Counted):
            return counts
        asking = (self.questions, self.support, self.reference, self.nuggets)
        model = ", ".join(dict.fromkeys(each.engine.name for each in asking))
        questions, texts = _released(finished, decisions, model)
        written = write(self.release, questions, texts, dropped.rows, marks)
        return {**counts, **written, "dropped": dropped.counts(), "model": model}

    def _candidates(
        self, units: Units, unfit: Collection[str], stages: Stages, dropped: Dropped
    ) -> tuple[pa.Table, dict[str, Any]]:
        """Return the questions with gold and answers before review, and counts of each stage."""
        seeds = self.sample.draw(units, unfit)
        say(f"{seeds.num_rows:,} of {len(units):,} windows are sampled")
        dense = dropped.take(stages.run("seeds", seeds, {"dense": self.dense})["dense"])
        written = once_each(dropped.take(self._questions(stages, dense)), dropped)
        table = POOLED.empty_table()
        if written.num_rows:
            table = dropped.take(self._pool(units, unfit, stages, written))
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

    def _pool(
        self, units: Units, unfit: Collection[str], stages: Stages, written: pa.Table
    ) -> pa.Table:
        """Tracks and candidates, by the baseline and the pipelines of the pool."""
        asked = written.select(["query_id", "text", "picot"]).to_pylist()
        accessible, *others = stages.rank(self.rankings, question_table(asked))
        at, depth = self.accessible_at, self.pool_windows
        return pooled(written, units, accessible, others, at, depth, unfit)


def unfit_questions(
    units: Units, unfit: Mapping[str, str], decisions: Sequence[ReviewDecision]
) -> dict[str, str]:
    """Map decided questions to the standing of their paper, on which none may rest any more."""
    decided = {each.query_id for each in decisions}
    found: dict[str, str] = {}
    for batch in windows_of(units, unfit).to_batches() if decided else ():
        for unit_id, doc_id in zip(*(column.to_pylist() for column in batch), strict=True):
            if (name := question_id(unit_id)) in decided:
                found[name] = f"its paper is {unfit[doc_id]}"
    return found


def marks_of(standings: Standings) -> dict[str, str]:
    """Map the corpus's ids of papers that questions may rest on to what is said of them."""
    if not standings.known:
        return {}
    told = [row for row in standings.table.to_pylist() if row["standing"] not in UNFIT]
    return {row["source_id"]: mark({**row, "standing_link": row["link"]}) for row in told}


def _reviewed(
    rows: Sequence[Row],
    decisions: Sequence[ReviewDecision],
    dropped: Dropped,
    marks: Mapping[str, str],
    lost: Mapping[str, str],
) -> list[Row]:
    """Apply the decisions; raises UsageError for one that is not on a question as it is here."""
    why = {row["row_id"]: f"dropped at {row['stage']} ({row['reason']})" for row in dropped.rows}
    why |= lost
    try:
        seen = [question_row({**row, "nuggets": []}, "") for row in rows]
        check_decisions(decisions, seen, why, marks)
        kept, refused = apply(decisions, rows)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for row in refused:
        dropped.add(row, "review", "rejected", "a reviewer rejected the question")
    return kept


def with_nuggets(
    stages: Stages,
    step: Step,
    rows: Sequence[Row],
    decisions: Sequence[ReviewDecision],
    dropped: Dropped,
) -> list[Row]:
    """Take exact answers apart, but for those of which a reviewer wrote the nuggets."""
    own = {each.query_id: nuggets for each in decisions if (nuggets := revised_nuggets(each))}
    asked = [row for row in rows if row["query_id"] not in own]
    table = pa.Table.from_pylist(asked, schema=REFERENCED)
    made = stages.run("reviewed", table, {"nuggets": step})["nuggets"]
    found = dropped.take(made).to_pylist()
    given = [{**row, "nuggets": own[row["query_id"]]} for row in rows if row["query_id"] in own]
    return sorted([*found, *given], key=lambda row: row["query_id"])


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
        question = question_row(row, model) | {"review": _review(decision)}
        question["ideal_answer"] = revised_ideal(decision) or question["ideal_answer"]
        questions.append(question)
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
