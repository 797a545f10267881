"""`srrag evaluate bench=preference`: which of two systems' evidence a judge prefers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.significance import bootstrap_interval, tails
from srrag.core.errors import UsageError
from srrag.core.figures import measured, printed, unmeasured
from srrag.lab.experiment.answers import Answers
from srrag.lab.experiment.configurations import Configuration
from srrag.lab.experiment.judging import judge, judged_in
from srrag.lab.experiment.running import Terms
from srrag.lab.experiment.sweep import in_sample_of, place_rows, run_all
from srrag.lab.judges.accuracy import PAIRED, PRECISION, RECALL, TIE, WON
from srrag.lab.measure.cases import make_cases
from srrag.runner.progress import say
from srrag.runner.summary import calls_made


class Preference(NamedTuple):
    """Shares of comparisons that the first system won and that were ties, 0 to 1."""

    win: float
    tie: float


def advantage(recall: Preference, precision: Preference) -> float | None:
    """Return 4rp / (r + p) − 1 with r, p = win / (1 − tie): −1 to 1, above 0 for the better.

    None if all comparisons of either kind were ties; −1 if the first system won no comparison of
    either kind. Raises ValueError for shares outside 0…1 or whose sum exceeds 1.
    """
    for share in (recall, precision):
        if not (share.win >= 0 and share.tie >= 0 and share.win + share.tie <= 1 + 1e-9):
            raise ValueError(f"{share}: shares of wins and ties lie in 0…1, and so does their sum")
    if recall.tie >= 1 or precision.tie >= 1:
        return None
    r, p = (share.win / (1 - share.tie) for share in (recall, precision))
    return 4 * r * p / (r + p) - 1 if r + p else -1.0


Values = npt.NDArray[np.float64]
_LEVEL = 0.95


def pair_evidence(cases: pa.Table, others: pa.Table) -> pa.Table:
    """Join the cases of two systems by question into rows of PAIRED."""
    theirs = dict(zip(others["query_id"].to_pylist(), others["evidence"].to_pylist(), strict=True))
    names = [name for name in PAIRED.names if name in cases.column_names]
    rows = [
        {**row, "other": theirs.get(row["query_id"], []), "reject": None}
        for row in cases.select(names).to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=PAIRED)


def preference_figures(
    judged: pa.Table, left_out: Collection[str] = (), *, resamples: int, seed: int
) -> dict[str, Any]:
    """State wins, ties and advantage of the first system, with intervals over questions.

    Questions of `left_out`, and those that were not judged, do not count.
    """
    values: dict[str, dict[str, float]] = {RECALL.name: {}, PRECISION.name: {}}
    for row in judged.to_pylist():
        if row["reject"] is None and row["query_id"] not in left_out:
            values[row["metric"]][row["query_id"]] = row["value"]
    both = sorted(values[RECALL.name].keys() & values[PRECISION.name].keys())
    if not both:
        none = unmeasured("no question was judged")
        return dict.fromkeys(_names(), none)
    table = np.array([[values[m.name][query] for query in both] for m in (RECALL, PRECISION)])
    shares = [
        measured(bootstrap_interval(kind, resamples=resamples, seed=seed), len(both))
        for row in table
        for kind in ((row == WON).astype(float), (row == TIE).astype(float))
    ]
    return dict(zip(_names(), [*shares, _advantage(table, resamples, seed)], strict=True))


def _names() -> Sequence[str]:
    kinds = [f"{metric}_{kind}" for metric in ("recall", "precision") for kind in ("win", "tie")]
    return [*kinds, "advantage"]


def _advantage(table: Values, resamples: int, seed: int) -> dict[str, Any]:
    """The advantage with its percentile interval; resamples of ties alone have none."""
    number = table.shape[1]
    value = _of(table)
    if value is None:
        return unmeasured("all comparisons of recall, or all of precision, are ties", number)
    rng = np.random.default_rng(seed)
    drawn = (_of(table[:, rng.integers(0, number, number)]) for _ in range(resamples))
    known = np.array([each for each in drawn if each is not None])
    return measured((value, *tails(known, _LEVEL)), number)


def _of(table: Values) -> float | None:
    recall, precision = (
        Preference(float((row == WON).mean()), float((row == TIE).mean())) for row in table
    )
    return advantage(recall, precision)


_JUDGE = "preference"
"""The judge of `bench.judges` that compares."""


def evaluate_preference(
    terms: Terms, bench: Answers, rows: Sequence[Configuration]
) -> dict[str, Any]:
    """Compare the evidence of a system with its baseline's; raises UsageError without one."""
    if len(rows) < 2:
        raise UsageError(
            "bench=preference compares two: baseline=PIPELINE, or bench.baseline_answers=FILE"
        )
    seen, placed = in_sample_of(bench, terms, rows), place_rows(rows, terms.running)
    run_all(placed, bench.questions, alone=True)
    one, other = (make_cases(bench.rows, each.table(bench.questions)).table for each in placed)
    store = judged_in(terms.root, terms.out)
    judged, usage = judge(store, terms.running, pair_evidence(one, other), bench.steps)
    table, asked = judged[_JUDGE], len(bench.rows)
    lost = len(set(table.filter(table["reject"].is_valid())["query_id"].to_pylist()))
    summary: dict[str, Any] = {
        "questions": asked,
        "faulty_questions": len(bench.faulty),
        "judge": terms.judge,
        "system": rows[0].name,
        "baseline": rows[1].name,
        "not_judged": lost,
        "metrics": preference_figures(table, seen.apart, **terms.resampling),
        **calls_made({"judge": usage}, asked),
        "ok": lost < asked,
    }
    told = [f"{asked} questions, judged by {terms.judge}; {rows[0].name} over {rows[1].name}"]
    told += [f"  {name:<16}{printed(each)}" for name, each in summary["metrics"].items()]
    say("\n".join([*seen.said(), *told]) + "\n")
    return summary
