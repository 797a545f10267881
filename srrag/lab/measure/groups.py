"""Figures of groups of questions, such as the subsets of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srrag.lab.measure.scores import Figure, Scores, figure, only


def by_group(
    scores: Sequence[Scores], groups: Mapping[str, str], *, resamples: int, seed: int
) -> dict[str, dict[str, Figure]]:
    """Return the figures of each group by metric.

    `groups` maps a question to its group; questions without one are left out. Scores do not record
    items and failures by group, so a figure has `n` only.
    """
    found: dict[str, dict[str, Figure]] = {}
    for name in sorted(set(groups.values())):
        for each in scores:
            part = only(each, {query for query in each.questions if groups.get(query) == name})
            if not part.questions or each.void:
                continue
            entry = figure(part, resamples=resamples, seed=seed)
            kept = {key: entry[key] for key in ("value", "low", "high", "n")}
            found.setdefault(name or "none", {})[each.metric.name] = kept
    return found
