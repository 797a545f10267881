"""From judgements to figures: intervals, failures counted, differences with p-values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.algo.significance import Values, holm, mcnemar_exact, paired_ratios, ratio_interval
from srrag.core.figures import measured, unmeasured
from srrag.lab.measure.judgements import Metric

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
    return {name: _chances(group) for name, group in groups.items()}


def _chances(rows: Sequence[Row]) -> dict[str, float]:
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


Figure = dict[str, Any]


@dataclass(frozen=True)
class Scores:
    """A metric's values by question: `parts` over `wholes`, and how many items failed.

    `questions` are the ones that count, in order; `left_out` ones lack the gold to judge by. Scores
    are `void` if every call of the judge failed: there are failures, but no result.
    """

    metric: Metric
    questions: tuple[str, ...]
    parts: Values
    wholes: Values
    items: int
    failed: int
    left_out: int
    void: bool = False
    empty: str = ""
    """Why no question counts, if the reason is not a lack of gold."""

    @classmethod
    def by_question(
        cls, metric: Metric, questions: Sequence[str], values: Values, asked: int, failed: int = 0
    ) -> Scores:
        """Scores of one value a question, of so many asked; others lack what the metric needs."""
        size = len(questions)
        names, ones = tuple(questions), np.ones(size)
        return cls(metric, names, values, ones, size, min(failed, size), asked - size)

    @property
    def void_reason(self) -> str:
        """Say in words why the scores are void."""
        return f"the judge failed on all {self.failed} items that it was asked about"


def only(scores: Scores, keep: Collection[str], empty: str = "") -> Scores:
    """Return the scores of some questions; items are those of these, failures at most as many."""
    rows = np.array([n for n, query in enumerate(scores.questions) if query in keep], np.int64)
    if len(rows) == len(scores.questions):
        return scores
    wholes = scores.wholes[rows]
    share = len(rows) / len(scores.questions)
    items = int(wholes.sum()) if scores.metric.pooled else round(scores.items * share)
    return replace(
        scores,
        questions=tuple(scores.questions[row] for row in rows),
        parts=scores.parts[rows],
        wholes=wholes,
        items=items,
        failed=min(scores.failed, items),
        empty=empty if not len(rows) else "",
    )


def score(metrics: Sequence[Metric], judged: pa.Table, questions: Sequence[str]) -> list[Scores]:
    """Aggregate the JUDGEMENTS of one judge into scores, one for each metric.

    An item without a judgement counts with the metric's worst value. A question on which the judge
    itself failed counts as one such item of each metric. Judgements of other questions are left
    out.
    """
    wanted = set(questions)
    values: dict[str, dict[str, list[float]]] = {metric.name: {} for metric in metrics}
    failed, verdicts = dict.fromkeys(values, 0), dict.fromkeys(values, 0)
    worst = {metric.name: metric.worst for metric in metrics}
    columns = (judged[n].to_pylist() for n in ("query_id", "metric", "value", "asked", "reject"))
    for query_id, name, value, asked, reject in zip(*columns, strict=True):
        if query_id not in wanted:
            continue
        for each in [name] if name else list(values):
            given = value if reject is None else worst[each]
            values[each].setdefault(query_id, []).append(given)
            failed[each] += reject is not None
            verdicts[each] += reject is None and asked
    return [
        _scores(metric, values[metric.name], questions, verdicts[metric.name], failed[metric.name])
        for metric in metrics
    ]


def _scores(
    metric: Metric,
    values: Mapping[str, list[float]],
    questions: Sequence[str],
    verdicts: int,
    failed: int,
) -> Scores:
    kept = tuple(query for query in questions if query in values)
    sums = np.array([sum(values[query]) for query in kept])
    counts = np.array([float(len(values[query])) for query in kept])
    parts, wholes = (sums, counts) if metric.pooled else (sums / counts, np.ones(len(kept)))
    left_out = len(questions) - len(kept)
    void = failed > 0 and not verdicts
    return Scores(metric, kept, parts, wholes, int(counts.sum()), failed, left_out, void)


def broke_down(scores: Sequence[Scores]) -> bool:
    """Whether a judge failed and all its metrics with failures are void."""
    touched = [each for each in scores if each.failed]
    return bool(touched) and all(each.void for each in touched)


def figure(scores: Scores, *, resamples: int, seed: int) -> Figure:
    """Return a metric's value with its 95 % interval, or None with the reason."""
    counts: Figure = {
        "n": len(scores.questions),
        "left_out": scores.left_out,
        "items": scores.items,
        "failed": scores.failed,
    }
    if not scores.questions:
        reason = scores.empty or f"no question has {scores.metric.needs}"
        return unmeasured(reason, **counts)
    if scores.void:
        return unmeasured(scores.void_reason, **counts)
    found = ratio_interval(scores.parts, scores.wholes, resamples=resamples, seed=seed)
    if scores.metric.better != "higher":
        counts["better"] = scores.metric.better
    return measured(found, **counts)


def compare(
    ours: Sequence[Scores], theirs: Sequence[Scores], *, resamples: int, seed: int
) -> dict[str, Figure]:
    """Compare two systems by metric over the questions that count for both.

    `p` comes from the paired bootstrap, `p_holm` is corrected for the number of metrics that
    are tested, and `p_mcnemar` comes from the exact test if every question is right or wrong.
    """
    found: dict[str, Figure] = {}
    others = {each.metric.name: each for each in theirs}
    for one in ours:
        other = others[one.metric.name]
        shared = sorted(set(one.questions) & set(other.questions))
        void = next((each.void_reason for each in (one, other) if each.void), "")
        if void or not shared:
            reason = void or one.empty or f"no question of both has {one.metric.needs}"
            found[one.metric.name] = unmeasured(reason)
            continue
        pair = _of(one, shared), _of(other, shared)
        *ends, p = paired_ratios(*pair, resamples=resamples, seed=seed)
        entry = measured((ends[0], ends[1], ends[2]), len(shared))
        found[one.metric.name] = entry
        if one.metric.better == "neither":
            continue
        entry["p"] = p
        right = [parts / wholes for parts, wholes in pair]
        if all(np.isin(each, (0.0, 1.0)).all() for each in right):
            entry["p_mcnemar"] = mcnemar_exact(right[0] == 1, right[1] == 1)
    correct(found)
    return found


def correct(differences: Mapping[str, Figure]) -> None:
    """Add the Holm-corrected p-value to each difference that has a p-value."""
    tested = [each for each in differences.values() if each.get("p") is not None]
    for each, p in zip(tested, holm([each["p"] for each in tested]), strict=True):
        each["p_holm"] = p


def _of(scores: Scores, questions: Sequence[str]) -> tuple[Values, Values]:
    places = {query: place for place, query in enumerate(scores.questions)}
    rows = [places[query] for query in questions]
    return scores.parts[rows], scores.wholes[rows]


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
