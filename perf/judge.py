"""`python -m perf.judge VOTES`: a learnt judge of nuggets against a cosine, on physicians' votes.

VOTES is K-QA's nli.jsonl. One set of features, fixed beforehand, goes into one logistic regression.
Ten folds of the questions; on the training questions inner folds choose penalty and threshold, so
nothing is chosen on the questions that are scored. The cosine (of the nugget and the nearest one to
three sentences), the share of words that the rules compare, and the logistic regression get their
thresholds alike. Prints JSON: F1 and AUC of each over all pairs, and their differences to the
cosine, with 95 % intervals over questions, mean over three draws of the folds. One processor.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from srrag.algo.classification import (
    auroc,
    best_threshold,
    bootstrap_weights,
    fit_logistic,
    precision_recall_f1,
    sigmoid,
)
from srrag.algo.entailment import content_stems, entails, sentences
from srrag.algo.intervals import tails
from srrag.evaluate.nli import read_nli
from srrag.model.embed import LoadedEncoder, TokenVectors, load
from srrag.model.encoder import Encoder

FOLDS, INNER, DRAWS = 10, 5, 3
PENALTIES = (0.1, 1.0, 10.0, 100.0)
RESAMPLES = 10_000
COSINE, RULES = 0, 1
"""Columns of the features that are judges by themselves."""
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_NOT = re.compile(r"\b(?:no|not|never|without|cannot|avoid)\b|n['’]t\b", re.IGNORECASE)


def main(arguments: Sequence[str]) -> dict[str, Any]:
    """Measure, and return what is printed."""
    (votes,) = arguments
    rows = read_nli(Path(votes))
    labels = np.array([float(row["label"] == "Entailment") for row in rows])
    _, groups = np.unique([row["question"] for row in rows], return_inverse=True)
    features = features_of(rows, load(Encoder(), threads=1))
    made = [
        {
            "cosine": cross_fitted(features[:, [COSINE]], labels, groups, seed),
            "rules": cross_fitted(features[:, [RULES]], labels, groups, seed),
            "learnt": cross_fitted(features, labels, groups, seed),
        }
        for seed in range(DRAWS)
    ]
    return {"pairs": len(rows), "questions": int(groups.max()) + 1, **stated(made, labels, groups)}


def features_of(rows: Sequence[Mapping[str, Any]], encoder: LoadedEncoder) -> Floats:
    """Nine features a pair: (pairs, 9)."""
    return np.array([_features(row, encoder) for row in rows])


def _features(row: Mapping[str, Any], encoder: LoadedEncoder) -> list[float]:
    answer, nugget = str(row["answer"]), str(row["nugget"])
    said = sentences(answer) or [answer]
    spans = [" ".join(said[n : n + size]) for size in (1, 2, 3) for n in range(len(said))]
    vectors, tokens = encoder.encode_tokens([nugget, *spans])
    cosines = vectors[1:] @ vectors[0]
    nearest = spans[int(np.argmax(cosines))]
    own, *others = (_floats(tokens, n) for n in range(1 + len(said)))
    aligned = (own @ np.concatenate(others).T).max(axis=1) if len(own) else np.zeros(1)
    asked, words = set(content_stems(str(row["question"]))), content_stems(nugget)
    new = [word for word in words if word not in asked] or words
    held = set(content_stems(answer))
    numbers = _NUMBER.findall(nugget)
    return [
        float(cosines.max()),
        entails(answer, nugget, str(row["question"])).score,
        float(np.sort(cosines)[-3:].mean()),
        float(aligned.mean()),
        float(aligned.min()),
        float(np.mean([word in held for word in new])) if new else 0.0,
        float(np.mean([each in answer for each in numbers])) if numbers else 1.0,
        float(bool(_NOT.search(nugget)) == bool(_NOT.search(nearest))),
        float(np.log1p(len(words))),
    ]


def _floats(tokens: TokenVectors, text: int) -> Floats:
    some = slice(tokens.offsets[text], tokens.offsets[text + 1])
    return tokens.values[some] * tokens.scale[some, None].astype(np.float64)


def cross_fitted(
    features: Floats, labels: Floats, groups: Ints, seed: int
) -> tuple[Floats, Floats]:
    """Scores of all pairs by folds that lack their question, and whether each is called entailed.

    A single feature is its own score, so that folds cost it nothing.
    """
    scores, called = np.zeros(len(labels)), np.zeros(len(labels))
    for fold in _folds(groups, FOLDS, seed):
        train = ~fold
        inner = list(_folds(groups, INNER, seed + 100))
        trials = []
        for penalty in PENALTIES if features.shape[1] > 1 else PENALTIES[:1]:
            held = np.zeros(len(labels))
            for part in inner:
                held[part] = _fitted(features, labels, train & ~part, penalty)[part]
            threshold = best_threshold(labels[train], held[train])
            f1 = _f1(labels[train], held[train] >= threshold)
            trials.append((f1, penalty, threshold))
        _, penalty, threshold = max(trials)
        scores[fold] = _fitted(features, labels, train, penalty)[fold]
        called[fold] = scores[fold] >= threshold
    return scores, called


def _fitted(features: Floats, labels: Floats, train: npt.NDArray[np.bool_], ridge: float) -> Floats:
    if features.shape[1] == 1:
        return features[:, 0]
    mean, deviation = features[train].mean(axis=0), features[train].std(axis=0) + 1e-9
    scaled = (features - mean) / deviation
    beta = fit_logistic(scaled[train], labels[train], ridge)
    return sigmoid(scaled @ beta[:-1] + beta[-1])


def _folds(groups: Ints, count: int, seed: int) -> list[npt.NDArray[np.bool_]]:
    places = np.random.default_rng(seed).permutation(int(groups.max()) + 1) % count
    return [places[groups] == fold for fold in range(count)]


def _f1(labels: Floats, called: npt.NDArray[np.bool_]) -> float:
    once = np.ones((1, len(labels)))
    return float(precision_recall_f1(labels, called.astype(np.float64), once)[2][0])


def stated(
    made: Sequence[Mapping[str, tuple[Floats, Floats]]], labels: Floats, groups: Ints
) -> dict[str, Any]:
    """F1 and AUC of each judge and the difference to the cosine, means over the draws of folds."""
    once = np.ones((1, len(labels)))
    whole = _figures(made, labels, once)
    drawn = [
        _figures(made, labels, weights)
        for weights in bootstrap_weights(groups, resamples=RESAMPLES, seed=0)
    ]
    report: dict[str, Any] = {}
    for name, figures in whole.items():
        for metric, value in figures.items():
            sampled = np.concatenate([each[name][metric] for each in drawn])
            less = np.concatenate([each["cosine"][metric] for each in drawn])
            told = {"value": float(value[0]), "interval": tails(sampled, 0.95)}
            if name != "cosine":
                told["more"] = float(value[0] - whole["cosine"][metric][0])
                told["more_interval"] = tails(sampled - less, 0.95)
            report.setdefault(name, {})[metric] = told
    return report


def _figures(
    made: Sequence[Mapping[str, tuple[Floats, Floats]]], labels: Floats, weights: Floats
) -> dict[str, dict[str, Floats]]:
    return {
        name: {
            "F1": np.mean([precision_recall_f1(labels, d[name][1], weights)[2] for d in made], 0),
            "AUC": np.mean([auroc(labels, d[name][0], weights) for d in made], 0),
        }
        for name in made[0]
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:]), indent=1, default=float))
