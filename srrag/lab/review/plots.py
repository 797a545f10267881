"""The figure of a review (SR-RAG, Fig. 4): ratings, and where the raters disagree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from srrag.lab.review.figures import Board
from srrag.lab.review.forms import Form

_INK = "#333333"


def plot_review(path: Path, boards: Mapping[str, Board], form: Form) -> None:
    """Draw, a row a system: (a) shares of ratings, (b) SD between raters, (c) the same by question.

    Panel (c) is grey where fewer than two rated.
    """
    rows = len(boards)
    figure = Figure(figsize=(15, 0.7 + (1.2 + 0.5 * len(form.keys)) * rows), layout="constrained")
    axes = figure.subplots(rows, 3, squeeze=False, width_ratios=(1.25, 0.8, 1.35))
    highest = max(
        0.1, *(np.nanmax([0.0, *b.spreads(k)]) for b in boards.values() for k in form.keys)
    )
    for (name, board), (left, middle, right) in zip(boards.items(), axes, strict=True):
        _shares(left, board, form)
        _spread(middle, board, form, highest)
        _questions(right, board, form, highest, figure)
        if rows > 1:
            left.set_ylabel(name, fontweight="bold")
    for axis, title in zip(
        axes[0], ("a  Ratings", "b  Mean SD between raters", "c  SD between raters by question"),
        strict=True,
    ):  # fmt: skip
        axis.set_title(title, loc="left", fontweight="bold", fontsize=11)
    # Bytes that depend on the figure alone.
    figure.savefig(path, format="png", dpi=150, metadata={"Software": None})


def _titles(axes: Axes, form: Form, *, shown: bool = True) -> None:
    labels = [each.title for each in form.dimensions] if shown else []
    axes.set_yticks(range(len(form.keys)), labels or [""] * len(form.keys))
    axes.set_ylim(len(form.keys) - 0.5, -0.5)
    axes.tick_params(length=0)


def _shares(axes: Axes, board: Board, form: Form) -> None:
    """Stacked bars of the share of each value, from worst (orange) to best (blue)."""
    from matplotlib import colormaps

    for row, each in enumerate(form.dimensions):
        given = board.values[each.key]
        given = given[~np.isnan(given)]
        levels = sorted(each.levels)
        start = 0.0
        for place, value in enumerate(levels):
            share = float((given == value).mean()) if len(given) else 0.0
            colour = colormaps["RdYlBu"](0.12 + 0.76 * place / (len(levels) - 1))
            axes.barh(row, share, left=start, color=colour, edgecolor="white", height=0.72)
            if share >= 0.06:
                dark = abs(place / (len(levels) - 1) - 0.5) > 0.4
                axes.text(
                    start + share / 2, row, f"{value}\n{share:.0%}", ha="center", va="center",
                    fontsize=8, color="white" if dark else _INK,
                )  # fmt: skip
            start += share
    _titles(axes, form)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0 %", "50 %", "100 %"])
    axes.spines[["top", "right", "left"]].set_visible(False)


def _spread(axes: Axes, board: Board, form: Form, highest: float) -> None:
    for row, key in enumerate(form.keys):
        spreads = board.spreads(key)
        found = spreads[~np.isnan(spreads)]
        value = float(found.mean()) if len(found) else None
        axes.barh(row, value or 0.0, color="#4477AA", height=0.6)
        said = "fewer than two raters" if value is None else f"{value:.2f}"
        axes.text((value or 0.0) + 0.02 * highest, row, said, va="center", fontsize=9)
    _titles(axes, form, shown=False)
    axes.set_xlim(0, highest * 1.1)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _questions(axes: Axes, board: Board, form: Form, highest: float, figure: Figure) -> None:
    table = np.array([board.spreads(key) for key in form.keys])
    axes.set_facecolor("#dddddd")
    image = axes.imshow(table, aspect="auto", cmap="YlOrRd", vmin=0, vmax=highest)
    _titles(axes, form, shown=False)
    names = [item.split("-")[0] for item in board.items]
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    figure.colorbar(image, ax=axes, shrink=0.9, label="SD")
