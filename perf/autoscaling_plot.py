"""Draws a load, the replicas that it brought, and what its answers took, over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#000000")
GREY = "#777777"
_WINDOW = 5
"""Seconds whose answers one point of the plot shows."""


def draw(rows: Sequence[Mapping[str, Any]], deployments: Sequence[str], path: Path) -> None:
    """Write a PNG of three panels whose bytes depend on the rows alone."""
    figure = Figure(figsize=(7.2, 5.6), dpi=120, layout="constrained")
    load, replicas, times = figure.subplots(3, sharex=True)
    seconds = [row["second"] for row in rows]
    load.step(seconds, [row["clients"] for row in rows], color=GREY, where="post", label="clients")
    answered = [_mean(rows, n, "answered") for n in range(len(rows))]
    load.plot(seconds, answered, color=COLOURS[0], label="answers a second")
    load.set_ylabel("load")
    for colour, name in zip(COLOURS, deployments, strict=False):
        running = [row[f"{name}_running"] for row in rows]
        every = [row[f"{name}_starting"] + row[f"{name}_running"] for row in rows]
        label = "ingress" if name == "srrag" else name
        replicas.step(seconds, running, color=colour, where="post", label=label)
        replicas.step(seconds, every, color=colour, where="post", linestyle=":", linewidth=0.9)
    replicas.set_ylabel("replicas (dotted: starting)")
    for colour, key in ((GREY, "p50_s"), (COLOURS[1], "p95_s")):
        points = [(row["second"], row[key]) for row in rows if row[key] != ""]
        times.plot(*zip(*points, strict=True), ".", markersize=3, color=colour, label=key[:3])
    times.set_ylabel("seconds an answer")
    times.set_xlabel("seconds")
    for axes in (load, replicas, times):
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=8, loc="upper right")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.savefig(path, format="png", metadata={"Software": None})


def _mean(rows: Sequence[Mapping[str, Any]], number: int, key: str) -> float:
    """The mean of a column over the last seconds."""
    last = rows[max(0, number - _WINDOW + 1) : number + 1]
    return float(sum(row[key] for row in last)) / len(last)
