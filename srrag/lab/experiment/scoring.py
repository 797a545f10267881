"""The benchmark of a sweep: it scores rankings by gold, or answers by judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from srrag.core.errors import UsageError
from srrag.core.pipeline import Pipeline
from srrag.core.rows import Row
from srrag.core.step import Place, Step
from srrag.core.units import Units
from srrag.lab.datasets.shape import gold_rows
from srrag.lab.experiment.answers import read_gold, scores, split_judged
from srrag.lab.experiment.controls import joined, judge_controls, most_evidence, unfit, wanted
from srrag.lab.experiment.in_sample import InSample
from srrag.lab.experiment.judging import judge, judged_in, judges
from srrag.lab.experiment.near_topic import read_bench_near_topic
from srrag.lab.experiment.nli import unfit_by_votes
from srrag.lab.experiment.outcome import Outcome
from srrag.lab.experiment.ranked import RankedByGold
from srrag.lab.experiment.rankings import Judged, read_articles, read_judged
from srrag.lab.experiment.terms import Terms
from srrag.lab.experiment.textbook import read_bench_textbook
from srrag.lab.measure.cases import make_cases
from srrag.lab.measure.scores import Scores, broke_down
from srrag.retrieve.questions import question_table
from srrag.storage.store import Store


class Bench(Protocol):
    """Questions, the part of a pipeline to run on them, and its scoring."""

    @property
    def judge(self) -> str:
        """The name of the judge, "" if the scoring needs none."""
        ...

    @property
    def questions(self) -> pa.Table:
        """The questions, as pipelines read them."""
        ...

    @property
    def gold(self) -> list[Row]:
        """The gold of each question with its strata."""
        ...

    def asked(self, pipeline: Pipeline) -> Pipeline:
        """Return the part of a pipeline to run; ValueError if it cannot be scored."""
        ...

    @property
    def learned(self) -> Sequence[Step]:
        """The judges, which may have been fitted on questions of the benchmark."""
        ...

    def tried(
        self, outcomes: Mapping[str, Outcome], baseline: str, seen: InSample
    ) -> tuple[dict[str, list[Scores]], dict[str, str]]:
        """Return the scores of control systems by name, and the metrics that are unfit by them."""
        ...

    def score(self, table: pa.Table, at: Place, seen: InSample) -> Outcome:
        """Score the output of a pipeline, with in-sample questions apart."""
        ...

    def kept(self, table: pa.Table, at: Place) -> pa.Table:
        """Return the part of the output that the results keep."""
        ...


@dataclass(frozen=True)
class Rankings(RankedByGold):
    """A benchmark that scores rankings by judged documents or windows."""

    judged: Judged
    documents: Mapping[str, Row]
    judge: str = ""

    @cached_property
    def questions(self) -> pa.Table:
        """The questions with gold."""
        return self.judged.table

    @cached_property
    def gold(self) -> list[Row]:
        """The questions with the documents that are judged relevant."""
        return [
            told_apart({**row, "relevant": self.judged.relevant(row["query_id"])}, self.documents)
            for row in self.judged.queries
        ]

    def scores(self, table: pa.Table, at: Place) -> list[Scores]:
        """Score a ranking by its judged documents or windows."""
        return self.judged.scores(table, at)


@dataclass(frozen=True)
class Answers:
    """A benchmark that scores answers by judges, all on the engine of the sweep."""

    terms: Terms
    rows: list[Row]
    gold: list[Row]
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

    def asked(self, pipeline: Pipeline) -> Pipeline:
        """Return the whole pipeline."""
        if "answer" not in pipeline.writes.names:
            raise ValueError("pipeline: none of its steps writes an answer")
        return pipeline

    @property
    def learned(self) -> Sequence[Step]:
        """The judges."""
        return tuple(self.steps.values())

    def score(self, table: pa.Table, at: Place, seen: InSample) -> Outcome:
        """Let the judges score the answers."""
        cases = make_cases(self.rows, table)
        store = judged_in(self.terms.root, self.terms.out)
        judged, usage = judge(store, self.terms.running, cases.table, self.steps)
        by_judge = scores(self.steps, judged, [row["query_id"] for row in self.rows])
        ranked = self.articles.pool_scores(table, at) if self.articles else []
        kept, apart = split_judged(ranked, self.steps, judged, self.rows, seen)
        broken = [name for name, found in by_judge.items() if broke_down(found)]
        judgements = pa.concat_tables(judged.values())
        missing = cases.missing
        return Outcome(kept, judgements, missing, usage, broken, apart, cases.table)

    def tried(
        self, outcomes: Mapping[str, Outcome], baseline: str, seen: InSample
    ) -> tuple[dict[str, list[Scores]], dict[str, str]]:
        """Judge controls made of the evidence of the row with the most; the baseline wins ties."""
        ordered = [outcomes[baseline], *outcomes.values()]
        table = most_evidence(each.cases for each in ordered if each.cases is not None)
        if table is None or not wanted(self.terms):
            return {}, {}
        counted = [query for query in table["query_id"].to_pylist() if query not in seen.apart]
        found = judge_controls(self.terms, table, self.steps, counted)
        told = unfit([each.scores for each in outcomes.values()], found, self.steps)
        return found, joined(told, unfit_by_votes(self.terms, self.steps))

    def kept(self, table: pa.Table, at: Place) -> pa.Table:
        """Keep every column except vectors."""
        packed = (pa.types.is_binary, pa.types.is_large_binary)
        names = [item.name for item in table.schema if not any(is_(item.type) for is_ in packed)]
        return table.select(names)


def read_bench(terms: Terms) -> Bench:
    """Read the benchmark of a sweep; raises UsageError if it cannot score pipelines."""
    bench, path, root, build = terms.bench, terms.path, terms.root, terms.build
    if not path.exists():
        raise UsageError(f"bench.path={path} does not exist")
    if bench["kind"] == "textbook":
        return read_bench_textbook(bench, path, root, build)
    if bench["kind"] == "near_topic":
        return read_bench_near_topic(bench, path, root)
    if bench["kind"] not in ("beir", "gold", "answers"):
        kinds = "beir, gold, textbook, near_topic and answers"
        raise UsageError(f"bench.kind={bench['kind']}: a sweep scores {kinds}")
    if root is None:
        raise UsageError("root= is missing: the build that the pipelines read")
    units = Units(Store(root).artifacts(build)["units"])
    known = units.documents.select(["source_id", "grade", "condition"]).to_pylist()
    documents = {row["source_id"]: row for row in known}
    if bench["kind"] != "answers":
        return Rankings(read_judged(bench, path, root, build), documents)
    if bench["answers"] or bench["baseline_answers"]:
        raise UsageError("bench.answers: a sweep's configurations answer themselves")
    rows, faulty = read_gold(bench, path)
    if not all(row["text"] for row in rows):
        raise UsageError(f"bench.path={path} holds a question without its text")
    given = {_name(facts): facts for _, facts in gold_rows(path, bench["subset"])}
    facts = [told_apart({**given[row["query_id"]], **row}, documents) for row in rows]
    steps, articles = judges(bench["judges"]), read_articles(bench, rows)
    return Answers(terms, rows, facts, steps, articles, faulty)


def _name(row: Row) -> str:
    """The id of a row of gold."""
    return str(next(row[key] for key in ("query_id", "_id", "id") if key in row))


def told_apart(row: Row, documents: Mapping[str, Row]) -> Row:
    """Add the known strata to a question: condition, evidence grade and certainty.

    If the question states none, the grade is the best of its gold documents, and the condition is
    the one that they all share.
    """
    names = [*row.get("relevant", ()), *(each["doc"] for each in row.get("gold") or ())]
    found = [documents[name] for name in names if name in documents]
    shared = {each["condition"] for each in found}
    return {
        **row,
        "grade": row.get("grade")
        or min((each["grade"] for each in found if each["grade"]), default=None),
        "condition": row.get("condition") or (shared.pop() if len(shared) == 1 else None),
    }
