"""Write the sheet of a review, and summarise the filled ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from srrag.core.errors import UsageError, reading
from srrag.lab.measure.cases import STRATA, read_answers, read_gold_answers
from srrag.lab.review.figures import DIMENSIONS, KEYS, Board, by_question, differences, figures
from srrag.lab.review.kit import Kit, Shown, make_kit, read_sheets, sheet_files, write_page
from srrag.runner.progress import say
from srrag.storage.atomic_write import commit, commit_json, read_json

_INK = "#333333"


def plot_review(path: Path, boards: Mapping[str, Board]) -> None:
    """Draw, a row a system: (a) shares of ratings, (b) SD between raters, (c) the same by question.

    Panel (c) is grey where fewer than two rated.
    """
    rows = len(boards)
    figure = Figure(figsize=(15, 0.7 + (1.2 + 0.5 * len(KEYS)) * rows), layout="constrained")
    axes = figure.subplots(rows, 3, squeeze=False, width_ratios=(1.25, 0.8, 1.35))
    highest = max(0.1, *(np.nanmax([0.0, *b.spreads(k)]) for b in boards.values() for k in KEYS))
    for (name, board), (left, middle, right) in zip(boards.items(), axes, strict=True):
        _shares(left, board)
        _spread(middle, board, highest)
        _questions(right, board, highest, figure)
        if rows > 1:
            left.set_ylabel(name, fontweight="bold")
    for axis, title in zip(
        axes[0], ("a  Ratings", "b  Mean SD between raters", "c  SD between raters by question"),
        strict=True,
    ):  # fmt: skip
        axis.set_title(title, loc="left", fontweight="bold", fontsize=11)
    # Bytes that depend on the figure alone.
    figure.savefig(path, format="png", dpi=150, metadata={"Software": None})


def _titles(axes: Axes, *, shown: bool = True) -> None:
    labels = [each.title for each in DIMENSIONS] if shown else []
    axes.set_yticks(range(len(KEYS)), labels or [""] * len(KEYS))
    axes.set_ylim(len(KEYS) - 0.5, -0.5)
    axes.tick_params(length=0)


def _shares(axes: Axes, board: Board) -> None:
    """Stacked bars of the share of each value, from worst (orange) to best (blue)."""
    from matplotlib import colormaps

    for row, each in enumerate(DIMENSIONS):
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
    _titles(axes)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0 %", "50 %", "100 %"])
    axes.spines[["top", "right", "left"]].set_visible(False)


def _spread(axes: Axes, board: Board, highest: float) -> None:
    for row, key in enumerate(KEYS):
        spreads = board.spreads(key)
        found = spreads[~np.isnan(spreads)]
        value = float(found.mean()) if len(found) else None
        axes.barh(row, value or 0.0, color="#4477AA", height=0.6)
        said = "fewer than two raters" if value is None else f"{value:.2f}"
        axes.text((value or 0.0) + 0.02 * highest, row, said, va="center", fontsize=9)
    _titles(axes, shown=False)
    axes.set_xlim(0, highest * 1.1)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _questions(axes: Axes, board: Board, highest: float, figure: Figure) -> None:
    table = np.array([board.spreads(key) for key in KEYS])
    axes.set_facecolor("#dddddd")
    image = axes.imshow(table, aspect="auto", cmap="YlOrRd", vmin=0, vmax=highest)
    _titles(axes, shown=False)
    names = [item.split("-")[0] for item in board.items]
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    figure.colorbar(image, ax=axes, shrink=0.9, label="SD")


@dataclass(frozen=True)
class ReviewKey:
    """The key of a review: the name of its sample, and the system of each item."""

    sample: str
    items: Mapping[str, Mapping[str, str]]
    """`query_id` and `system` by the item's name."""


def read_key(path: Path) -> ReviewKey:
    """Read the key of a review; raises UsageError that names the file."""
    with reading(path):
        content = read_json(path)
    try:
        name, items = content["sample"], content["items"]
        assert all({"query_id", "system"} <= each.keys() for each in items.values())
    except (KeyError, TypeError, AttributeError, AssertionError) as error:
        raise UsageError(f"{path}: not the key of a review") from error
    return ReviewKey(str(name), items)


def write_sheet(kit: Kit, out: Path) -> Path:
    """Write the sheet and, apart from it, its key; returns the path of the sheet.

    A sheet that was given out needs its key: raises UsageError if `out` has another sample's.
    """
    if (out / "key.json").exists() and read_key(out / "key.json").sample != kit.sample:
        raise UsageError(f"{out / 'key.json'} is the key of another sample; choose another out=")
    sheet = out / "sheets" / "sheet.html"
    commit(sheet, lambda path: write_page(kit, path))
    commit_json(out / "key.json", kit.key())
    return sheet


