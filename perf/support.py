"""`python -m perf.support fit|develop|blind DATA`: the support gate's own error on real pairs.

DATA is the folder of public data sets. Pairs and their halves are those of perf.support_pairs.
`fit` learns the weights and thresholds on the develop half and writes srrag/answer/support.json;
`develop` prints cross-fitted errors of that half beside those of silly gates; `blind` prints those
of the packaged fit on the other half, which is meant to be looked at once. Errors are JSON: of
each good kind the share dropped, of each bad kind the share let through, and means over kinds.
`--vectors FILE` keeps sentence vectors between runs (.npz); `--one-in N` takes one in N questions
and articles, by hash, and all of K-QA. Runs on one processor.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perf import provenance
from perf.support_pairs import BAD, GOOD, Pair, pairs
from srrag.answer.support_gate import FITTED, NEAR, fitted, vetoed
from srrag.answer.support_signs import Signs, measures, nearest, signs
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.provenance import KEY

MOST_DROPPED = 0.05
FOLDS = 5
Floats = npt.NDArray[np.float64]
Scores = Callable[[Sequence[Signs]], Floats]


def main(arguments: Sequence[str]) -> dict[str, Any]:
    """Run one of the commands and return what it prints."""
    parser = argparse.ArgumentParser(prog="python -m perf.support")
    parser.add_argument("command", choices=("fit", "develop", "blind"))
    parser.add_argument("data", type=Path)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--one-in", type=int, default=1)
    given = parser.parse_args(arguments)
    blind = given.command == "blind"
    chosen = [pair for pair in pairs(given.data) if pair.blind == blind and pair.in_(given.one_in)]
    found = signs_of(chosen, given.vectors)
    if blind:
        return {"packaged": errors(chosen, packaged(found))} | silly(chosen, found)
    scores = cross_fitted(chosen, found)
    thresholds = choose(chosen, found, scores)
    passes = (scores >= by_band(found, thresholds)) & ~fallen(found)
    report = {"cross_fitted": errors(chosen, passes)}
    if given.command == "fit":
        write(given.data, chosen, found, thresholds, report["cross_fitted"])
    return report | silly(chosen, found)


def signs_of(chosen: Sequence[Pair], kept: Path | None) -> list[Signs]:
    """Compute the signs of all pairs, with cached vectors where the file has them."""
    vectors: dict[str, Any] = {}
    if kept and kept.exists():
        with np.load(kept) as file:
            vectors = dict(zip(file["texts"].tolist(), file["vectors"], strict=True))
    texts = dict.fromkeys(t for pair in chosen for t in (pair.sentence, *pair.window.stretches))
    new = sorted((text for text in texts if text not in vectors), key=len)
    encoder = load(Encoder(), threads=1)
    for start in range(0, len(new), 500):
        some = new[start : start + 500]
        vectors.update(zip(some, encoder.encode(some), strict=True))
        print(f"{start + len(some):,} of {len(new):,} texts encoded", file=sys.stderr)
    if kept and new:
        names = np.array(list(vectors), dtype=np.str_)
        np.savez(kept, texts=names, vectors=np.stack([vectors[name] for name in vectors]))
    return [
        signs(
            pair.sentence, pair.window,
            nearest(vectors[pair.sentence], np.stack([vectors[t] for t in pair.window.stretches])),
        )
        for pair in chosen
    ]  # fmt: skip


def fallen(found: Sequence[Signs]) -> npt.NDArray[np.bool_]:
    """Return which pairs are vetoed whatever their score, shape (pairs,)."""
    return np.array([vetoed(each) for each in found])


def packaged(found: Sequence[Signs]) -> npt.NDArray[np.bool_]:
    """Which pairs the packaged gate lets through."""
    return np.array([fitted().supports(each) for each in found])


def weights_of(chosen: Sequence[Pair]) -> Floats:
    """Weights under which all good kinds together, and all bad ones, count the same."""
    kinds = [pair.kind for pair in chosen]
    size = {kind: kinds.count(kind) for kind in kinds}
    many = {kind: len({k for k in size if (k in GOOD) == (kind in GOOD)}) for kind in size}
    return np.array([len(kinds) / 2 / many[kind] / size[kind] for kind in kinds])


def cross_fitted(chosen: Sequence[Pair], found: Sequence[Signs]) -> Floats:
    """The score of each pair by weights of other questions and articles."""
    fold = np.array([zlib.crc32(pair.group.encode()) % FOLDS for pair in chosen])
    scores = np.zeros(len(chosen))
    for n in range(FOLDS):
        weights, bias = learned(
            [p for p, f in zip(chosen, fold, strict=True) if f != n],
            [s for s, f in zip(found, fold, strict=True) if f != n],
        )
        scores[fold == n] = _score(table_of(found)[fold == n], weights, bias)
    return scores


def table_of(found: Sequence[Signs]) -> Floats:
    """The measures of each pair, (pairs, measures)."""
    return np.array([list(measures(each).values()) for each in found])


def learned(chosen: Sequence[Pair], found: Sequence[Signs]) -> tuple[Floats, float]:
    """Weights and bias of a logistic regression, kinds weighed alike."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=10.0, max_iter=3000)
    model.fit(table_of(found), [p.good for p in chosen], sample_weight=weights_of(chosen))
    return model.coef_[0], float(model.intercept_[0])


