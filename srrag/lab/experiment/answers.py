"""Answers as a benchmark: judges compare them with gold, and controls try the judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from srrag.answer.record import degraded
from srrag.config.factory import named
from srrag.core.errors import UsageError, reading
from srrag.core.rows import Row
from srrag.core.spec import content_id
from srrag.core.step import Place, Step
from srrag.lab.experiment.bench import Bench, InSample, Outcome, split
from srrag.lab.experiment.judging import (
    judge,
    judge_controls,
    judged_in,
    most_evidence,
    unfit,
    wanted,
)
from srrag.lab.experiment.rankings import Judged
from srrag.lab.experiment.running import Terms
from srrag.lab.measure.cases import Cases, make_cases, read_gold_answers, read_ids
from srrag.lab.measure.judgements import JUDGEMENTS
from srrag.lab.measure.judging_steps import metrics_of
from srrag.lab.measure.scores import Scores, broke_down, chance, score
from srrag.retrieve.questions import question_table
from srrag.runner.progress import say

_SHOWN_FAILURES = 20


@dataclass(frozen=True)
class Answers(Bench):
    """A benchmark that scores answers by judges, all on the engine of the job."""

    terms: Terms
    rows: list[Row]
    stated: list[Row]
    """The rows as the file states them, with their strata."""
    steps: Mapping[str, Step]
    articles: Judged | None = None
    """The gold documents of the ranking behind the answers, where the benchmark names them."""
    faulty: Sequence[str] = ()
    """Rows of the gold that hold no question, each with its place."""

    @property
    def judge(self) -> str:
        """The name of the judging model, or of the rules."""
        return self.terms.judge

    @cached_property
    def questions(self) -> pa.Table:
        """All questions of the gold."""
        return question_table(self.rows)

    @property
    def gold(self) -> list[Row]:
        """All questions with their strata."""
        return self.stated

    @property
    def learned(self) -> Sequence[Step]:
        """The judges."""
        return tuple(self.steps.values())

    @property
    def groups(self) -> Mapping[str, str]:
        """The questions by the stratum `bench.by`."""
        by = self.terms.bench["by"]
        return {row["query_id"]: row["strata"].get(by, "") for row in self.rows} if by else {}

    @property
    def facts(self) -> Row:
        """The judges with their metrics, and what a guess would reach."""
        names = {
            name: [metric.name for metric in metrics]
            for name, step in self.steps.items()
            if (metrics := metrics_of(step))
        }
        return {
            "faulty_questions": len(self.faulty),
            "chance": chance(self.rows, self.terms.bench["by"]),
            "judge": self.judge,
            "judges": names,
        }

    def score(self, table: pa.Table, at: Place, seen: InSample) -> Outcome:
        """Let the judges score the answers; raises UsageError if none is to a question of gold."""
        try:
            cases = make_cases(self.rows, table)
        except ValueError as error:
            raise UsageError(str(error)) from error
        store = judged_in(self.terms.root, self.terms.out)
        judged, usage = judge(store, self.terms.running, cases.table, self.steps)
        by_judge = scores(self.steps, judged, [row["query_id"] for row in self.rows])
        ranked = self.articles.pool_scores(table, at) if self.articles else []
        kept, apart = split_judged(ranked, self.steps, judged, self.rows, seen)
        broken = [name for name, found in by_judge.items() if broke_down(found)]
        judgements = pa.concat_tables([JUDGEMENTS.empty_table(), *judged.values()])
        told = asked_of(table, [row["query_id"] for row in self.rows])
        facts = _counts(cases, judged) | answer_counts(told, self.terms.keys)
        return Outcome(kept, judgements, cases.missing, usage, broken, apart, cases.table, facts)

    def tried(
        self, outcomes: Mapping[str, Outcome], first: str, seen: InSample
    ) -> tuple[dict[str, list[Scores]], dict[str, str]]:
        """Judge controls made of the evidence of the system with the most; `first` wins ties."""
        ordered = [outcomes[first], *outcomes.values()]
        table = most_evidence(each.cases for each in ordered if each.cases is not None)
        if table is None or not wanted(self.terms):
            return {}, {}
        counted = [query for query in table["query_id"].to_pylist() if query not in seen.apart]
        found = judge_controls(self.terms, table, self.steps, counted)
        return found, unfit([each.scores for each in outcomes.values()], found, self.steps)


def split_judged(
    ranked: Sequence[Scores],
    steps: Mapping[str, Step],
    judged: Mapping[str, pa.Table],
    gold: Sequence[Mapping[str, Any]],
    seen: InSample,
) -> tuple[list[Scores], list[Scores]]:
    """Return the scores of the questions that count, and of the questions kept apart."""
    kept, apart = split(ranked, seen)
    ids = [str(row["query_id"]) for row in gold]
    counted = [query for query in ids if query not in seen.apart]
    empty = "" if counted else seen.reason
    found = (each for scored in scores(steps, judged, counted).values() for each in scored)
    kept += [replace(each, empty=empty) for each in found]
    if seen.apart:
        others = scores(steps, judged, [query for query in ids if query in seen.apart])
        apart += [each for scored in others.values() for each in scored if each.questions]
    return kept, apart


def read_gold(bench: Mapping[str, Any], path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Read the questions of the benchmark, and list those of its rows that hold none.

    `bench.only` names a file of JSON lines, or a folder of them: only questions whose ids it lists
    are kept, and at most `bench.limit` of each subset, chosen by a hash of their ids. Raises
    UsageError if no question is left, or for a limit below 1.
    """
    faulty: list[str] = []
    with reading(path):
        gold = list(read_gold_answers(path, bench["subset"], faulty))
    for each in faulty[:_SHOWN_FAILURES]:
        say(f"left out: {each}")
    if only := bench.get("only"):
        names = read_ids(Path(str(only)))
        gold = [row for row in gold if row["query_id"] in names]
    if (limit := bench.get("limit")) is not None:
        gold = _limited(gold, limit)
    if not gold:
        raise UsageError(f"bench.path={path}: there is no question")
    return gold, faulty


