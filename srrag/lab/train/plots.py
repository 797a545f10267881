"""Figures of trainings: curves, BETR's biases, a filter's calibration and when it abstains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from srrag.algo.betr import GRADES
from srrag.algo.classification import BINS
from srrag.lab.train.betr.fit import Certainty, Fit
from srrag.lab.train.filter.decide import TradeOff

Floats = npt.NDArray[np.float64]
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"
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
    _save(figure, path)


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
    _save(figure, path)


def plot_trade_off(path: Path, curves: Mapping[str, TradeOff], threshold: float) -> None:
    """Draw the share of questions answered against what is right of the answers, a panel a set."""
    figure = Figure(figsize=(4.2 * len(curves), 3.4), layout="constrained")
    for axes, (name, curve) in zip(
        figure.subplots(1, len(curves), squeeze=False, sharey=True)[0], curves.items(), strict=True
    ):
        named = (
            ("best_is_evidence", "best passage is evidence", BLUE),
            ("precision", "precision of passages kept", GREEN),
            ("F1", "F1, unanswered keep none", ORANGE),
        )
        for key, label, colour in named:
            axes.plot(curve.answered, getattr(curve, key), label=label, color=colour)
        share = float(curve.answered[curve.thresholds >= threshold].max(initial=0.0))
        axes.axvline(share, color=GREY, linewidth=0.8, linestyle="--")
        axes.set_title(name)
        axes.set_xlabel("share of questions answered")
        axes.set_ylim(0, 1.02)
        axes.legend(frameon=False, fontsize="small", loc="lower right")
    _save(figure, path)


def plot_reliability(path: Path, labels: Floats, probabilities: Floats) -> None:
    """Draw the share of evidence by predicted probability, in the bins of the ECE."""
    figure = Figure(figsize=(4.2, 3.4), layout="constrained")
    axes = figure.add_subplot()
    place = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    filled = counts > 0
    mean = np.bincount(place, probabilities, BINS)[filled] / counts[filled]
    share = np.bincount(place, labels, BINS)[filled] / counts[filled]
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    axes.scatter(mean, share, s=10 + 150 * counts[filled] / counts.max(), color=BLUE)
    axes.set_xlabel("mean p(yes) of a bin")
    axes.set_ylabel("share of evidence")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    """Write a PNG whose bytes depend on the figure alone."""
    figure.savefig(path, format="png", metadata={"Software": None})