def _score(table: Floats, weights: Floats, bias: float) -> Floats:
    scores: Floats = 1.0 / (1.0 + np.exp(-(table @ weights + bias)))
    return scores


def by_band(found: Sequence[Signs], thresholds: Sequence[float]) -> Floats:
    """The threshold of each pair: near its window's words, or far from them."""
    return np.array([thresholds[each.closest >= NEAR] for each in found])


def choose(chosen: Sequence[Pair], found: Sequence[Signs], scores: Floats) -> list[float]:
    """The highest threshold of each band, far and near, at which few good pairs fall.

    Those that are vetoed count as fallen: at most MOST_DROPPED of a band's good pairs fall.
    """
    good = np.array([pair.good for pair in chosen])
    near = np.array([each.closest >= NEAR for each in found])
    weight, lost = weights_of(chosen), fallen(found)
    thresholds = []
    for band in (False, True):
        some = good & (near == band)
        best = 0.0
        for value in np.sort(scores[some]):
            low = weight[some & ((scores < value) | lost)].sum()
            best = float(value) if low <= MOST_DROPPED * weight[some].sum() else best
        thresholds.append(math.floor(best * 1e4) / 1e4)
    return thresholds


def errors(chosen: Sequence[Pair], passes: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Good pairs dropped and bad ones let through, by kind, with their numbers."""
    kinds = np.array([pair.kind for pair in chosen])
    share = {k: float(passes[kinds == k].mean()) for k in (*GOOD, *BAD) if (kinds == k).any()}
    dropped = {k: round(1 - share[k], 3) for k in GOOD if k in share}
    through = {k: round(share[k], 3) for k in BAD if k in share}
    return {
        "dropped": dropped,
        "dropped_mean": round(float(np.mean([*dropped.values()])), 3),
        "let_through": through,
        "let_through_mean": round(float(np.mean([*through.values()])), 3),
        "pairs": {kind: int((kinds == kind).sum()) for kind in (*GOOD, *BAD)},
    }


def silly(chosen: Sequence[Pair], found: Sequence[Signs]) -> dict[str, Any]:
    """Score simple baseline gates, each at its best threshold on these pairs (in-sample)."""
    told = {}
    weight, good = weights_of(chosen), np.array([pair.good for pair in chosen])
    for name in ("similarity", "coverage", "closest"):
        values = np.array([getattr(each, name) for each in found])
        order = np.argsort(values[good])
        share = np.cumsum(weight[good][order]) / weight[good].sum()
        at = int(np.searchsorted(share, MOST_DROPPED))
        told[f"{name}_alone"] = errors(chosen, values >= values[good][order][at])
    draw = np.random.default_rng(0).random(len(chosen))
    told["by_lot"] = errors(chosen, draw >= MOST_DROPPED)
    return {
        name: {k: v for k, v in each.items() if k.endswith("mean")} for name, each in told.items()
    }


def write(
    data: Path,
    chosen: Sequence[Pair],
    found: Sequence[Signs],
    thresholds: Sequence[float],
    report: Any,
) -> None:
    """Write the packaged fit with what it was fitted on."""
    weights, bias = learned(chosen, found)
    names = measures(found[0])
    said = {
        "origin": "develop half of K-QA's votes, BioASQ's ideal answers with the passages of "
        "evidence_filter, and Evidence Inference's prompts and abstracts",
        KEY: provenance.support(data, chosen),
        "pairs": report["pairs"],
        "cross_fitted": {k: report[k] for k in ("dropped", "let_through")},
        "weights": {n: round(float(w), 4) for n, w in zip(names, weights, strict=True)},
        "bias": round(bias, 4),
        "threshold": dict(zip(("far", "near"), thresholds, strict=True)),
    }
    FITTED.write_text(json.dumps(said, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:]), indent=1))
