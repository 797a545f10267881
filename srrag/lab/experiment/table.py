"""The table of a sweep: compare each row with the baseline, and print it to a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srrag.algo.significance import holm
from srrag.core.figures import BaselineDifference
from srrag.lab.experiment.bench import Outcome
from srrag.lab.experiment.configurations import Configuration
from srrag.lab.measure.scores import compare
from srrag.lab.report import numbers
from srrag.lab.report.results import stated
from srrag.lab.report.row import Row, spreads
from srrag.lab.report.view import benches

NO_VALUE = "–"


def compared(
    made: Sequence[Row],
    outcomes: Mapping[str, Outcome],
    baseline: str,
    rows: Sequence[Configuration],
    *,
    over_rows: bool,
) -> list[Row]:
    """Add each row's difference to the baseline.

    Holm's correction runs over the configurations. It corrects McNemar's exact p-values if every
    value is right or wrong, else those of the bootstrap. Without `over_rows` it stays as `compare`
    made it, over the metrics.
    """
    theirs = outcomes[baseline].scores
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        ours = outcomes[row.name].scores
        if row.name != baseline and ours and theirs:
            found[row.name] = compare(ours, theirs, **row.resampling)
    for metric in (each.metric.name for each in theirs if over_rows):
        tested = [d[metric] for d in found.values() if d[metric].get("p") is not None]
        exact = all("p_mcnemar" in each for each in tested)
        p_values = [each["p_mcnemar" if exact else "p"] for each in tested]
        for each, p in zip(tested, holm(p_values), strict=True):
            each["p_holm"] = p
    return [
        row.model_copy(
            update={
                "baseline": baseline if row.name != baseline else None,
                "difference": {
                    name: BaselineDifference(**each)
                    for name, each in found.get(row.name, {}).items()
                },
            }
        )
        for row in made
    ]


def readable_systems(off: Mapping[str, str], unfair: str) -> str:
    """Lines on what is off, and on whom the benchmark is unfair to."""
    lines = [f"unfair to: {unfair}"] if unfair else []
    lines += [f"off, {name}: {reason}" for name, reason in off.items()]
    return "\n".join(["", *lines, ""]) if lines else ""


def judged_fit(rows: Sequence[Row], told: Mapping[str, str]) -> list[Row]:
    """Write into all rows which metrics are unfit, and remove the tests of their differences."""
    untested = {"p": None, "p_holm": None, "p_mcnemar": None}
    return [
        row.model_copy(
            update={
                "unfit": dict(told),
                "difference": {
                    name: each.model_copy(update=untested) if name in told else each
                    for name, each in row.difference.items()
                },
            }
        )
        for row in rows
    ]


def readable(rows: Sequence[Row], baseline: str, shown: Sequence[str] | None = None) -> str:
    """Format failures, then the table of values and p-values of the differences, for a terminal.

    `shown` are the metrics, or those of a report's first table; empty columns are left out. A
    summary of rows that differ only in the engine's seed follows.
    """
    shown = shown or [column.name for column in benches(rows)[0].main]
    names = [n for n in shown if any(_cell(row, n) != NO_VALUE for row in rows)]
    names = names or list(dict.fromkeys(name for row in rows for name in row.metrics))
    width = max(len(row.name) for row in rows)
    wide = {name: max(20, len(name) + 2) for name in names}
    head = "".join(f"{name:>{wide[name]}}" for name in names)
    lines = [f"! {each}" for each in stated(rows)]
    lines += ["", f"{'':<{width}}{head}{'seconds':>10}{'tokens':>10}{'failed':>8}"]
    for row in rows:
        if row.state == "failed":
            lines.append(f"{row.name:<{width}}  FAILED")
            continue
        cells = "".join(f"{_cell(row, name):>{wide[name]}}" for name in names)
        tokens = row.tokens_in + row.tokens_out
        line = f"{row.name:<{width}}{cells}{row.seconds:>10.1f}{tokens:>10}{row.failed:>8}"
        lines.append(line + ("  no effect" if row.unmoved else ""))
    lines.append(f"in brackets: p of the difference to {baseline}, Holm over the configurations")
    lines += [f"{name}: {why}" for name, why in rows[0].unfit.items()]
    if over := spreads(rows):
        lines += ["", "over seeds, mean ± SD"]
    for each in over:
        pairs = (each.metrics.get(name) for name in names)
        shown = [NO_VALUE if pair is None else numbers.spread(*pair) for pair in pairs]
        lines.append(f"{each.name:<{width}}" + "".join(f"{text:>20}" for text in shown))
    return "\n".join(["", *lines, ""])


def _cell(row: Row, metric: str) -> str:
    value = row.metrics[metric].value if metric in row.metrics else None
    if value is None:
        return NO_VALUE
    p = row.difference[metric].p_holm if metric in row.difference else None
    return f"{value:.4f}" + ("" if p is None else f" ({p:.4f})")