def summarise(
    key: ReviewKey, paths: Sequence[Path], plot: Path, *, baseline: str = "", resamples: int,
    seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Read filled sheets back: figures of each system, differences, and a plot.

    Differences are to `baseline`, by default the first system. Raises UsageError for a sheet that
    cannot be read, and for a baseline that was not reviewed.
    """
    with reading(*paths):
        files = sheet_files(paths)
        items = {name: dict(each) for name, each in key.items.items()}
        ratings = read_sheets(files, key.sample, items)
    systems = sorted({each["system"] for each in key.items.values()})
    boards = {
        name: Board(ratings, {k: v for k, v in items.items() if v["system"] == name})
        for name in systems
    }
    resampling = {"resamples": resamples, "seed": seed}
    summary: dict[str, Any] = {
        "sample": key.sample,
        "sheets": len(files),
        "raters": list(boards[systems[0]].raters),
        "questions": len({each["query_id"] for each in key.items.values()}),
        "systems": {
            name: {"metrics": figures(board, **resampling)} for name, board in boards.items()
        },
    }
    if len(systems) > 1:
        first = baseline or systems[0]
        if first not in boards:
            raise UsageError(f"baseline={first}: the systems are {', '.join(systems)}")
        summary["baseline"] = first
        for name, board in boards.items():
            if name != first:
                told = differences(board, boards[first], **resampling)
                summary["systems"][name]["difference"] = told
    summary["by_question"] = {name: by_question(board) for name, board in boards.items()}
    summary["comments"] = [
        {"item": each.item, "rater": each.rater, "comment": each.comment}
        for each in ratings
        if each.comment
    ]
    commit(plot, lambda path: plot_review(path, boards))
    return summary | {"plot": str(plot)}


def readable(summary: Mapping[str, Any]) -> str:
    """The figures, for a terminal."""
    titles = {each.key: each.title for each in DIMENSIONS}
    lines = [f"{len(summary['raters'])} raters, {summary['questions']} questions"]
    for name, found in summary["systems"].items():
        lines += ["", f"{name:<31}  mean ± SD     95 %            between raters   α"]
        lines += [_line(titles[key], each) for key, each in found["metrics"].items()]
    for name, found in summary["systems"].items():
        if "difference" in found:
            lines += ["", f"{name} - {summary['baseline']}"]
            lines += [_difference(titles[key], each) for key, each in found["difference"].items()]
    return "\n".join(lines) + "\n"


def _line(title: str, each: Mapping[str, Any]) -> str:
    if each["value"] is None:
        return f"  {title:<29}  –   {each['reason']}"
    sd, between = (_two(each[name]) for name in ("sd", "sd_between_raters"))
    alpha = each["alpha"]
    said = alpha["reason"] if alpha["value"] is None else f"{alpha['value']:.2f}"
    line = f"  {title:<29}  {each['value']:.2f} ± {sd}  [{each['low']:.2f}, {each['high']:.2f}]"
    line += f"   {between:<15}  {said}   n {each['items']}"
    return line + (f", missing {each['missing']}" if each["missing"] else "")


def _difference(title: str, each: Mapping[str, Any]) -> str:
    if each["value"] is None:
        return f"  {title:<29}  –   {each['reason']}"
    line = f"  {title:<29} {each['value']:+.2f} [{each['low']:+.2f}, {each['high']:+.2f}]"
    line += f"   n {each['n']}, p {each['p']:.4f}"
    return line + (f", Holm {each['p_holm']:.4f}" if "p_holm" in each else "")


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def draw_review(
    systems: Mapping[str, Path],
    gold: Path | None,
    out: Path,
    *,
    questions: int,
    strata: str | None,
    shown: Shown,
    seed: int,
) -> dict[str, Any]:
    """Draw the questions, and write the sheets and, apart from them, the key.

    `systems` are files of answers by name, `gold` a file with references. Raises UsageError for a
    setting that does not fit the answers.
    """
    references: list[dict[str, Any]] = []
    if gold is not None:
        with reading(gold):
            references = list(read_gold_answers(gold))
    with reading(*systems.values()):
        answers = {name: read_answers(path, STRATA) for name, path in systems.items()}
    try:
        kit = make_kit(
            {name: table.to_pylist() for name, table in answers.items()},
            references,
            questions=questions,
            strata=strata,
            shown=shown,
            seed=seed,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    sheet = write_sheet(kit, out)
    say(f"Give {sheet} to the raters, and keep {out / 'key.json'}.")
    return {
        "sample": kit.sample,
        "questions": len(kit.questions()),
        "items": len(kit.items),
        "num_systems": len(kit.systems),
        "without_reference": sum(not each.reference for each in kit.items),
        "sheet": str(sheet),
        "key": str(out / "key.json"),
    }
