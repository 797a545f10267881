"""`srrag evaluate bench=filter`: score a trained evidence filter on a file of judged pairs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from srrag.errors import UsageError, reading
from srrag.model.filter import load_filter
from srrag.runner.progress import say
from srrag.train.filter.judge import Scored, judge
from srrag.train.filter.pairs import read_judged


def evaluate_filter(config: dict[str, Any], path: Path) -> dict[str, Any]:
    """Judge every pair of the file at the threshold that the filter stores."""
    started = time.perf_counter()
    folder = Path(config["bench"]["model"])
    if not folder.is_dir():
        raise UsageError(f"bench.model={folder}: no such folder; `srrag train_filter` makes it")
    with reading(path):
        pairs = read_judged(path)
    if not 0 < pairs.labels.sum() < len(pairs):
        raise UsageError(f"{path}: all pairs have the same label; there is nothing to tell apart")
    loaded = load_filter(folder, config["profile"]["device"])
    threshold = loaded.facts.decision.threshold
    probabilities = loaded.probabilities(pairs.questions, pairs.passages)
    found = judge(Scored(pairs, probabilities, threshold), config["resamples"])
    for name, value in found["metrics"].items():
        low, high = found["intervals"][name]
        say(f"  {name:<10}{value:8.4f}   [{low:.4f}, {high:.4f}]")
    return {
        **found,
        **found["metrics"],
        "threshold": threshold,
        "model": str(folder),
        "revision": loaded.revision,
        "seconds": round(time.perf_counter() - started, 3),
    }
