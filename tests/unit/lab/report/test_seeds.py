"""Mean and SD over seeds, with sums worked by hand."""

from __future__ import annotations

import pytest

from srrag.core.figures import Figure
from srrag.lab.report.row import Row, spreads

VALUES = ((0, 1.0), (1, 2.0), (2, 6.0))


def row(name: str, value: float | None, *overrides: str, **more: object) -> Row:
    figure = Figure(value=value, reason="" if value is not None else "none")
    metrics = {"coverage": figure, "recall": Figure(value=0.5)}
    return Row(name=name, bench="b", command="c", overrides=overrides, metrics=metrics, **more)  # type: ignore[arg-type]


def test_rows_that_differ_in_the_seed_alone_are_summed_up() -> None:
    rows = [
        *(row(f"a, seed={n}", v, "pipeline=a", f"engine.seed={n}") for n, v in VALUES),
        *(row(f"b, seed={n}", 0.5, "pipeline=b", f"++engine.seed={n}") for n in (0, 1)),
        row("c, seed=0", 0.1, "pipeline=c", "engine.seed=0"),
        row("d", 0.1, "pipeline=a"),
        row("resampled", 0.1, "pipeline=a", "seed=1"),
    ]  # fmt: skip
    a, b = spreads(rows)
    assert (a.name, a.seeds, b.name, b.seeds) == ("a", ("0", "1", "2"), "b", ("0", "1"))
    assert a.metrics["coverage"] == (3.0, pytest.approx(7**0.5))
    assert a.metrics["recall"] == b.metrics["coverage"] == (0.5, 0.0)


def test_what_is_missing_in_one_seed_has_no_mean() -> None:
    rows = [row(f"seed={n}", v, f"engine.seed={n}") for n, v in enumerate((1.0, None, 1.0))]
    (found,) = spreads(rows)
    assert found.name == "all seeds"
    assert found.metrics == {"recall": (0.5, 0.0)}
    lost = row("seed=2", 1.0, "engine.seed=2", state="failed", reason="gone")
    assert spreads([rows[0], lost]) == []
