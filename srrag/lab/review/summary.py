"""Write the sheet of a review, and summarise the filled ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError, reading
from srrag.lab.review.figures import Board, by_question, differences, figures
from srrag.lab.review.filled import read_sheets, sheet_files
from srrag.lab.review.forms import Form, form_of
from srrag.lab.review.kit import Kit
from srrag.lab.review.page import write_page
from srrag.lab.review.plots import plot_review
from srrag.storage.atomic_write import commit, commit_json, read_json


@dataclass(frozen=True)
class ReviewKey:
    """The key of a review: its form, the name of its sample, and the system of each item."""

    form: Form
    sample: str
    items: Mapping[str, Mapping[str, str]]
    """`query_id` and `system` by the item's name."""


def read_key(path: Path) -> ReviewKey:
    """Read the key of a review; raises UsageError that names the file."""
    with reading(path):
        content = read_json(path)
    try:
        form, name, items = form_of(content["form"]), content["sample"], content["items"]
        assert all({"query_id", "system"} <= each.keys() for each in items.values())
    except (KeyError, TypeError, AttributeError, AssertionError, ValueError) as error:
        raise UsageError(f"{path}: not the key of a review") from error
    return ReviewKey(form, str(name), items)


def write_sheet(kit: Kit, form: Form, out: Path) -> Path:
    """Write the sheet and, apart from it, its key; returns the path of the sheet.

    A sheet that was given out needs its key: raises UsageError if `out` has another sample's.
    """
    if (out / "key.json").exists() and read_key(out / "key.json").sample != kit.sample:
        raise UsageError(f"{out / 'key.json'} is the key of another sample; choose another out=")
    sheet = out / "sheets" / "sheet.html"
    commit(sheet, lambda path: write_page(kit, form, path))
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
        ratings = read_sheets(files, key.form, key.sample, items)
    systems = sorted({each["system"] for each in key.items.values()})
    boards = {
        name: Board(ratings, key.form, {k: v for k, v in items.items() if v["system"] == name})
        for name in systems
    }
    resampling = {"resamples": resamples, "seed": seed}
    summary: dict[str, Any] = {
        "sample": key.sample,
        "form": key.form.name,
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
    commit(plot, lambda path: plot_review(path, boards, key.form))
    return summary | {"plot": str(plot)}


def readable(summary: Mapping[str, Any], form: Form) -> str:
    """The figures, for a terminal."""
    titles = {each.key: each.title for each in form.dimensions} | {"total": form.total}
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
