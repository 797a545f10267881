"""Figures of groups of questions, such as the subsets of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from srrag.evaluate.scores import Figure, Scores, figure


def by_group(
    scores: Sequence[Scores], groups: Mapping[str, str], *, resamples: int, seed: int
) -> dict[str, dict[str, Figure]]:
    """Return the figures of each group by metric; `groups` maps a question to its group.

    Scores do not record items and failures by group, so a figure counts `questions` only.
    """
    found: dict[str, dict[str, Figure]] = {}
    for name in sorted(set(groups.values())):
        for each in scores:
            rows = [place for place, query in enumerate(each.questions) if groups[query] == name]
            if not rows or each.void:
                continue
            taken = np.array(rows)
            part = replace(
                each,
                questions=tuple(each.questions[row] for row in rows),
                parts=each.parts[taken],
                wholes=each.wholes[taken],
            )
            entry = figure(part, resamples=resamples, seed=seed)
            kept = {key: entry[key] for key in ("value", "low", "high", "questions")}
            found.setdefault(name or "none", {})[each.metric.name] = kept
    return found
