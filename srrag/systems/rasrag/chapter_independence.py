"""Are the chapters of a book independent? RASRAG's figures and plots (appendix A.1, Table 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from srrag.algo.intervals import bootstrap_interval, ratio_interval
from srrag.core.errors import UsageError
from srrag.core.figures import measured, unmeasured
from srrag.runner.progress import say
from srrag.storage.store import Store
from srrag.systems.rasrag.tree_reader import TreeForest

TEMPERATURES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""τ of the softmax, as swept in the paper."""


@dataclass(frozen=True)
class Relatedness:
    """At one τ, for each BTU: H_norm and p_max over other chapters, and the mass of its own."""

    entropy: Floats
    top_mass: Floats
    own_mass: Floats


def pair_cosines(vectors: Floats, chapters: Ints) -> tuple[Floats, Floats]:
    """Return the cosines of all pairs of BTUs within a chapter, and of all across chapters.

    `vectors` (BTUs, dim) have length 1; each pair counts once, and no BTU is paired with itself.
    """
    first, second = np.triu_indices(len(vectors), k=1)
    cosines = (vectors @ vectors.T)[first, second]
    same = chapters[first] == chapters[second]
    return cosines[same], cosines[~same]


def relatedness(vectors: Floats, chapters: Ints, temperature: float) -> Relatedness:
    """Return the three measures of each BTU at a temperature.

    H_norm and p_max come from softmax_τ over x · μ of the other chapters' centroids μ (not
    normalised), the entropy divided by log(chapters - 1); own mass from softmax_τ over the cosines
    with all BTUs, itself included. Chapters are numbered from 0. Raises ValueError for fewer than
    three chapters, where the entropy has no scale, and for a temperature of 0 or less.
    """
    count = int(chapters.max(initial=-1)) + 1
    if count < 3:
        raise ValueError(f"{count} chapters: at least 3 are needed, so that two are others")
    if not temperature > 0:
        raise ValueError(f"the temperature is {temperature}: it has to be positive")
    sums = np.zeros((count, vectors.shape[1]))
    np.add.at(sums, chapters, vectors)
    centroids = sums / np.bincount(chapters, minlength=count)[:, None]
    affinity = vectors @ centroids.T
    affinity[np.arange(len(vectors)), chapters] = -np.inf
    others = softmax(affinity, temperature)
    logs = np.log(np.where(others > 0, others, 1.0))
    entropy = -(others * logs).sum(axis=1) / np.log(count - 1)
    mass = softmax(vectors @ vectors.T, temperature)
    own = (mass * (chapters[:, None] == chapters[None, :])).sum(axis=1)
    return Relatedness(entropy, others.max(axis=1), own)


def softmax(scores: Floats, temperature: float) -> Floats:
    """Softmax of each row of scores / τ; -inf has no mass."""
    shifted = (scores - scores.max(axis=1, keepdims=True)) / temperature
    weights = np.exp(shifted)
    found: Floats = weights / weights.sum(axis=1, keepdims=True)
    return found


def medians(values: Floats, chapters: Ints) -> Floats:
    """The median over each chapter's BTUs: (chapters,)."""
    return np.array([np.median(values[chapters == c]) for c in range(int(chapters.max()) + 1)])


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"
_SHOWN_NAME = 28


@dataclass(frozen=True, kw_only=True)
class MeasureChapters:
    """The exam `srrag evaluate bench=textbook_tree`: how independent a book's chapters are."""

    def measure(self, path: Path, build: str, out: Path | None) -> dict[str, Any]:
        """Measure the tree of a build in the root `path`; plots go to `out`.

        Raises UsageError for a build without a tree, or with one chapter.
        """
        artifacts = Store(path).artifacts(build)
        if "forest" not in artifacts:
            raise UsageError(f"root={path} holds no tree; srrag build plan=textbook makes one")
        forest = TreeForest(artifacts["forest"])
        vectors = np.asarray(forest.btu_vectors, np.float64)
        try:
            found = independence(vectors, forest.btu_root)
        except ValueError as error:
            raise UsageError(f"root={path}: {error}") from error
        if out is not None:
            found["plots"] = plot_independence(out, vectors, forest.btu_root, forest.titles())
        say(readable(found))
        return found


def independence(vectors: Floats, chapters: Ints) -> dict[str, Any]:
    """Return the mean cosine of BTUs within and across chapters, and medians for each τ.

    `metrics` are the two cosines and, as `entropy@τ` and `own_mass@τ`, the mean over chapters of
    the chapters' medians of H_norm and own mass, with intervals over chapters. A row of
    `temperatures` holds the medians over chapters of these, and of p_max. `random_own_mass` is
    n_c/N, `uniform_top_mass` 1/(chapters - 1). For a large τ, H_norm goes to 1 and own mass to
    n_c/N whatever the data are, so only small τ tell anything.
    """
    sizes = np.bincount(chapters)
    metrics = _cosines(vectors, chapters)
    rows = []
    for temperature in TEMPERATURES:
        found = relatedness(vectors, chapters, temperature)
        entropy, own = medians(found.entropy, chapters), medians(found.own_mass, chapters)
        rows.append(
            {
                "temperature": temperature,
                "entropy_median": _round(np.median(entropy)),
                "own_mass_median": _round(np.median(own)),
                "top_mass_median": _round(np.median(medians(found.top_mass, chapters))),
            }
        )
        for name, values in (("entropy", entropy), ("own_mass", own)):
            metrics[f"{name}@{temperature}"] = measured(bootstrap_interval(values), len(sizes))
    return {
        "metrics": metrics,
        "chapters": len(sizes),
        "btus": len(vectors),
        "random_own_mass": _round(np.median(sizes / sizes.sum())),
        "uniform_top_mass": _round(1 / (len(sizes) - 1)),
        "temperatures": rows,
    }


