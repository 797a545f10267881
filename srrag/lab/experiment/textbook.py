"""`srrag evaluate bench=textbook`: rankings of a textbook's units, both kinds of questions."""

from __future__ import annotations

import time
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
from srrag.lab.datasets.textbook import TextbookQuestion, read_chapters, read_textbook
from srrag.lab.experiment.ranked import RankedByGold
from srrag.lab.experiment.record import Evaluated, record, set_apart
from srrag.lab.experiment.systems import System
from srrag.lab.experiment.terms import Terms
from srrag.lab.measure.retrieval import Qrels
from srrag.lab.measure.scores import Scores, compare, figure
from srrag.lab.measure.textbook import gold_units, textbook_scores
from srrag.retrieve.questions import question_table
from srrag.runner.progress import say
from srrag.storage.store import Store
from srrag.systems.rasrag.chapter_independence import independence, plot_independence
from srrag.systems.rasrag.chapter_independence import readable as readable_tree
from srrag.systems.rasrag.tree_reader import TreeForest


@dataclass(frozen=True)
class Textbook(RankedByGold):
    """The questions of a textbook with their gold units, for evaluations and sweeps."""

    asked_: Sequence[TextbookQuestion]
    gold_units: Qrels
    chapters: Mapping[str, str]
    units: Units
    judge: str = ""

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


def evaluate_textbook(terms: Terms, compared: Sequence[System]) -> dict[str, Any]:
    """Rank the questions by a pipeline, and by the baseline if any; return the figures."""
    started = time.perf_counter()
    bench = read_bench_textbook(terms.bench, terms.path, terms.root, terms.build)
    resampling = terms.resampling
    systems = [_ranked(terms, each, bench) for each in compared]
    systems, seen = set_apart(systems, bench.questions.to_pylist(), terms.in_sample)
    figures = [{s.metric.name: figure(s, **resampling) for s in each.scores} for each in systems]
    summary: dict[str, Any] = {
        "system": systems[0].name,
        "questions": bench.questions.num_rows,
        "without_gold": len(bench.asked_) - bench.questions.num_rows,
        "failed": len(systems[0].table["reject"].drop_null()),
        "units": len(bench.units),
        "metrics": figures[0],
        "in_sample": seen.stated(systems[0].apart, **resampling).model_dump(),
    }
    if len(systems) > 1:
        summary |= {"baseline": systems[1].name, "baseline_metrics": figures[1]}
        summary["difference"] = compare(systems[0].scores, systems[1].scores, **resampling)
    if terms.out:
        difference = summary.get("difference")
        record(terms.out, terms.name, "", bench.gold, systems, difference, **resampling)
    summary["seconds"] = round(time.perf_counter() - started, 3)
    say(readable(summary))
    return summary


def _ranked(terms: Terms, system: System, bench: Textbook) -> Evaluated:
    """Rank the questions by the pipeline of a system."""
    began = time.perf_counter()
    bound = terms.running.bound(terms.root, terms.build, bench.asked(system.make()))
    at = bound.place(terms.running.place)
    table = bound.run(bench.questions, at)
    took = time.perf_counter() - began
    kept = bench.kept(table, at) if terms.out else table
    scores, usage = bench.scores(table, at), bound.usage(bench.questions)
    return Evaluated(system.name, system.overrides, kept, scores, took, bound, usage)


def readable(summary: Mapping[str, Any]) -> str:
    """Format the figures for a terminal."""
    lines = [
        f"{summary['questions']} questions, {summary['failed']} failed, "
        f"without gold {summary['without_gold']}: left out; {summary['units']} units"
    ]
    titles = {
        "metrics": summary["system"],
        "baseline_metrics": summary.get("baseline"),
        "difference": f"{summary['system']} - {summary.get('baseline')}",
    }
    for key, title in titles.items():
        if key not in summary:
            continue
        lines += ["", str(title)]
        for name, each in summary[key].items():
            if each["value"] is None:
                lines.append(f"  {name:<24}       –   {each['reason']}")
                continue
            p = f"   p {each['p']:.4f}, Holm {each['p_holm']:.4f}" if "p" in each else ""
            lines.append(
                f"  {name:<24}{each['value']:9.4f}   [{each['low']:.4f}, {each['high']:.4f}]{p}"
            )
    return "\n".join(lines) + "\n"


def evaluate_tree(path: Path, build: str, out: Path | None) -> dict[str, Any]:
    """Measure how independent the chapters of a build in the root `path` are; plots go to `out`."""
    artifacts = Store(path).artifacts(build)
    if "forest" not in artifacts:
        raise UsageError(f"root={path} holds no tree; srrag build plan=textbook makes one")
    forest = TreeForest(artifacts["forest"])
    vectors = np.asarray(forest.btu_vectors, np.float64)
    try:
        found = independence(vectors, forest.btu_root)
    except ValueError as error:
        raise UsageError(f"root={path}: {error}") from error
    if out is not None:
        found["plots"] = plot_independence(out, vectors, forest.btu_root, forest.titles())
    say(readable_tree(found))
    return found
