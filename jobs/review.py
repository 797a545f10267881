"""`srrag review`: sheets by which experts rate answers, and what the filled ones say."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srrag.errors import UsageError, check_numbers, reading
from srrag.evaluate.cases import STRATA, read_answers, read_gold_answers
from srrag.evaluate.references import resource_path
from srrag.review.figures import Board, by_question, differences, figures
from srrag.review.filled import read_sheets, sheet_files
from srrag.review.forms import Form, form_of
from srrag.review.kit import Kit, make_kit
from srrag.review.page import write_page
from srrag.review.plots import plot_review
from srrag.review.workbook import write_workbook
from srrag.runner.progress import say
from srrag.storage.atomic_write import commit, commit_json, read_json

ALONE = "system"
"""Name of the system where only one is reviewed and none was given."""


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Make the sheets, or with `import=` read them back."""
    check_numbers(config, questions=1, resamples=1, seed=0)
    if config["import"] is not None:
        return report(config)
    if config["answers"] is None:
        raise UsageError("answers= is missing: what is to be reviewed; or import= filled sheets")
    return sample(config)


def sample(config: dict[str, Any]) -> dict[str, Any]:
    """Draw the questions, and write the sheets and, apart from them, the key."""
    out = Path(config["out"])
    form = _form(config["form"])
    systems = _systems(config["answers"])
    gold = _gold(config["gold"])
    try:
        kit = make_kit(
            {name: _rows(path) for name, path in systems.items()},
            gold,
            form=form.name,
            questions=config["questions"],
            strata=config["strata"],
            shown=config["evidence"],
            seed=config["seed"],
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    _keep_former(out / "key.json", kit)
    sheets = {"html": out / "sheets" / "sheet.html", "xlsx": out / "sheets" / "sheet.xlsx"}
    commit(sheets["html"], lambda path: write_page(kit, form, path))
    commit(sheets["xlsx"], lambda path: write_workbook(kit, form, path))
    commit_json(out / "key.json", kit.key())
    say(f"Give {sheets['html']} or {sheets['xlsx']} to the raters, and keep {out / 'key.json'}.")
    return {
        "sample": kit.sample,
        "form": form.name,
        "questions": len(kit.questions()),
        "items": len(kit.items),
        "systems": len(kit.systems),
        "without_reference": sum(not each.reference for each in kit.items),
        "sheets": {kind: str(path) for kind, path in sheets.items()},
        "key": str(out / "key.json"),
    }


def report(config: dict[str, Any]) -> dict[str, Any]:
    """Read filled sheets back: figures of each system, differences, a plot."""
    form, key_sample, items = _key(_existing(config["key"], "key"))
    given = config["import"] if isinstance(config["import"], list) else [config["import"]]
    paths = [Path(str(path)) for path in given]
    with reading(*paths):
        files = sheet_files(paths)
        ratings = read_sheets(files, form, key_sample, items)
    systems = sorted({each["system"] for each in items.values()})
    boards = {
        name: Board(ratings, form, {k: v for k, v in items.items() if v["system"] == name})
        for name in systems
    }
    resampling = {"resamples": config["resamples"], "seed": config["seed"]}
    summary: dict[str, Any] = {
        "sample": key_sample,
        "form": form.name,
        "sheets": len(files),
        "raters": list(boards[systems[0]].raters),
        "questions": len({each["query_id"] for each in items.values()}),
        "systems": {name: figures(board, **resampling) for name, board in boards.items()},
    }
    if len(systems) > 1:
        first = config["baseline"] or systems[0]
        if first not in boards:
            raise UsageError(f"baseline={first}: the systems are {', '.join(systems)}")
        summary["baseline"] = first
        summary["differences"] = {
            name: differences(board, boards[first], **resampling)
            for name, board in boards.items()
            if name != first
        }
    summary["by_question"] = {name: by_question(board) for name, board in boards.items()}
    summary["comments"] = [
        {"item": each.item, "rater": each.rater, "comment": each.comment}
        for each in ratings
        if each.comment
    ]
    plot = Path(config["out"]) / "review.png"
    commit(plot, lambda path: plot_review(path, boards, form))
    say(readable(summary, form))
    return summary | {"plot": str(plot)}


def readable(summary: Mapping[str, Any], form: Form) -> str:
    """The figures, for a terminal."""
    titles = {each.key: each.title for each in form.dimensions} | {"total": form.total}
    lines = [f"{len(summary['raters'])} raters, {summary['questions']} questions"]
    for name, found in summary["systems"].items():
        lines += ["", f"{name:<31}  mean ± SD     95 %            between raters   α"]
        lines += [_line(titles[key], each) for key, each in found.items()]
    for name, found in summary.get("differences", {}).items():
        lines += ["", f"{name} - {summary['baseline']}"]
        lines += [_difference(titles[key], each) for key, each in found.items()]
    return "\n".join(lines) + "\n"


def _line(title: str, each: Mapping[str, Any]) -> str:
    if each["mean"] is None:
        return f"  {title:<29}  –   {each['reason']}"
    sd, between = (_two(each[name]) for name in ("sd", "sd_between_raters"))
    alpha = each["alpha"]
    said = alpha["reason"] if alpha["value"] is None else f"{alpha['value']:.2f}"
    line = f"  {title:<29}  {each['mean']:.2f} ± {sd}  [{each['low']:.2f}, {each['high']:.2f}]"
    line += f"   {between:<15}  {said}   n {each['n']}"
    return line + (f", missing {each['missing']}" if each["missing"] else "")


def _difference(title: str, each: Mapping[str, Any]) -> str:
    if each["value"] is None:
        return f"  {title:<29}  –   {each['reason']}"
    line = f"  {title:<29} {each['value']:+.2f} [{each['low']:+.2f}, {each['high']:+.2f}]"
    line += f"   n {each['questions']}, p {each['p']:.4f}"
    return line + (f", Holm {each['p_holm']:.4f}" if "p_holm" in each else "")


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _form(name: str) -> Form:
    try:
        return form_of(name)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _systems(given: Any) -> dict[str, Path]:
    if isinstance(given, list):
        raise UsageError("answers: name the systems, as in answers={one: A.parquet, two: …}")
    named = given if isinstance(given, dict) else {ALONE: given}
    if not named:
        raise UsageError("answers: there is no system")
    return {str(name): _existing(path, f"answers.{name}") for name, path in named.items()}


def _gold(given: str | None) -> list[dict[str, Any]]:
    if given is None:
        return []
    path = resource_path(str(given))
    if not path.exists():
        raise UsageError(f"gold={given} does not exist")
    with reading(path):
        return list(read_gold_answers(path))


def _existing(path: str, key: str) -> Path:
    found = resource_path(str(path))
    if not found.is_file():
        raise UsageError(f"{key}={path}: there is no such file")
    return found


def _rows(path: Path) -> list[dict[str, Any]]:
    with reading(path):
        rows: list[dict[str, Any]] = read_answers(path, STRATA).to_pylist()
    return rows


def _keep_former(path: Path, kit: Kit) -> None:
    """Sheets that were given out need their key: another sample goes elsewhere."""
    if path.exists() and _key(path)[1] != kit.sample:
        raise UsageError(f"{path} is the key of another sample; choose another out=")


def _key(path: Path) -> tuple[Form, str, dict[str, dict[str, str]]]:
    with reading(path):
        content = read_json(path)
    try:
        form, name, items = form_of(content["form"]), content["sample"], content["items"]
        assert all({"query_id", "system"} <= each.keys() for each in items.values())
    except (KeyError, TypeError, AttributeError, AssertionError, ValueError) as error:
        raise UsageError(f"{path}: not the key of a review") from error
    return form, str(name), items


if __name__ == "__main__":
    from srrag.config.run_job import launch

    sys.exit(launch("review", run, sys.argv[1:]))