def _cosines(vectors: Floats, chapters: Ints) -> dict[str, Any]:
    """The mean cosine of two BTUs within a chapter, and across: intervals draw chapters.

    A pair across belongs to both of its chapters.
    """
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, 0.0)
    member = chapters[:, None] == np.arange(int(chapters.max()) + 1)[None, :]
    sizes = member.sum(axis=0)
    every = member.T.astype(np.float64) @ cosines  # (chapters, BTUs)
    inside = (every * member.T).sum(axis=1)
    pairs = (sizes * (sizes - 1)).astype(np.float64)
    several = pairs > 0
    within = (
        measured(ratio_interval(inside[several], pairs[several]), int(several.sum()))
        if several.any()
        else unmeasured("no chapter has two BTUs")
    )
    others = (sizes * (len(vectors) - sizes)).astype(np.float64)
    across = ratio_interval(every.sum(axis=1) - inside, others)
    return {"within_cosine": within, "across_cosine": measured(across, len(sizes))}


def plot_independence(
    folder: Path, vectors: Floats, chapters: Ints, names: Sequence[str]
) -> list[str]:
    """Draw the paper's four plots as PNG files; returns their names.

    similarity: the cosines within and across chapters; chapters: BTUs and cohesion of each chapter;
    entropy and own_mass: each chapter by τ, with the median over all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    within, across = pair_cosines(vectors, chapters)
    by_temperature = [relatedness(vectors, chapters, each) for each in TEMPERATURES]
    drawn = {
        "similarity": _similarity(within, across),
        "chapters": _chapters(vectors, chapters, names),
        "entropy": _sweep([medians(each.entropy, chapters) for each in by_temperature],
                          "$H_{norm}$ over the other chapters"),
        "own_mass": _sweep([medians(each.own_mass, chapters) for each in by_temperature],
                           "mass of the own chapter"),
    }  # fmt: skip
    for name, figure in drawn.items():
        figure.savefig(folder / f"{name}.png", format="png", metadata={"Software": None})
    return [f"{name}.png" for name in drawn]


def _similarity(within: Floats, across: Floats) -> Figure:
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    bins = np.linspace(-0.2, 1, 49)
    for values, label, colour in ((within, "within", BLUE), (across, "across", ORANGE)):
        left.hist(values, bins=bins, density=True, alpha=0.6, label=label, color=colour)
    left.set_xlabel("cosine of two BTUs")
    left.set_ylabel("density")
    left.legend(frameon=False)
    right.boxplot([within, across], tick_labels=["within", "across"], showfliers=False)
    right.set_ylabel("cosine of two BTUs")
    return figure


def _chapters(vectors: Floats, chapters: Ints, names: Sequence[str]) -> Figure:
    sizes = np.bincount(chapters)
    figure = Figure(figsize=(7.2, 1.2 + 0.16 * len(sizes)), layout="constrained")
    axes = figure.add_subplot()
    axes.barh(range(len(sizes)), sizes, color=GREY)
    axes.set_yticks(range(len(sizes)), [name[:_SHOWN_NAME] for name in names], fontsize=6)
    axes.invert_yaxis()
    axes.set_xlabel("BTUs of the chapter")
    return figure


def _sweep(values: Sequence[Floats], label: str) -> Figure:
    figure = Figure(figsize=(4.6, 3.4), layout="constrained")
    axes = figure.add_subplot()
    table = np.array(values)
    axes.plot(TEMPERATURES, table, color=GREY, linewidth=0.5, alpha=0.5)
    axes.plot(TEMPERATURES, np.median(table, axis=1), color=BLUE, linewidth=2, label="median")
    axes.set_xscale("log")
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("τ")
    axes.set_ylabel(label)
    axes.legend(frameon=False)
    return figure


def readable(found: Mapping[str, Any]) -> str:
    """Format the figures for a terminal."""
    means = {name: each["value"] for name, each in found["metrics"].items()}
    lines = [
        f"{found['btus']} BTUs of {found['chapters']} chapters; "
        f"cosine within {means['within_cosine']}, across {means['across_cosine']}; "
        f"own mass by chance {found['random_own_mass']}, "
        f"top mass if uniform {found['uniform_top_mass']}",
        "     τ   H_norm (mean)    own mass (mean)   p_max",
    ]
    lines += [
        f"{row['temperature']:6.2f}"
        f"   {row['entropy_median']:.3f} ({means[_at('entropy', row)]:.3f})"
        f"   {row['own_mass_median']:.3f} ({means[_at('own_mass', row)]:.3f})"
        f"     {row['top_mass_median']:.3f}"
        for row in found["temperatures"]
    ]
    return "\n".join([*lines, ""])


def _at(name: str, row: Mapping[str, Any]) -> str:
    return f"{name}@{row['temperature']}"


def _round(value: Any) -> float:
    return round(float(value), 4)
