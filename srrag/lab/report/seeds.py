"""Rows that differ in the seed of their engine alone: mean and spread over the seeds."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from srrag.lab.report.row import Row

_SEED = re.compile(r"\+*engine\.seed=(\S+)")
_LABEL = re.compile(r"(?:, )?\bseed=[^,]*")


@dataclass(frozen=True)
class Spread:
    """A system over its seeds: of each metric the mean, and the SD of a sample (n - 1)."""

    bench: str
    name: str
    seeds: tuple[str, ...]
    metrics: Mapping[str, tuple[float, float]]


def spreads(rows: Sequence[Row]) -> list[Spread]:
    """The systems that were run with several seeds; a metric that one of them lacks is left out."""
    families: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        given = [match[1] for each in row.overrides if (match := _SEED.fullmatch(each))]
        if given and row.state == "done":
            others = (each for each in row.overrides if not _SEED.fullmatch(each))
            families.setdefault((row.bench, *others), {})[given[-1]] = row
    return [_spread(family) for family in families.values() if len(family) > 1]


def _spread(family: Mapping[str, Row]) -> Spread:
    rows = list(family.values())
    values = {
        name: [row.metrics[name].value if name in row.metrics else None for row in rows]
        for name in rows[0].metrics
    }
    metrics = {
        name: (statistics.fmean(known), statistics.stdev(known))
        for name, given in values.items()
        if len(known := [value for value in given if value is not None]) == len(rows)
    }
    name = _LABEL.sub("", rows[0].name).removeprefix(", ") or "all seeds"
    return Spread(rows[0].bench, name, tuple(family), metrics)
