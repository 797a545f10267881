"""`srrag evaluate`: score rankings, answers, judges, and what extracts, each on a benchmark."""

from __future__ import annotations

from typing import Any

from srrag.experiment.evaluate import evaluate
from srrag.experiment.systems import systems_of
from srrag.experiment.terms import Terms


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Score what `bench` names."""
    return evaluate(Terms.of(config), systems_of(config), estimated=config["estimate"])
