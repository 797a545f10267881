"""Questions with judged documents or windows, and the scores of rankings on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from srrag.algo.significance import Values
from srrag.core.errors import UsageError, reading
from srrag.core.formats import read_queries
from srrag.core.hits import unpack_hits
from srrag.core.rows import Row
from srrag.core.step import Place
from srrag.core.units import Units, open_units
from srrag.lab.experiment.bench import RankedByGold
from srrag.lab.measure.judgements import Metric
from srrag.lab.measure.references import (
    CUTOFFS,
    Qrels,
    coverage,
    lower_is_better,
    measures,
    must_have,
    per_question,
    questions_of,
    quote_windows,
    read_gold,
    read_qrels,
    window_qrels,
)
from srrag.lab.measure.scores import Scores
from srrag.retrieve.questions import question_table
from srrag.storage.store import Store


@dataclass(frozen=True)
class Judged:
    """The gold of a ranking: the relevant documents, or windows, of each question.

    Questions absent from `qrels` have no gold; they are left out and counted. `statements` maps a
    question to the windows of each statement that an answer must make. `missing` counts the judged
    documents that the build lacks. `by_article` counts documents by PMID (by their own id where
    they have none).
    """

    qrels: Qrels
    queries: list[dict[str, Any]]
    by_window: bool = False
    missing: int = 0
    statements: Mapping[str, list[list[str]]] = field(default_factory=dict)
    cutoffs: Sequence[int] = CUTOFFS
    by_article: bool = False

    @property
    def without_gold(self) -> int:
        """The number of questions without gold."""
        return len(self.queries) - len(self.qrels)

    def relevant(self, query_id: str) -> list[str]:
        """Return the documents, or windows, that are relevant to a question."""
        return [name for name, grade in self.qrels.get(query_id, {}).items() if grade > 0]

    @cached_property
    def table(self) -> pa.Table:
        """The questions with gold as a table."""
        return question_table(row for row in self.queries if row["query_id"] in self.qrels)

    def found(self, table: pa.Table, at: Place) -> dict[str, dict[str, float]]:
        """Return the run: documents (or windows) by question, a document by its best window."""
        if self.by_window:
            return ranked(table)
        units = open_units(at)
        return ranked(table, units.article_keys if self.by_article else units.document_keys)

    def scores(self, table: pa.Table, at: Place) -> list[Scores]:
        """Score each metric of a ranking by question; a failed question found nothing."""
        run = self.found(table, at)
        failed = len(table["reject"].drop_null())
        values = per_question(self.qrels, run, self.cutoffs)
        listed = [
            self._scores(name, sorted(self.qrels), sample, failed)
            for name, sample in values.items()
        ]
        for depth in sorted(set(self.cutoffs)) if self.statements else ():
            shares = coverage(self.statements, run, depth)
            listed.append(
                self._scores(f"coverage@{depth}", sorted(self.statements), shares, failed)
            )
        return listed

    def pool_scores(self, table: pa.Table, at: Place) -> list[Scores]:
        """Score a ranking beside its answers: nDCG, recall of the whole list, and its size.

        `pool_recall` is the share of the gold documents anywhere in the list, `pool_size` the
        number of its documents.
        """
        run, failed = self.found(table, at), len(table["reject"].drop_null())
        questions = sorted(self.qrels)
        values = per_question(self.qrels, run, self.cutoffs)
        kept = {name: each for name, each in values.items() if name.startswith("nDCG@")}
        gold = [set(self.relevant(name)) for name in questions]
        found = [run.get(name, {}).keys() for name in questions]
        shares = [len(g & f) / max(1, len(g)) for g, f in zip(gold, found, strict=True)]
        kept |= {"pool_recall": np.array(shares), "pool_size": np.array([*map(len, found)], float)}
        return [self._scores(name, questions, each, failed) for name, each in kept.items()]

    def _scores(self, name: str, questions: list[str], values: Values, failed: int) -> Scores:
        better: Literal["higher", "lower"] = "lower" if lower_is_better(name) else "higher"
        stated = name.startswith("coverage@")
        needs = "a statement that has to be made" if stated else "gold"
        metric, asked = Metric(name, needs, better), len(self.queries)
        return Scores.by_question(metric, questions, values, asked, failed)


def ranked(
    table: pa.Table, named: Callable[[list[str]], pa.Array] | None = None
) -> dict[str, dict[str, float]]:
    """Return the run of a ranking: its units, or what `named` calls them, by question.

    They are scored by rank, as ir-measures breaks ties of scores by id.
    """
    ids, _, offsets = unpack_hits(table["hits"])
    names = ids.to_pylist()
    if named is not None:
        names = named(names).to_pylist()
    return {
        query: {
            name: 1.0 / rank for rank, name in enumerate(dict.fromkeys(names[start:end]), start=1)
        }
        for query, (start, end) in zip(
            table["query_id"].to_pylist(), pairwise(offsets.tolist()), strict=True
        )
    }


@dataclass(frozen=True)
class Rankings(RankedByGold):
    """A benchmark that scores rankings by judged documents or windows."""

    judged: Judged
    documents: Mapping[str, Row]

    @property
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

    @property
    def facts(self) -> Row:
        """How many judged documents the build lacks."""
        return {"judged_documents_missing": self.judged.missing}

    def scores(self, table: pa.Table, at: Place) -> list[Scores]:
        """Score a ranking by its judged documents or windows."""
        return self.judged.scores(table, at)


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


def read_judged(bench: Mapping[str, Any], path: Path, root: str | None, build: str) -> Judged:
    """Read a benchmark's gold for rankings; raises UsageError if it does not fit the root."""
    if root is None:
        kind = bench["kind"]
        raise UsageError(f"root= is missing: bench.kind={kind} ranks a finished build's windows")
    cutoffs = _cutoffs(bench["k"])
    units = Units(Store(root).artifacts(build)["units"])
    if bench["kind"] == "gold":
        questions, windows = read_windows(path, bench.get("split"), units)
        statements = must_have(quote_windows(questions, units))
        return Judged(windows, questions, True, 0, statements, cutoffs)
    files = path / "qrels" / f"{bench['split']}.tsv", path / "queries.jsonl"
    for file in files:
        if not file.is_file():
            raise UsageError(f"bench.path={path}: {file.relative_to(path)} is missing")
    with reading(files[0]):
        qrels = read_qrels(files[0])
    # The remaining questions belong to other splits.
    queries = [row for row in read_queries(files[1]) if row["query_id"] in qrels]
    unknown = sorted(qrels.keys() - {row["query_id"] for row in queries})
    if unknown:
        raise UsageError(
            f"bench.path: {len(unknown)} of {len(qrels)} judged queries are not in queries.jsonl; "
            f"the first: {unknown[0]!r}"
        )
    judged = {document for documents in qrels.values() for document in documents}
    missing = judged - set(units.documents["source_id"].to_pylist())
    if missing == judged:
        raise UsageError(f"root={root} holds none of the documents that bench.path judges")
    return Judged(qrels, queries, missing=len(missing), cutoffs=cutoffs)


