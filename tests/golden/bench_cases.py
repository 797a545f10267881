"""The prompts of benchmark construction with fixed inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from srrag.core.schema import empty_value
from srrag.lab.benchmark.grade_support import GradeSupport
from srrag.lab.benchmark.sample import GOLD, POOL, POOLED, REFERENCED, SEEDS, SUPPORTED
from srrag.lab.benchmark.split_nuggets import SplitNuggets
from srrag.lab.benchmark.write_question import WriteQuestion
from srrag.lab.benchmark.write_reference import WriteReference
from srrag.llm.completion import Prompt

Fill = Callable[[str], str]

QUESTION = "Does high-load strength training lower plantar heel pain more than stretching?"
PASSAGE = "At 3 months the Foot Function Index was 29 points lower with strength training."
TITLE = "Strength training or stretching for plantar heel pain"


def row(schema: pa.Schema, **values: Any) -> pa.Table:
    """A table of one row, empty but for these values."""
    blank = {item.name: empty_value(item.type) for item in schema}
    return pa.Table.from_pylist([{**blank, "reject": None, **values}], schema=schema)


def item(kind: pa.DataType, **values: Any) -> Mapping[str, Any]:
    """A struct of a list, empty but for these values."""
    return {field.name: empty_value(field.type) for field in kind.value_type} | values


def written(fill: Fill) -> list[Prompt]:
    given = {"title": fill(TITLE), "section": fill("Results"), "window": fill(PASSAGE)}
    return WriteQuestion().prompts(row(SEEDS, grade="C", **given))


def graded(fill: Fill) -> list[Prompt]:
    given = {"title": fill(TITLE), "section": fill("Results"), "text": fill(PASSAGE)}
    candidate = item(POOL, unit_id="u1", **given)
    return GradeSupport().prompts(row(POOLED, text=fill(QUESTION), pool=[candidate]))


def referenced(fill: Fill) -> list[Prompt]:
    trial = item(GOLD, grade="C", year=2015, title=fill(TITLE), text=fill(PASSAGE))
    advice = "Clinicians should offer strength training to adults with plantar heel pain."
    guideline = item(GOLD, grade="A", year=2023, title="Heel pain", text=advice)
    return WriteReference().prompts(row(SUPPORTED, text=fill(QUESTION), gold=[guideline, trial]))


def split(fill: Fill) -> list[Prompt]:
    exact = [{"text": fill("Yes, by 29 points at 3 months."), "unit_ids": ["u1"]}]
    return SplitNuggets().prompts(row(REFERENCED, text=fill(QUESTION), exact=exact))


BENCH_CASES: dict[str, Callable[[Fill], list[Prompt]]] = {
    "write_question": written,
    "grade_support": graded,
    "write_reference": referenced,
    "split_nuggets": split,
}
