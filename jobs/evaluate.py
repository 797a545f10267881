"""`srrag evaluate`: score rankings, answers, judges, and what extracts, each on a benchmark."""

from __future__ import annotations

from typing import Any

from srrag.lab.experiment.evaluate import evaluate


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Score what `bench` names."""
    return evaluate(config)
