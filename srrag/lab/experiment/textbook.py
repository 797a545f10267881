"""A textbook as a benchmark: rankings of its units, for both kinds of questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.errors import UsageError, reading
from srrag.core.rows import Row
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.lab.datasets.textbook import TextbookQuestion, read_chapters, read_textbook
from srrag.lab.experiment.bench import RankedByGold
from srrag.lab.measure.retrieval import Qrels
from srrag.lab.measure.scores import Scores
from srrag.lab.measure.textbook import gold_units, textbook_scores
from srrag.retrieve.questions import question_table
from srrag.storage.store import Store


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