def read_articles(bench: Mapping[str, Any], rows: list[dict[str, Any]]) -> Judged | None:
    """Read `bench.qrels`, the gold PMIDs of questions with answers; None if the bench has none.

    Raises UsageError for a file that is missing, malformed, or judges none of the questions.
    """
    path = bench.get("qrels")
    if not path:
        return None
    if not Path(path).is_file():
        raise UsageError(f"bench.qrels={path}: there is no such file")
    with reading(Path(path)):
        qrels = read_qrels(Path(path))
    asked = {row["query_id"] for row in rows}
    known = {name: documents for name, documents in qrels.items() if name in asked}
    if not known:
        raise UsageError(f"bench.qrels={path}: it judges none of {len(asked)} questions")
    return Judged(known, rows, by_article=True)


def read_windows(path: Path, split: Any, units: Units) -> tuple[list[dict[str, Any]], Qrels]:
    """Read the questions of a set with gold quotes, and the qrels of the windows that hold them.

    Raises UsageError for an invalid file, or one whose quotes are in no window.
    """
    with reading(path):
        questions = questions_of(read_gold(path), split)
        qrels = window_qrels(questions, units)
        if not qrels:
            raise ValueError("no question names a gold quote")
    return questions, qrels


def _cutoffs(given: Any) -> tuple[int, ...]:
    cutoffs = tuple(given) if isinstance(given, list) else (given,)
    try:
        measures(cutoffs)
    except ValueError as error:
        raise UsageError(f"bench.k: {error}") from error
    return cutoffs
