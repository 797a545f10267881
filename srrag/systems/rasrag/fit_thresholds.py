"""Learn the thresholds of a tree search from questions whose gold units are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.significance import quantile_interval
from srrag.core.figures import measured
from srrag.core.formats import read_queries
from srrag.core.pipeline import Pipeline, chain
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.lab.measure.references import read_qrels
from srrag.systems.rasrag.search_tree import SearchTree
from srrag.systems.rasrag.textbook_tree import TreeForest

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class GoldQuestion:
    """A question and the documents that answer it."""

    query_id: str
    text: str
    documents: tuple[str, ...]


@dataclass(frozen=True)
class GoldScores:
    """The scores of gold BTUs and STUs, flat, with the row of the question of each."""

    btus: Floats
    btu_rows: Ints
    stus: Floats
    stu_rows: Ints

    def metrics(self, quantiles: Mapping[str, float]) -> dict[str, dict[str, Any]]:
        """The thresholds as figures: quantiles, with intervals that draw questions."""
        found = {}
        for name, share in quantiles.items():
            btu = name.startswith("btu")
            scores, rows = (self.btus, self.btu_rows) if btu else (self.stus, self.stu_rows)
            interval = quantile_interval(scores, rows, share)
            found[name] = measured(interval, len(np.unique(rows)), items=len(scores))
        return found


def read_gold_questions(
    queries: Path, qrels: Path, sample: bool | None = None
) -> list[GoldQuestion]:
    """Read the questions that have a relevant document; `sample` selects by their mark.

    A line without the mark counts as not marked. Raises UsageError that names file and line, and
    ValueError if no question is left.
    """
    gold = read_qrels(qrels)
    found = [
        GoldQuestion(row["query_id"], str(row["text"]), documents)
        for row in read_queries(queries)
        if sample in (None, bool(row.get("sample")))
        and (documents := tuple(n for n, g in gold.get(row["query_id"], {}).items() if g > 0))
    ]
    if not found:
        raise ValueError(f"{queries}: no question has a relevant document in {qrels}")
    return found


def tree_of(pipeline: Pipeline) -> tuple[tuple[Any, ...], SearchTree]:
    """Return the steps before the tree search, and the search; ValueError without one."""
    steps = chain(pipeline.rank)
    for place, step in enumerate(steps):
        if isinstance(step, SearchTree):
            return steps[:place], step
    raise ValueError("pipeline: it searches no tree (SearchTree); fit rasrag or one like it")


def gold_scores(
    step: SearchTree, questions: Sequence[GoldQuestion], encoded: pa.Table, units: Units, at: Place
) -> GoldScores:
    """Return the scores of gold BTUs and of gold STUs with their questions.

    `encoded` has a row for each question, in order, with the columns that the search reads. Raises
    ValueError if no gold document is in the build.
    """
    scores = step.opened(at)
    rows, places = _gold_places(questions, units, scores.forest)
    if not len(rows):
        raise ValueError("the build holds none of the documents that the qrels name")
    btus = np.searchsorted(scores.forest.first_stu, places, side="right") - 1
    pairs = np.unique(np.stack([rows, btus]), axis=1)
    btu_scores = scores.btus(encoded, pairs[0], pairs[1])
    return GoldScores(btu_scores, pairs[0], scores.stus(encoded, rows, places), rows)


def _gold_places(
    questions: Sequence[GoldQuestion], units: Units, forest: TreeForest
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows of questions, sorted, and the number of each of their gold STUs."""
    ids = forest.stu_ids.to_pylist()
    owned: dict[str, list[int]] = {}
    for place, name in enumerate(units.document_keys(ids).to_pylist()):
        owned.setdefault(name, []).append(place)
    found = [
        (row, place)
        for row, each in enumerate(questions)
        for name in each.documents
        for place in owned.get(name, ())
    ]
    table = np.array(found, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
