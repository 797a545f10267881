"""`srrag review`: sheets by which experts rate answers, and what the filled ones say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError, check_numbers
from srrag.lab.measure.references import resource_path
from srrag.lab.review.summary import draw_review, read_key, readable, summarise
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
    systems = _systems(config["answers"])
    gold = None if config["gold"] is None else _existing(config["gold"], "gold")
    given = {name: config[name] for name in ("questions", "strata", "seed")}
    return draw_review(systems, gold, Path(config["out"]), shown=config["evidence"], **given)


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
    say(readable(summary))
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
