"""From ratings to figures: means, agreement of the raters, differences of systems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from srrag.algo.significance import alpha_interval
from srrag.core.figures import measured, unmeasured
from srrag.lab.measure.judgements import Metric
from srrag.lab.measure.scores import Figure, Scores, compare, figure
from srrag.lab.review.filled import Rating
from srrag.lab.review.scales import KEYS, SCALE

Floats = npt.NDArray[np.float64]


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
