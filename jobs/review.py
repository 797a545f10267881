"""`srrag review`: sheets by which experts rate answers, and what the filled ones say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from srrag.errors import UsageError, check_numbers, reading
from srrag.evaluate.cases import STRATA, read_answers, read_gold_answers
from srrag.evaluate.references import resource_path
from srrag.review.forms import form_of
from srrag.review.kit import make_kit
from srrag.review.summary import read_key, readable, summarise, write_sheets
from srrag.runner.progress import say

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
    out, systems = Path(config["out"]), _systems(config["answers"])
    gold: list[dict[str, Any]] = []
    if config["gold"] is not None:
        with reading(path := _existing(config["gold"], "gold")):
            gold = list(read_gold_answers(path))
    with reading(*systems.values()):
        answers = {name: read_answers(path, STRATA) for name, path in systems.items()}
    try:
        form = form_of(config["form"])
        kit = make_kit(
            {name: table.to_pylist() for name, table in answers.items()},
            gold,
            form=form.name,
            questions=config["questions"],
            strata=config["strata"],
            shown=config["evidence"],
            seed=config["seed"],
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    sheets = write_sheets(kit, form, out)
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
    key = read_key(_existing(config["key"], "key"))
    given = config["import"] if isinstance(config["import"], list) else [config["import"]]
    summary = summarise(
        key,
        [Path(str(path)) for path in given],
        Path(config["out"]) / "review.png",
        baseline=config["baseline"] or "",
        resamples=config["resamples"],
        seed=config["seed"],
    )
    say(readable(summary, key.form))
    return summary


def _systems(given: Any) -> dict[str, Path]:
    if isinstance(given, list):
        raise UsageError("answers: name the systems, as in answers={one: A.parquet, two: …}")
    named = given if isinstance(given, dict) else {ALONE: given}
    if not named:
        raise UsageError("answers: there is no system")
    return {str(name): _existing(path, f"answers.{name}") for name, path in named.items()}


def _existing(path: str, key: str) -> Path:
    found = resource_path(str(path))
    if not found.is_file():
        raise UsageError(f"{key}={path}: there is no such file")
    return found


if __name__ == "__main__":
    from srrag.config.run_job import launch

    sys.exit(launch("review", run, sys.argv[1:]))
