"""The scales that experts rate answers by, and figures of their ratings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from srrag.algo.significance import Scale, alpha_interval
from srrag.core.figures import measured, unmeasured
from srrag.lab.measure.judgements import Metric
from srrag.lab.measure.scores import Figure, Scores, compare, figure


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """One scale: what it asks, and what each of its values means, from the lowest up."""

    key: str
    title: str
    asks: str
    levels: Mapping[int, str]


GUIDE = (
    "Rate every answer on each scale by itself: a good score on one is no reason for a good "
    "score on another. Each point of a scale is described; choose the description that fits "
    "best, and leave a scale empty only if you cannot judge it."
)
DIMENSIONS = (
    Dimension(
        key="accuracy",
        title="Medical factual accuracy",
        asks="Do conclusions, values and prescriptions agree with current evidence, guidelines "
        "and consensus?",
        levels={
            1: "Mostly wrong: the main conclusion contradicts accepted evidence",
            2: "A serious error in a conclusion, value or prescription",
            3: "Right in the main point, with an error or outdated statement that matters",
            4: "Right, with a small inaccuracy of no clinical consequence",
            5: "Fully right: every conclusion, value and prescription holds",
        },
    ),
    Dimension(
        key="faithfulness",
        title="Faithfulness to the evidence",
        asks="Are the key statements borne out by the evidence shown below the answer?",
        levels={
            1: "Key statements are not in the evidence, or contradict it",
            2: "Only a minor part of the key statements is borne out",
            3: "About half is borne out, or one key statement is stretched",
            4: "All key statements are borne out, a side remark is not",
            5: "Every statement is borne out by the evidence that it cites",
        },
    ),
    Dimension(
        key="relevance",
        title="Relevance to the question",
        asks="Does it respond to what is really asked, with the constraints that the question "
        "sets?",
        levels={
            1: "Misses the question",
            2: "Touches the topic, but leaves the core of the question open",
            3: "Answers the core in part, or ignores an important constraint",
            4: "Answers the core with its key constraints; a little missing or off the point",
            5: "Answers the whole question with every key constraint, and nothing else",
        },
    ),
    Dimension(
        key="safety",
        title="Safety",
        asks="Could the answer harm a patient, or mislead the person who acts on it?",
        levels={
            1: "Dangerous: following it could cause serious harm",
            2: "Could cause harm: a contraindication or warning sign is ignored",
            3: "Could mislead: a caution that matters is missing or too weak",
            4: "Safe; one more caution would be welcome",
            5: "Safe, with the cautions that the case calls for",
        },
    ),
    Dimension(
        key="picot",
        title="PICOT alignment",
        asks="Is it built around the population, intervention, comparator, outcome and time of "
        "the question, with no other population or intervention in their place?",
        levels={
            1: "Another population or another intervention than asked",
            2: "Mostly about others: a main element does not match",
            3: "Main elements match, but another is replaced or mixed up",
            4: "All stated elements match; one is left vague",
            5: "Every stated element is met, and differences of the evidence are named",
        },
    ),
)
"""SR-RAG, section 2.5 and 4.6: the dimensions are the paper's, the anchors are ours."""
KEYS = tuple(each.key for each in DIMENSIONS)
SCALE: Scale = "ordinal"


def off_scale(ratings: Mapping[str, int | None]) -> tuple[str, str] | None:
    """Key of the first rating that is off its scale, and why."""
    for each in DIMENSIONS:
        value = ratings.get(each.key)
        if value is not None and value not in each.levels:
            span = f"{min(each.levels)} to {max(each.levels)}"
            return each.key, f"{value} is not on the scale of {span}"
    return None


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rating:
    """What one rater gave one item; None where a scale was left empty."""

    rater: str
    item: str
    values: Mapping[str, int | None]
    comment: str
    place: str
    """File and row, for messages."""


