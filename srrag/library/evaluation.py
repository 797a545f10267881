"""What an evaluation measured: metrics with intervals, and the difference to a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.html import templates


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A metric of a system, or of the difference of two: value and 95 % interval; p after Holm."""

    system: str
    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    p_holm: float | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The figures of a benchmark. `json` is what `srrag evaluate` prints."""

    system: str
    baseline: str
    measured: tuple[Measured, ...]
    json: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __getitem__(self, metric: str) -> Measured:
        """A metric of the system; raises KeyError for one that was not measured."""
        for each in self.measured:
            if each.metric == metric and each.system == self.system:
                return each
        raise KeyError(metric)

    def to_arrow(self) -> pa.Table:
        """The figures as a table, a row a system and metric."""
        return pa.Table.from_pylist([vars(each) for each in self.measured])

    def to_pandas(self) -> Any:
        """The figures as a pandas frame."""
        return self.to_arrow().to_pandas()

    def __str__(self) -> str:
        """A line a figure."""
        return "\n".join(
            f"{each.system:<28}{each.metric:<24}{_shown(each)}" for each in self.measured
        )

    def _repr_html_(self) -> str:
        page = templates(Path(__file__).parent).get_template("evaluation.html")
        return page.render(rows=[(each, _shown(each)) for each in self.measured])


def _shown(each: Measured) -> str:
    if each.value is None:
        return "–"
    interval = "" if each.low is None else f"  [{each.low:.4f}, {each.high:.4f}]"
    return f"{each.value:.4f}{interval}" + ("" if each.p_holm is None else f"  p {each.p_holm:.4f}")


def evaluation_of(said: Mapping[str, Any]) -> Evaluation:
    """Make the typed result of what `srrag evaluate` prints."""
    system, baseline = str(said.get("system", "")), str(said.get("baseline", ""))
    named = {
        system: said.get("metrics"),
        baseline: said.get("rows", {}).get(baseline, {}).get("metrics"),
        f"{system} − {baseline}": said.get("difference"),
    }
    measured = (found for name, each in named.items() for found in _measured(name, each or {}))
    return Evaluation(system=system, baseline=baseline, measured=tuple(measured), json=said)


def _measured(system: str, metrics: Mapping[str, Any]) -> Iterator[Measured]:
    for metric, found in metrics.items():
        if isinstance(found, Mapping) and "value" in found:
            kept = {key: found.get(key) for key in ("value", "low", "high", "p_holm")}
            yield Measured(system=system, metric=metric, **kept)


def evaluate_here(
    root: object, name: str, bench: str, path: str | Path | None, overrides: list[str]
) -> Evaluation:
    """Evaluate on a build in this process; the arguments are as on the command line."""
    from srrag.config.compose import configure
    from srrag.config.places import JOBS

    job = import_module(f"{JOBS}.evaluate")
    given = [f"root={root}", f"build={name}", f"bench={bench}", *overrides]
    given += [] if path is None else [f"bench.path={path}"]
    return evaluation_of(job.run(configure("evaluate", given)))
