"""The two figures of a fit: its curve (SR-RAG, Fig. 2) and its biases with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from srrag.algo.betr import GRADES
from srrag.lab.train.betr.fit import Certainty, Fit

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"
"""From Okabe and Ito's palette, which is safe for red-green colour blindness."""


def plot_curve(path: Path, points: Sequence[Mapping[str, float]]) -> None:
    """Draw training and validation loss by epoch, or by step of BETR's solver."""
    figure = Figure(figsize=(4.6, 3.4), layout="constrained")
    axes = figure.add_subplot()
    named = (("train_loss", "training", BLUE), ("validation_loss", "validation", ORANGE))
    for key, label, colour in named:
        found = [(point["epoch"], point[key]) for point in points if key in point]
        if found:
            axes.plot(*zip(*found, strict=True), label=label, color=colour, marker=".")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel("negative log loss")
    axes.legend(frameon=False)
    save(figure, path)


def plot_biases(path: Path, fit: Fit, certain: Certainty) -> None:
    """Draw the bias of each grade with its interval."""
    figure = Figure(figsize=(4.6, 3.4), layout="constrained")
    axes = figure.add_subplot()
    u = np.array(list(fit.u.values()))
    label = f"{100 * certain.level:g} % interval (posterior)"
    axes.vlines(range(len(GRADES)), *certain.u.T, color=GREY, linewidth=5, alpha=0.5, label=label)
    axes.plot(range(len(GRADES)), u, "o", color=BLUE, label="fitted")
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xticks(range(len(GRADES)), list(GRADES))
    axes.set_xlabel("evidence grade")
    axes.set_ylabel("bias $u_t$")
    axes.legend(frameon=False)
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a PNG whose bytes depend on the figure alone."""
    figure.savefig(path, format="png", metadata={"Software": None})
