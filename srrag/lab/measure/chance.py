"""Baselines of multiple choice: a guess, and the most common right option."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def chance(rows: Sequence[Row], by: str | None = None) -> dict[str, dict[str, float]]:
    """Accuracy of a guess and of a constant answer, over all questions with options and by group.

    `chance` is the mean share of a question's options that are right; `majority` the share of the
    most common right option, by its text where all questions have the same options, else by its
    place. `by` is a stratum of the questions. Returns {} if no question has options.
    """
    asked = [row for row in rows if row["options"]]
    groups: dict[str, list[Row]] = {"all": asked} if asked else {}
    for row in asked if by else ():
        groups.setdefault(row["strata"].get(by, "") or "none", []).append(row)
    return {name: _of(group) for name, group in groups.items()}


def _of(rows: Sequence[Row]) -> dict[str, float]:
    right = [row["options"].count(row["gold_option"]) / len(row["options"]) for row in rows]
    same = len({tuple(row["options"]) for row in rows}) == 1
    gold = Counter(
        row["gold_option"] if same else row["options"].index(row["gold_option"]) for row in rows
    )
    return {
        "chance": round(sum(right) / len(rows), 4),
        "majority": round(max(gold.values()) / len(rows), 4),
        "questions": len(rows),
    }


def readable_chance(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """A line for each group, for a terminal."""
    if not found:
        return []
    width = max(map(len, found))
    return ["  what choice_accuracy is without an answer"] + [
        f"    {name:<{width}}  chance {each['chance']:.4f}, majority {each['majority']:.4f}"
        f"   n {each['questions']}"
        for name, each in found.items()
    ]
