"""What BETR is worth beside no grade, a weight fixed beforehand, and grade before all.

    python -m perf.graded planted             on candidates with planted biases
    python -m perf.graded sample --root R     on the sample's questions, cross-fitted
    python -m perf.graded quota --root R      how often which margin brings in a guideline

R is the root of a finished build of the sample. The last line on stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from perf.rerank import ranked
from srrag.algo.betr import GRADES, make_pairs
from srrag.algo.intervals import bootstrap_interval
from srrag.answer.select import SelectEvidence
from srrag.evaluate.references import read_gold, resource_path, window_qrels
from srrag.step import Place
from srrag.storage.store import Store
from srrag.train.betr.fit import BetrSettings, fit
from srrag.train.betr.pairs import sample_pairs
from srrag.train.betr.simulate import TABLE_1, simulate_candidates
from srrag.units import Units

MARGINS = (0.0, 0.1287, 0.2575, 0.5151, 1.0, 2.0, 4.0)
SAMPLE = "pkg://srrag/sample/questions.jsonl"
FOLDS = 5


@dataclass(frozen=True)
class Judged:
    """The candidates of one question."""

    score: np.ndarray
    grade: np.ndarray
    gain: np.ndarray


Rescore = Callable[[Judged], np.ndarray]


def systems(a: float, u: np.ndarray) -> dict[str, Rescore]:
    """Ways to let the grade count: not, as learned, by a weight fixed beforehand, above all."""
    return {
        "no grade": lambda q: q.score,
        "BETR": lambda q: a * q.score + u[q.grade],
        "linear .1": lambda q: _linear(q, 0.1),
        "linear .3": lambda q: _linear(q, 0.3),
        "linear 1": lambda q: _linear(q, 1.0),
        "by grade": lambda q: -1e6 * q.grade + q.score,
    }


def _linear(question: Judged, weight: float) -> np.ndarray:
    """The score stretched to 0…1, and equal steps from `weight` for A to 0 for E."""
    stretched = (question.score - question.score.min()) / np.ptp(question.score)
    return stretched + weight * (4 - question.grade) / 4


def judge(question: Judged, score: np.ndarray) -> dict[str, float]:
    """nDCG@10, A's share of the first three, and how often A stands first at equal relevance.

    The last: of the pairs of equally relevant windows of which one has grade A, the share in
    which that one stands above; NaN without such a pair.
    """
    order = np.argsort(-score, kind="stable")
    discount = 1 / np.log2(np.arange(2, 12))
    best = -np.sort(-question.gain)[:10]
    gain = question.gain[order][:10]
    relevant = np.flatnonzero(question.gain > 0)
    first = relevant[question.grade[relevant] == 0]
    other = relevant[question.grade[relevant] > 0]
    equal = question.gain[first][:, None] == question.gain[other]
    above = score[first][:, None] > score[other]
    return {
        "nDCG@10": float(gain @ discount[: len(gain)] / (best @ discount[: len(best)])),
        "A in top 3": float(np.mean(question.grade[order][:3] == 0)),
        "A above at equal relevance": float(above[equal].mean()) if equal.any() else np.nan,
    }


def cross_fitted(questions: Sequence[Judged], seed: int = 42) -> dict[str, Any]:
    """Each question judged with parameters fitted to the other four fifths of the questions."""
    fold = np.random.default_rng(seed).permutation(len(questions)) % FOLDS
    rows: dict[str, list[dict[str, float]]] = {}
    fits = []
    for held in range(FOLDS):
        learned = learn([q for n, q in enumerate(questions) if fold[n] != held])
        fits.append([round(learned[0], 3), *learned[1].round(3).tolist()])
        for number in np.flatnonzero(fold == held):
            for name, rescore in systems(*learned).items():
                found = judge(questions[number], rescore(questions[number]))
                rows.setdefault(name, []).append(found)
    table = {
        name: {m: round(float(np.nanmean([row[m] for row in found])), 4) for m in found[0]}
        for name, found in rows.items()
    }
    nothing = np.array([row["nDCG@10"] for row in rows["no grade"]])
    gains = {
        name: np.round(bootstrap_interval(ndcg - nothing), 4).tolist()
        for name, found in rows.items()
        if name != "no grade"
        for ndcg in [np.array([row["nDCG@10"] for row in found])]
    }
    return {"questions": len(questions), "systems": table, "nDCG@10 gained": gains, "a, u": fits}


def learn(questions: Sequence[Judged]) -> tuple[float, np.ndarray]:
    """The scale and the biases from 20 pairs for each relevant candidate."""
    named: dict[str, tuple[list[str], np.ndarray]] = {}
    gold: dict[str, dict[str, int]] = {}
    grades: dict[str, str] = {}
    for number, question in enumerate(questions):
        ids = [f"{number} {place}" for place in range(len(question.score))]
        named[str(number)] = (ids, question.score)
        gold[str(number)] = dict(zip(ids, question.gain.astype(int).tolist(), strict=True))
        grades |= dict(zip(ids, (GRADES[grade] for grade in question.grade), strict=True))
    table = sample_pairs(named, gold, grades)
    ranks = [
        np.array([GRADES.index(g) for g in table[c].to_pylist()]) for c in table.column_names[2:]
    ]
    numbers = np.array(table["query_id"].to_pylist(), np.int64)
    pairs = make_pairs(table["delta_s"].to_numpy(), *ranks, numbers)
    found = fit(pairs, None, BetrSettings(), len(questions))
    return found.a, np.array(list(found.u.values()))


def planted(num_queries: int) -> dict[str, Any]:
    """No effect, that of Table 1, and one four times as large."""
    figures = {}
    for name, u in (("none", 0 * TABLE_1), ("Table 1", TABLE_1), ("4 × Table 1", 4 * TABLE_1)):
        found = simulate_candidates(u, num_queries=num_queries)
        rows = zip(found.score, found.grade, found.relevant, strict=True)
        asked = [Judged(s, g, r.astype(float)) for s, g, r in rows if r.any()]
        figures[name] = cross_fitted(asked)
    return figures


def sample_questions(root: Path) -> tuple[pa.Table, Units, list[Judged], Place]:
    """The packaged questions that have gold windows, ranked; an ungraded window counts as E."""
    questions = list(read_gold(resource_path(SAMPLE)))
    units = Units(Store(root).artifacts("default")["units"])
    gold = window_qrels(questions, units)
    table, units, at = ranked(root, [row for row in questions if row["query_id"] in gold])
    judged = []
    for query_id, row in zip(table["query_id"].to_pylist(), table["hits"].to_pylist(), strict=True):
        ids = [hit["unit_id"] for hit in row]
        grades = [g or "E" for g in units.take(ids, ("grade",))["grade"].to_pylist()]
        gain = np.array([float(gold[query_id].get(unit, 0)) for unit in ids])
        scores = np.array([hit["score"] for hit in row])
        judged.append(Judged(scores, np.array([GRADES.index(g) for g in grades]), gain))
    return table, units, judged, at


def sample(root: Path) -> dict[str, Any]:
    """The sample's questions, each with windows of many grades on its subject."""
    _, _, judged, _ = sample_questions(root)
    return cross_fitted([question for question in judged if question.gain.any()])


def quota(root: Path, k: int) -> dict[str, Any]:
    """Of the sample's blocks of k windows: how many hold no A, and how many gain one by margin."""
    table, _, _, at = sample_questions(root)

    def with_a(step: SelectEvidence) -> int:
        blocks = step.open(at)(table)["evidence"].to_pylist()
        return sum(any(item["grade"] == "A" for item in block) for block in blocks)

    margins = {m: with_a(SelectEvidence(k=k, quota=1, quota_margin=m)) for m in MARGINS}
    return {"questions": table.num_rows, "k": k, "off": with_a(SelectEvidence(k=k)), **margins}


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("planted", "sample", "quota"))
    parser.add_argument("--root", type=Path)
    parser.add_argument("--questions", type=int, default=600, help="simulated ones")
    parser.add_argument("--k", type=int, default=12, help="windows of a block")
    given = parser.parse_args()
    run = {
        "planted": lambda: planted(given.questions),
        "sample": lambda: sample(given.root),
        "quota": lambda: quota(given.root, given.k),
    }
    figures = run[given.what]()
    print(json.dumps(figures, indent=2), file=sys.stderr)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
