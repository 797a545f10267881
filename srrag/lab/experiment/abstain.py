"""Learn when the evidence does not answer: examples, a logistic regression, and its threshold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from srrag.algo.classification import fit_logistic, sigmoid
from srrag.algo.significance import ratio_interval
from srrag.answer.gate.answerable import sources
from srrag.answer.gate.coverage import FEATURES, Floats, Frequencies, features, held
from srrag.core.figures import measured
from srrag.core.spec import content_id
from srrag.core.step import Place
from srrag.lab.datasets import json_lines
from srrag.lab.measure.near_topic import NearTopic
from srrag.retrieve.questions import question_table
from srrag.runner.pipeline_run import PipelineRun

FOLDS = 5


@dataclass(frozen=True)
class AbstainExamples:
    """Training rows: FEATURES, whether the evidence answers, the fold, and the kind of question.

    A question and the copies made from it share a fold, and have one origin.
    """

    features: Floats
    labels: Floats
    folds: npt.NDArray[np.int64]
    kinds: list[str]
    origins: list[str]


@dataclass(frozen=True)
class AbstainFit:
    """Weights of FEATURES and intercept, the threshold, and cross-fitted metrics."""

    weights: Floats
    bias: float
    threshold: float
    metrics: dict[str, dict[str, Any]]
    """`passed_<kind>`: the share of each kind of example that passes the threshold."""


def make_examples(
    questions: Sequence[NearTopic],
    evidence: Mapping[str, Sequence[Mapping[str, Any]]],
    own: Mapping[str, frozenset[str]],
    frequencies: Frequencies,
    k: int,
) -> AbstainExamples:
    """Make examples: answerable questions, the same without their documents, unanswerable ones.

    `evidence` holds more than `k` pieces a question, so that `k` remain after removing `own` (the
    corpus's ids of the documents that answer the question).
    """
    rows: list[Floats] = []
    labels: list[float] = []
    folds: list[int] = []
    kinds: list[str] = []
    origins: list[str] = []

    def add(each: NearTopic, found: Sequence[Mapping[str, Any]], label: float, kind: str) -> None:
        rows.append(features(held(each.text, sources(found[:k]), frequencies)))
        labels.append(label)
        folds.append(fold_of(each.origin))
        kinds.append(kind)
        origins.append(each.origin)

    for each in questions:
        found = evidence[each.query_id]
        add(each, found, float(each.answerable), each.swapped or "answerable")
        if each.answerable:
            left = [e for e in found if e["source_id"] not in own.get(each.query_id, frozenset())]
            add(each, left, 0.0, "removed")
    return AbstainExamples(np.array(rows), np.array(labels), np.array(folds), kinds, origins)


def evidence_of(
    bound: PipelineRun, questions: Sequence[NearTopic], at: Place
) -> dict[str, list[dict[str, Any]]]:
    """The evidence that a pipeline selects for each question, by its id."""
    asked = question_table({"query_id": q.query_id, "text": q.text} for q in questions)
    table = bound.run(asked, at).select(["query_id", "evidence"])
    return {row["query_id"]: row["evidence"] for row in table.to_pylist()}


def fold_of(query_id: str) -> int:
    """Return the fold of a question by the hash of its id."""
    return int(content_id("fold", query_id)[:15], 16) % FOLDS


def fit(examples: AbstainExamples, answer_share: float, ridge: float) -> AbstainFit:
    """Fit to all examples; the threshold lets `answer_share` of the answerable ones pass.

    The threshold comes from cross-fitted probabilities. Raises ValueError if all examples have the
    same label.
    """
    if not 0 < examples.labels.sum() < len(examples.labels):
        raise ValueError("all examples have the same label: there is nothing to tell apart")
    crossed = np.zeros(len(examples.labels))
    for fold in range(FOLDS):
        inside = examples.folds == fold
        if inside.any() and (~inside).any():
            weights, bias = _fitted(examples.features[~inside], examples.labels[~inside], ridge)
            crossed[inside] = sigmoid(examples.features[inside] @ weights + bias)
    threshold = float(np.quantile(crossed[examples.labels == 1], 1 - answer_share))
    weights, bias = _fitted(examples.features, examples.labels, ridge)
    passed = (crossed >= threshold).astype(np.float64)
    metrics = {
        f"passed_{kind}": _share(passed[places], [examples.origins[row] for row in places])
        for kind, places in _places(examples.kinds).items()
    }
    return AbstainFit(weights, bias, threshold, metrics)


def _share(passed: Floats, origins: Sequence[str]) -> dict[str, Any]:
    """The share that passes; its bootstrap draws origins, since copies are not independent."""
    names, codes = np.unique(origins, return_inverse=True)
    sums = np.bincount(codes, passed)
    found = ratio_interval(sums.astype(np.float64), np.bincount(codes).astype(np.float64))
    return measured(found, len(names), items=len(passed))


def _places(kinds: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each kind."""
    found: dict[str, list[int]] = {}
    for row, kind in enumerate(kinds):
        found.setdefault(kind, []).append(row)
    return found


def _fitted(features_: Floats, labels: Floats, ridge: float) -> tuple[Floats, float]:
    """Return weights for raw features, and the intercept; only the ridge sees standardised ones."""
    mean, spread = features_.mean(axis=0), features_.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    *weights, bias = fit_logistic((features_ - mean) / spread, labels, ridge).tolist()
    scaled = np.array(weights) / spread
    return scaled, float(bias - scaled @ mean)


def stated(
    fitted: AbstainFit, frequencies: Frequencies, origin: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of `answerable.json`: the model and its origin."""
    return {
        "features": list(FEATURES),
        "weights": [round(float(each), 6) for each in fitted.weights],
        "bias": round(fitted.bias, 6),
        "threshold": round(fitted.threshold, 6),
        "cross_fitted": {name: each["value"] for name, each in fitted.metrics.items()},
        "origin": dict(origin),
        "num_texts": frequencies.num_texts,
        "document_frequency": dict(frequencies.counts),
    }


def read_texts(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the texts of JSON lines: `title` and `text`, or the texts of `sections`.

    Raises ValueError that names file and line.
    """
    for path in paths:
        for place, row in json_lines.rows(path, "a text"):
            try:
                parts = [row.get("text") or "", *(s["text"] for s in row.get("sections") or ())]
                yield " ".join([row.get("title") or "", *parts])
            except (KeyError, TypeError) as error:
                raise ValueError(f"{place}: not a text ({error!r})") from error