def _limited(gold: list[dict[str, Any]], limit: object) -> list[dict[str, Any]]:
    """Keep the order and, of each subset, the `limit` questions whose hashes come first."""
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise UsageError(f"bench.limit={limit}: a whole number, at least 1, or null")
    by_subset: dict[str, list[str]] = {}
    for row in gold:
        by_subset.setdefault(row["strata"].get("subset", ""), []).append(row["query_id"])
    kept = {
        query
        for queries in by_subset.values()
        for query in sorted(queries, key=lambda query: content_id("limit", query))[:limit]
    }
    return [row for row in gold if row["query_id"] in kept]


def scores(
    steps: Mapping[str, Step], judged: Mapping[str, pa.Table], questions: Sequence[str]
) -> dict[str, list[Scores]]:
    """Return the scores of every judge's metrics, by judge."""
    return {
        name: score(metrics_of(steps[name]), table, questions) for name, table in judged.items()
    }


def _counts(cases: Cases, judged: Mapping[str, pa.Table]) -> dict[str, Any]:
    """What was lost: answers by reason, and judgements."""
    lost = [
        {"judge": name, **{key: row[key] for key in ("query_id", "item")}, **row["reject"]}
        for name, table in judged.items()
        for row in table.filter(table["reject"].is_valid()).to_pylist()
    ]
    return {
        "missing": dict(cases.missing),
        "abstained": sum(cases.table["abstained"].to_pylist()),
        "without_gold": cases.without_gold,
        "answers_without_question": cases.strangers,
        "not_judged": len(lost),
        "failures": lost[:_SHOWN_FAILURES],
    }


def lost_steps(rows: Iterable[Mapping[str, Any]], keys: Mapping[str, str]) -> dict[str, Any]:
    """Count the answered rows that went on without each step, with its first fault."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for row in rows:
        lost = degraded(named(row, keys))
        counts.update({each.step for each in lost})
        for each in lost:
            first.setdefault(each.step, each.fault)
    return {
        step: {"questions": count, "first": first[step]} for step, count in counts.most_common()
    }


def asked_of(answers: pa.Table, questions: Sequence[str]) -> pa.Table:
    """The answers to questions of the benchmark; a file of stored answers may hold others."""
    ids = answers["query_id"]
    return answers.filter(pc.is_in(ids, pa.array(questions, ids.type)))


def answer_counts(answers: pa.Table, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return both counts of a table of answers; stored answers may lack the columns."""
    names = ("trace", "search_trace", "rounds", "support", "unsupported", "reject")
    rows = answers.select([name for name in names if name in answers.column_names]).to_pylist()
    alive = [row for row in rows if row.get("reject") is None]
    if "trace" not in answers.column_names:
        return support_counts(alive)
    return {**support_counts(alive), "degraded": lost_steps(alive, keys)}


def support_counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum what became of checked sentences; empty if the pipeline checks none."""
    told = [row for row in rows if "support" in row]
    if not told:
        return {}
    total: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for row in told:
        total.update(row["support"])
        faults.update(each["fault"] for each in row["unsupported"])
    return {"support": {**total, "faults": dict(faults.most_common())}}
