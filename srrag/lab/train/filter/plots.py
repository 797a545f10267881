"""Figures of a filter: training curves, calibration, and the trade-off of abstaining."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from srrag.algo.classification import BINS
from srrag.lab.train.betr.plots import BLUE, GREY, ORANGE, save
from srrag.lab.train.filter.decide import TradeOff

Floats = npt.NDArray[np.float64]
GREEN = "#009E73"


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
    save(figure, path)


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
    save(figure, path)