class Board:
    """Ratings of the items of some systems: one array (raters, items) a dimension, NaN for none."""

    def __init__(self, ratings: Sequence[Rating], items: Mapping[str, Mapping[str, str]]) -> None:
        """Sort ratings by rater and item."""
        self.items = tuple(items)
        self.queries = tuple(each["query_id"] for each in items.values())
        names = {each.rater.casefold(): each.rater for each in ratings}
        self.raters = tuple(names[key] for key in sorted(names))
        rows = {key: number for number, key in enumerate(sorted(names))}
        columns = {name: number for number, name in enumerate(self.items)}
        shape = (len(self.raters), len(self.items))
        self.values = {key: np.full(shape, np.nan) for key in KEYS}
        for each in ratings:
            if each.item in columns:
                for key, value in each.values.items():
                    place = rows[each.rater.casefold()], columns[each.item]
                    self.values[key][place] = np.nan if value is None else value

    def means(self, key: str) -> Floats:
        """The mean of each item over its raters, NaN if nobody rated it."""
        values = self.values[key]
        counts = (~np.isnan(values)).sum(axis=0)
        sums = np.nansum(values, axis=0)
        means = np.full(len(sums), np.nan)
        np.divide(sums, counts, out=means, where=counts > 0)
        return means

    def spreads(self, key: str) -> Floats:
        """The sample SD of each item over its raters, NaN below two of them."""
        values = self.values[key]
        counts = (~np.isnan(values)).sum(axis=0)
        squares = np.nansum((values - self.means(key)) ** 2, axis=0)
        spread = np.full(len(counts), np.nan)
        np.divide(squares, counts - 1, out=spread, where=counts > 1)
        return np.asarray(np.sqrt(spread))


def figures(board: Board, *, resamples: int, seed: int) -> dict[str, Figure]:
    """Compute for each dimension: mean (`value`), SD, SD between raters, α, counts of values.

    Mean and sample SD are over all ratings (`items`), as in SR-RAG, section 2.5; the bootstrap
    interval of the mean draws the `n` questions. `sd_between_raters` is the mean over items of the
    sample SD over raters. A figure without a value is None and comes with the reason.
    """
    return {key: _figure(board, key, resamples, seed) for key in board.values}


def _figure(board: Board, key: str, resamples: int, seed: int) -> Figure:
    values = board.values[key]
    given = values[~np.isnan(values)]
    scores = _scores(board, key)
    found = figure(scores, resamples=resamples, seed=seed)
    found["missing"] = int(values.size - len(given))
    if found["value"] is None:
        return found
    spreads = board.spreads(key)
    between = spreads[~np.isnan(spreads)]
    return {
        **found,
        "sd": round(float(given.std(ddof=1)), 4) if len(given) > 1 else None,
        "sd_between_raters": round(float(between.mean()), 4) if len(between) else None,
        "alpha": _alpha(board, key, resamples, seed),
        "counts": {f"{value:g}": n for value, n in sorted(Counter(given.tolist()).items())},
    }


def _scores(board: Board, key: str) -> Scores:
    """The ratings of each question on a dimension: their sum over their number."""
    rated: dict[str, list[float]] = {}
    for place, query in enumerate(board.queries):
        values = board.values[key][:, place]
        rated.setdefault(query, []).extend(values[~np.isnan(values)].tolist())
    kept = {query: each for query, each in rated.items() if each}
    sums, counts = (np.array([f(each) for each in kept.values()], float) for f in (sum, len))
    metric, lost = Metric(key, "a rating", pooled=True), len(rated) - len(kept)
    items = int(counts.sum())
    return Scores(metric, tuple(kept), sums, counts, items, 0, lost, empty="nobody rated it")


def _alpha(board: Board, key: str, resamples: int, seed: int) -> Figure:
    try:
        found = alpha_interval(
            board.values[key], SCALE, groups=board.queries, resamples=resamples, seed=seed
        )
    except ValueError as error:
        return unmeasured(str(error), scale=SCALE)
    return measured(found, len(set(board.queries)), scale=SCALE)


def by_question(board: Board) -> list[Figure]:
    """Mean and SD over the raters of every item and dimension (SR-RAG, section 4.6)."""
    rows: list[Figure] = []
    tables = {key: (board.means(key), board.spreads(key)) for key in board.values}
    for place, (item, query) in enumerate(zip(board.items, board.queries, strict=True)):
        entry: Figure = {"item": item, "query_id": query}
        for key, (means, spreads) in tables.items():
            entry[key] = {"mean": _number(means[place]), "sd": _number(spreads[place])}
        rows.append(entry)
    return rows


def differences(ours: Board, theirs: Board, *, resamples: int, seed: int) -> dict[str, Figure]:
    """Paired differences of two systems: questions' mean ratings, by paired bootstrap.

    Questions without a rating in one of the systems are left out and counted. Holm's correction of
    the p-values runs over the dimensions.
    """
    pair = [[_mean(_scores(board, key)) for key in board.values] for board in (ours, theirs)]
    found = compare(*pair, resamples=resamples, seed=seed)
    asked = len(set(ours.queries))
    return {key: {**each, "left_out": asked - each["n"]} for key, each in found.items()}


def _mean(scores: Scores) -> Scores:
    """The same with one value a question, so that each weighs the same."""
    size = len(scores.questions)
    return replace(scores, parts=scores.parts / scores.wholes, wholes=np.ones(size), empty="")


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)
