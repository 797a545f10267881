"""Two systems' evidence side by side, and figures of preferences (EbmKG, Eq. 12 and 13)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.advantage import Preference, advantage
from srrag.algo.intervals import bootstrap_interval, tails
from srrag.core.figures import measured, unmeasured
from srrag.lab.judges.preference import PAIRED, PRECISION, RECALL, TIE, WON

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
