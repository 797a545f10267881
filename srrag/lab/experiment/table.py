"""The tables of a sweep: each row beside the baseline, and pairs of rows by group of questions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from srrag.algo.significance import holm, mcnemar_exact
from srrag.core.errors import UsageError
from srrag.core.figures import BaselineDifference
from srrag.lab.experiment.bench import Outcome
from srrag.lab.experiment.configurations import Configuration
from srrag.lab.measure.scores import Scores, compare
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


@dataclass(frozen=True)
class Pair:
    """Two rows on the questions of a group that count for both: means, counts and McNemar's p.

    `p_holm` is Holm's correction of it over all pairs of the group.
    """

    row: str
    against: str
    group: str
    metric: str
    questions: int
    value: float
    other: float
    only: int
    """Questions that the row alone has right."""
    only_other: int
    p_mcnemar: float
    p_holm: float = 1.0

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON."""
        return asdict(self)


def paired(
    scores: Mapping[str, Sequence[Scores]],
    pairs: Sequence[tuple[str, str]],
    groups: Mapping[str, str],
    metric: str = "choice_accuracy",
) -> list[Pair]:
    """Compare the rows of each of `pairs` with one another, in each group and over all questions.

    `scores` are those of each row, `groups` the group of each question. A row without the metric,
    or with values other than right and wrong, is left out.
    """
    found = []
    for row, against in pairs:
        ours, theirs = _right(scores[row], metric), _right(scores[against], metric)
        shared = [name for name in ours if name in theirs]
        by_group: dict[str, list[str]] = {}
        for name in shared:
            by_group.setdefault(groups.get(name, ""), []).append(name)
        if len(by_group) > 1:
            by_group["all"] = shared
        for group, names in by_group.items():
            a, b = (np.array([right[n] for n in names]) for right in (ours, theirs))
            counts = int((a & ~b).sum()), int((b & ~a).sum())
            means = float(a.mean()), float(b.mean())
            p = mcnemar_exact(a, b)
            found.append(Pair(row, against, group, metric, len(names), *means, *counts, p))
    return _corrected(found)


def expanded_pairs(
    pairs: Mapping[str, str], rows: Sequence[str], left_out: Collection[str] = ()
) -> list[tuple[str, str]]:
    """The pairs as names of rows, without those of which a row is left out.

    A name that lists multiply ("bm25_filter" of "bm25_filter, k=4") stands for all its rows, each
    against the one of the same settings, or against the single one. Raises UsageError that names a
    row that does not exist.
    """
    found = []
    for row, against in pairs.items():
        if _gone(row, rows, left_out) or _gone(against, rows, left_out):
            continue
        theirs = _settings(against, rows)
        for settings, name in _settings(row, rows).items():
            if other := theirs.get(settings, theirs.get("")):
                found.append((name, other))
    return found


def _gone(name: str, rows: Sequence[str], left_out: Collection[str]) -> bool:
    """Whether a row is left out, with all rows that lists make of it."""
    of = [[e for e in each if e == name or e.startswith(f"{name}, ")] for each in (rows, left_out)]
    return not of[0] and bool(of[1])


def _settings(name: str, rows: Sequence[str]) -> dict[str, str]:
    """The rows that a name stands for, by the settings that follow it; "" for none."""
    begin = f"{name}, "
    found = {row.removeprefix(name): row for row in rows if row == name or row.startswith(begin)}
    if not found:
        raise UsageError(f"sweep.pairs: {name!r} is no row; there are {', '.join(rows)}")
    return found


def _corrected(pairs: Sequence[Pair]) -> list[Pair]:
    """Correct the p-values of each group by Holm."""
    adjusted: dict[int, float] = {}
    for group in {each.group for each in pairs}:
        places = [n for n, each in enumerate(pairs) if each.group == group]
        p_values = holm([pairs[n].p_mcnemar for n in places])
        adjusted |= dict(zip(places, p_values, strict=True))
    return [replace(each, p_holm=adjusted[n]) for n, each in enumerate(pairs)]


def _right(scores: Sequence[Scores], metric: str) -> dict[str, bool]:
    """Whether each question is right; {} where the row has no such metric of right and wrong."""
    for each in scores:
        if each.metric.name == metric and not each.void:
            values = each.parts / each.wholes
            if np.isin(values, (0.0, 1.0)).all():
                return dict(zip(each.questions, (values == 1).tolist(), strict=True))
    return {}


def readable_pairs(pairs: Sequence[Pair]) -> str:
    """The pairs as a table for a terminal."""
    if not pairs:
        return ""
    width = max(len(f"{each.row} against {each.against}") for each in pairs)
    groups = max(5, *(len(each.group) for each in pairs))
    head = f"{'':<{width}}  {'set':<{groups}}{'n':>6}{'against':>9}{'row':>8}"
    lines = [f"{head}{'only : only':>14}{'p':>10}{'Holm':>10}"]
    for each in pairs:
        name = f"{each.row} against {each.against}"
        counts = f"{each.only_other} : {each.only}"
        lines.append(
            f"{name:<{width}}  {each.group:<{groups}}{each.questions:>6}{each.other:>9.3f}"
            f"{each.value:>8.3f}{counts:>14}{each.p_mcnemar:>10.2g}{each.p_holm:>10.2g}"
        )
    return "\n".join([*lines, ""])
