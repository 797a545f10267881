"""Read the benchmark that `bench` names, in the shape in which it scores systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.core.errors import UsageError, reading
from srrag.core.rows import Row
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.lab.datasets.textbook import KINDS, TextbookQuestion, read_chapters, read_textbook
from srrag.lab.experiment.answers import Answers, read_gold
from srrag.lab.experiment.bench import Bench, InSample, Outcome, RankedByGold, failed, split
from srrag.lab.experiment.judging import judges
from srrag.lab.experiment.rankings import (
    Rankings,
    ranked,
    read_articles,
    read_judged,
    told_apart,
)
from srrag.lab.experiment.running import Terms
from srrag.lab.measure.judgements import Metric
from srrag.lab.measure.near_topic import (
    NearTopic,
    near_topic_scores,
    read_near_topic,
    risk_coverage,
)
from srrag.lab.measure.references import Qrels, per_question, windows_by_document
from srrag.lab.measure.scores import Scores
from srrag.retrieve.questions import question_table
from srrag.storage.store import Store

DEPTH = 10
RETURNED = 16
"""How many of the returned units the precision counts (RASRAG's context precision)."""
PAIRS = Metric("pairs_scored", "a search that counts the pairs it scores", better="lower")


def gold_units(questions: Sequence[TextbookQuestion], units: Units) -> Qrels:
    """Return the relevant units of each question, all of grade 1.

    Of an outcome these are all units of its sections, of a known item those that hold its sentence
    (white space aside). Questions without any are absent: their sentence is cut in two, or their
    section is not in the root.
    """
    windows = windows_by_document(units, {name for each in questions for name in each.sections})
    found: Qrels = {}
    for each in questions:
        sentence = " ".join(each.sentence.split())
        of_sections = [unit for name in each.sections for unit in windows.get(name, ())]
        held = {unit: 1 for unit, text in of_sections if sentence in text}
        if held:
            found[each.query_id] = held
    return found


def textbook_scores(
    questions: Sequence[TextbookQuestion],
    gold: Qrels,
    chapters: Mapping[str, str],
    table: pa.Table,
    units: Units,
) -> list[Scores]:
    """Score a ranking by question; one that failed found nothing.

    For each kind: nDCG@10 over units; P@16, the relevant share of the first 16 units that were
    returned (0 if none was); chapter@1, whether the first unit is of the right chapter. Over all:
    the mean of the column `pairs_scored`, where a search writes one.
    """
    run = ranked(table)
    failed = len(table["reject"].drop_null())
    firsts = [next(iter(found)) for found in run.values() if found]
    homes = units.document_keys(firsts).to_pylist() if firsts else []
    chapter = {unit: chapters.get(home, "") for unit, home in zip(firsts, homes, strict=True)}
    scores = []
    for kind in KINDS:
        asked = [each for each in questions if each.kind == kind and each.query_id in gold]
        of_kind = sum(each.kind == kind for each in questions)
        ids = sorted(each.query_id for each in asked)
        judged = {query: gold[query] for query in ids}
        values = per_question(judged, run, (DEPTH,)) if ids else {}
        by_id = {each.query_id: each for each in asked}
        precision = [_precision(run.get(query, {}), gold[query]) for query in ids]
        right = [
            float(chapter.get(next(iter(run.get(query, {})), "")) == by_id[query].chapter)
            for query in ids
        ]
        for name, each in (
            (f"nDCG@{DEPTH}", values.get(f"nDCG@{DEPTH}", np.zeros(0))),
            (f"P@{RETURNED}", np.array(precision)),
            ("chapter@1", np.array(right)),
        ):
            metric = Metric(f"{kind}_{name}", "a unit that answers")
            scores.append(Scores.by_question(metric, ids, each, of_kind, failed))
    pairs = _pairs(table)
    known = [q.query_id for q in questions if q.query_id in gold and q.query_id in pairs]
    counts = np.array([pairs[query] for query in known])
    return [*scores, Scores.by_question(PAIRS, known, counts, len(questions), failed)]


def _precision(found: Mapping[str, float], gold: Mapping[str, int]) -> float:
    first = list(found)[:RETURNED]
    return sum(unit in gold for unit in first) / len(first) if first else 0.0


def _pairs(table: pa.Table) -> dict[str, float]:
    """The pairs that were scored for each question that did not fail."""
    if PAIRS.name not in table.column_names:
        return {}
    columns = (table[name].to_pylist() for name in ("query_id", PAIRS.name, "reject"))
    return {
        query: float(count) for query, count, reject in zip(*columns, strict=True) if reject is None
    }


@dataclass(frozen=True)
class Textbook(RankedByGold):
    """The questions of a textbook with their gold units, for evaluations and sweeps."""

    asked_: Sequence[TextbookQuestion]
    gold_units: Qrels
    chapters: Mapping[str, str]
    units: Units

    @cached_property
    def questions(self) -> pa.Table:
        """The questions that have a gold unit."""
        return question_table(
            {"query_id": each.query_id, "text": each.text}
            for each in self.asked_
            if each.query_id in self.gold_units
        )

    @property
    def gold(self) -> list[Row]:
        """The gold of each question with its kind and chapter."""
        return [
            {
                "query_id": each.query_id,
                "text": each.text,
                "kind": each.kind,
                "chapter": each.chapter,
                "gold": [],
                "relevant": sorted(self.gold_units.get(each.query_id, ())),
            }
            for each in self.asked_
        ]

    @property
    def facts(self) -> Row:
        """The number of units."""
        return {"units": len(self.units)}

    def scores(self, table: pa.Table, at: Place) -> list[Scores]:
        """Score a ranking by the units of the textbook."""
        return textbook_scores(self.asked_, self.gold_units, self.chapters, table, self.units)


def read_bench_textbook(
    bench: Mapping[str, Any], path: Path, root: str | None, build: str
) -> Textbook:
    """Read a textbook's questions for a root; raises UsageError if they do not fit it."""
    if root is None:
        raise UsageError("root= is missing: bench.kind=textbook ranks a finished build's units")
    with reading(path):
        questions = read_textbook(path, bench["sample"], bench["known"])
        chapters = read_chapters(path)
    units = Units(Store(root).artifacts(build)["units"])
    gold = gold_units(questions, units)
    if not gold:
        raise UsageError(f"root={root} holds none of the sections of bench.path={path}")
    return Textbook(questions, gold, chapters, units)


_ABSTAINS: Row = {
    "reject": None, "state": "not", "sentences": [], "answer": "", "answer_note": "", "missing": "",
}  # fmt: skip
CONTROLS: Mapping[str, Row] = {
    "control: always abstain": _ABSTAINS,
    "control: always answer": {**_ABSTAINS, "state": "answered", "sentences": [{}]},
}
"""One never answers, the other always: neither figure means anything without the other."""


@dataclass(frozen=True)
class NearTopicBench(Bench):
    """Questions that a corpus answers, and near variants that it cannot answer."""

    asked_: Sequence[NearTopic]
    side: str | None = None

    @cached_property
    def questions(self) -> pa.Table:
        """All questions."""
        return question_table({"query_id": q.query_id, "text": q.text} for q in self.asked_)

    @property
    def gold(self) -> list[Row]:
        """The questions, each with the words that the corpus lacks."""
        return [
            {"query_id": each.query_id, "text": each.text, "ideal_answer": _told(each), "gold": []}
            for each in self.asked_
        ]

    @property
    def facts(self) -> Row:
        """How many questions the corpus answers, and how many not."""
        answerable = sum(each.answerable for each in self.asked_)
        others = len(self.asked_) - answerable
        return {"answerable": answerable, "unanswerable": others, "side": self.side}

    @cached_property
    def groups(self) -> Mapping[str, str]:
        """The element that was replaced in each question that the corpus cannot answer."""
        return {each.query_id: each.swapped for each in self.asked_ if not each.answerable}

    def tried(
        self, outcomes: Mapping[str, Outcome], first: str, seen: InSample
    ) -> tuple[dict[str, list[Scores]], dict[str, str]]:
        """Score systems that always and never answer; each is best on half of the metrics."""
        rows = {
            name: {each.query_id: row for each in self.asked_} for name, row in CONTROLS.items()
        }
        return {name: self._scores(each, seen)[0] for name, each in rows.items()}, {}

    def score(self, table: pa.Table, at: Place, seen: InSample) -> Outcome:
        """Score whether a pipeline answers, with in-sample questions apart."""
        rows = {row["query_id"]: row for row in table.to_pylist()}
        kept, apart = self._scores(rows, seen)
        counted = [each for each in self.asked_ if each.query_id not in seen.apart]
        facts = {"risk_coverage": risk_coverage(counted, rows)}
        return Outcome(kept, missing=failed(table), apart=apart, facts=facts)

    def _scores(
        self, rows: Mapping[str, Mapping[str, Any]], seen: InSample
    ) -> tuple[list[Scores], list[Scores]]:
        return split(near_topic_scores(self.asked_, rows), seen)


def _told(question: NearTopic) -> str:
    return "" if question.answerable else f"The corpus has nothing on: {question.absent}"


def read_bench_near_topic(bench: Mapping[str, Any], path: Path, root: str | None) -> NearTopicBench:
    """Read the questions; raises UsageError without a root."""
    if root is None:
        raise UsageError("root= is missing: the build of the corpus that is asked")
    answerable = Path(bench["answerable"]) if bench["answerable"] else None
    with reading(answerable or path), reading(path):
        return NearTopicBench(read_near_topic(path, answerable, bench["side"]), bench["side"])


SYSTEMS = ("beir", "gold", "textbook", "near_topic", "answers")
"""Kinds of benchmarks that score systems one by one, so that a sweep can have any number."""


def read_bench(terms: Terms) -> Bench:
    """Read a benchmark that scores systems; raises UsageError for another kind."""
    bench, path, root, build = terms.bench, terms.path, terms.root, terms.build
    kind = bench["kind"]
    if not path.exists():
        raise UsageError(f"bench.path={path} does not exist")
    if kind == "textbook":
        return read_bench_textbook(bench, path, root, build)
    if kind == "near_topic":
        return read_bench_near_topic(bench, path, root)
    if kind in ("beir", "gold"):
        judged = read_judged(bench, path, root, build)
        return Rankings(judged, _documents(root, build))
    if kind != "answers":
        raise UsageError(f"bench.kind={kind}: a sweep scores {', '.join(SYSTEMS)}")
    return read_bench_answers(terms)


def read_bench_answers(terms: Terms) -> Answers:
    """Read a benchmark of answers; raises UsageError if it cannot be asked."""
    bench, path = terms.bench, terms.path
    rows, faulty = read_gold(bench, path)
    if not bench["answers"] and not any(row["text"] for row in rows):
        raise UsageError(
            "bench.path holds no question texts: answer them by `srrag answer`, and give "
            "bench.answers"
        )
    steps, documents = judges(bench["judges"]), _documents(terms.root, terms.build)
    stated = [_stated(row, documents, path) for row in rows]
    # No root names the documents of stored answers, and two systems have these scores or none.
    stored = bench["answers"] or bench["baseline_answers"]
    articles = None if stored else read_articles(bench, rows)
    return Answers(terms, rows, stated, steps, articles, faulty)


def _stated(row: Row, documents: Mapping[str, Row], path: Path) -> Row:
    """The question as the file states it, with its strata."""
    try:
        return told_apart({**row.pop("given"), **row}, documents)
    except (TypeError, KeyError) as error:
        raise UsageError(
            f"bench.path={path}: question {row['query_id']!r}: `gold` is a list of objects with "
            "`doc`, and `relevant` one of ids"
        ) from error


def _documents(root: str | None, build: str) -> Mapping[str, Row]:
    """The documents of a build by their source id; none without a root."""
    if root is None:
        return {}
    units = Units(Store(root).artifacts(build)["units"])
    known = units.documents.select(["source_id", "grade", "condition"]).to_pylist()
    return {row["source_id"]: row for row in known}
