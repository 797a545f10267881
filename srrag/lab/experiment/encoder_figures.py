"""How an encoder ranks a set of questions: by its vectors alone, and by MaxSim of its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from srrag.algo.intervals import Values, bootstrap_interval
from srrag.algo.maxsim import maxsim, take_ragged
from srrag.algo.significance import paired_bootstrap
from srrag.core.figures import measured
from srrag.lab.experiment.gold_sets import GoldSet
from srrag.lab.measure.retrieval import per_question
from srrag.lab.train.encoder.material import Floats
from srrag.model.embed import LoadedEncoder, TokenVectors

DEPTH = 100
"""Number of passages nearest to the question that MaxSim reranks."""
GUARDED = ("dense_nDCG@10", "maxsim_nDCG@10")
"""Figures on a second set that a training run must not lower."""
_MEASURES = ("nDCG@10", "recall@100")


@dataclass(frozen=True)
class EncodedPassages:
    """The passages of a set as an encoder sees them."""

    model: LoadedEncoder
    vectors: Floats
    tokens: TokenVectors


def encode_passages(model: LoadedEncoder, found: GoldSet) -> EncodedPassages:
    """Encode a set's passages once for all questions."""
    return EncodedPassages(model, *model.encode_tokens(found.passages))


def ranked(encoded: EncodedPassages, found: GoldSet) -> dict[str, Values]:
    """By question: nDCG@10 and recall@100 by cosine, and nDCG@10 of those 100 by MaxSim."""
    vectors, tokens = encoded.model.encode_tokens(found.questions, "query")
    dense: dict[str, dict[str, float]] = {}
    late: dict[str, dict[str, float]] = {}
    for number, vector in enumerate(vectors):
        cosines = encoded.vectors @ vector
        near = np.argsort(-cosines, kind="stable")[:DEPTH]
        rows = slice(tokens.offsets[number], tokens.offsets[number + 1])
        query = tokens.values[rows] * tokens.scale[rows, None].astype(np.float32)
        places, ends = take_ragged(encoded.tokens.offsets, near)
        scores = maxsim(query, encoded.tokens.values[places], ends, encoded.tokens.scale[places])
        name = _name(number)
        dense[name] = _run(near)
        late[name] = _run(near[np.argsort(-scores, kind="stable")])
    qrels = {
        _name(n): {str(p): grade for p, grade in each.items()} for n, each in enumerate(found.gold)
    }
    values = per_question(qrels, dense)
    figures = {f"dense_{measure}": values[measure] for measure in _MEASURES}
    return figures | {"maxsim_nDCG@10": per_question(qrels, late)["nDCG@10"]}


def compared(
    ours: Mapping[str, Values], theirs: Mapping[str, Values], resamples: int
) -> dict[str, Any]:
    """Return `metrics`, `baseline_metrics` and their paired `difference`, with 95 % intervals."""
    found: dict[str, Any] = {"metrics": {}, "baseline_metrics": {}, "difference": {}}
    for name, values in ours.items():
        size, base = len(values), theirs[name]
        for key, each in (("metrics", values), ("baseline_metrics", base)):
            found[key][name] = measured(bootstrap_interval(each, resamples=resamples), size)
        gain = paired_bootstrap(values, base, resamples=resamples)
        found["difference"][name] = measured(
            (gain.value, gain.low, gain.high), size, p=round(gain.p, 4)
        )
    return found


def harmed(difference: Mapping[str, Mapping[str, Any]], margin: float) -> list[str]:
    """The guarded figures that may have lost more than `margin`: their interval reaches below it.

    The test of non-inferiority (Piaggio et al. 2012): a set too small to tell counts as harmed.
    """
    return [name for name in GUARDED if difference[name]["low"] < -margin]


def _name(number: int) -> str:
    return f"{number:09d}"  # scores come in the order of the sorted names


def _run(order: np.ndarray) -> dict[str, float]:
    """Score by rank: ir-measures breaks ties of scores by name, not by our order."""
    return {str(place): 1.0 / rank for rank, place in enumerate(order.tolist(), start=1)}
