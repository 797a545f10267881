"""Fit the weights of the bi-encoder logit on the training questions of public sets.

    python -m srrag.lab.fits.logits D/rehab R1 D/bioasq R2 --questions 400

Each folder is followed by the root of a finished build of its corpus. The last line on stdout is
one JSON object, with what was fitted on beside the weights, as srrag/rerank/logits.json has them.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.core.formats import read_queries
from srrag.core.pipeline import Pipeline
from srrag.core.provenance import KEY, fitted_on
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.lab.measure.references import SPLITS, Qrels, per_question, read_qrels, split_of
from srrag.rerank.bi_encoder import RerankBiEncoder
from srrag.rerank.maxsim import RerankMaxSim
from srrag.retrieve.candidates import FuseRanks
from srrag.retrieve.questions import EncodeQuestions, question_table
from srrag.retrieve.search import SearchDense, SearchSparse
from srrag.storage.store import Store

RANKING = (
    EncodeQuestions(),
    SearchSparse(),
    SearchDense(),
    FuseRanks(channels=("hits_sparse", "hits_dense"), into="hits_fused"),
    RerankMaxSim(hits="hits_fused", blend=(), depth=0, into="hits_coarse"),
    RerankBiEncoder(hits="hits_coarse", into="hits", scale=1.0, late=0.0, shift=0.0),
)
COLUMNS = ["query_id", "query_token_scales", "hits_sparse", "hits_coarse", "hits"]
FEATURES = ("cosine", "mean MaxSim", "BM25")
CANDIDATES = 100


@dataclass(frozen=True)
class RankedQuestion:
    """A question's first 100 of the coarse ranking: its set, documents, relevance and FEATURES."""

    query_id: str
    folder: Path
    documents: list[str]
    relevant: np.ndarray
    features: np.ndarray


def logit(places: Sequence[tuple[Path, Path]], most: int) -> dict[str, Any]:
    """Weights of the bi-encoder logit: a logistic regression on the training questions of all sets.

    Every set weighs the same, and within it every question; judged by the log-loss and by the
    ranking of the other questions.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    rows: list[RankedQuestion] = []
    qrels: dict[Path, Qrels] = {}
    texts: dict[tuple[Path, str], str] = {}
    for folder, root in places:
        judged, asked = judged_queries(folder, most)
        table, units = ranked(root, asked)
        rows += [features(row, units, folder, judged) for row in table.select(COLUMNS).to_pylist()]
        qrels[folder] = judged
        texts |= {(folder, row["query_id"]): str(row["text"]) for row in asked}
    train, test = ([r for r in rows if split_of(r.query_id) == side] for side in SPLITS)
    (x, y, weight), (x_test, y_test, weight_test) = joined(train), joined(test)
    figures: dict[str, Any] = {"train_questions": len(train), "test_questions": len(test)}
    figures[KEY] = fitted_on(
        name="bi-encoder logit",
        command=shlex.join(["python", "-m", "srrag.lab.fits.logits", *sys.argv[1:]]),
        questions=[texts[row.folder, row.query_id] for row in train],
    )
    base = np.full(len(y_test), np.average(y, weights=weight))
    figures["test_log_loss_of_base_rate"] = log_loss(y_test, base, sample_weight=weight_test)
    for columns in ([0], [1], [0, 1], [0, 2], [0, 1, 2]):
        found = LogisticRegression(C=np.inf, max_iter=1000).fit(x[:, columns], y, weight)
        odds = found.predict_proba(x_test[:, columns])[:, 1]
        weights, shift = found.coef_[0], float(found.intercept_[0])
        ndcg = {}
        for folder, judged in qrels.items():
            of_set = [r for r in test if r.folder == folder]
            held = {r.query_id: judged[r.query_id] for r in of_set}
            runs = {
                r.query_id: by_score(r.documents, r.features[:, columns] @ weights) for r in of_set
            }
            ndcg[folder.name] = round(float(per_question(held, runs)["nDCG@10"].mean()), 4)
        figures[" + ".join(FEATURES[c] for c in columns)] = {
            "weights": [*weights.round(3).tolist(), round(shift, 3)],
            "test_log_loss": round(log_loss(y_test, odds, sample_weight=weight_test), 4),
            "test_nDCG@10": ndcg,
        }
    return figures


def joined(rows: Sequence[RankedQuestion]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, relevance and weight of all windows; the weights of a set add up to its share."""
    sizes = Counter(row.folder for row in rows)
    weight = [
        np.full(len(r.relevant), len(rows) / len(sizes) / sizes[r.folder] / max(1, len(r.relevant)))
        for r in rows
    ]
    x, y = (np.concatenate([getattr(r, n) for r in rows]) for n in ("features", "relevant"))
    return x, y, np.concatenate(weight)


def features(row: dict[str, Any], units: Units, folder: Path, qrels: Qrels) -> RankedQuestion:
    """The first 100 of a question's coarse ranking."""
    ids = [hit["unit_id"] for hit in row["hits_coarse"][:CANDIDATES]]
    late = np.array([hit["score"] for hit in row["hits_coarse"][:CANDIDATES]])
    cosine = {hit["unit_id"]: hit["score"] for hit in row["hits"]}
    lexical = {hit["unit_id"]: hit["score"] for hit in row["hits_sparse"]}
    tokens = max(1, len(row["query_token_scales"]) // 2)
    columns = [[cosine[u] for u in ids], late / tokens, [lexical.get(u, 0.0) for u in ids]]
    documents, judged = units.document_keys(ids).to_pylist(), qrels[row["query_id"]]
    relevant = np.array([judged.get(document, 0) > 0 for document in documents])
    return RankedQuestion(row["query_id"], folder, documents, relevant, np.array(columns).T)


def by_score(documents: Sequence[str], scores: np.ndarray) -> dict[str, float]:
    """Documents by their best window, scored by rank."""
    order = np.argsort(-scores, kind="stable")
    return {d: 1 / n for n, d in enumerate(dict.fromkeys(documents[i] for i in order), start=1)}


def judged_queries(folder: Path, most: int = 0) -> tuple[Qrels, list[dict[str, Any]]]:
    """The judged questions of a BEIR folder, a random `most` of them if that is not 0."""
    qrels = read_qrels(folder / "qrels" / "test.tsv")
    asked = [row for row in read_queries(folder / "queries.jsonl") if row["query_id"] in qrels]
    if most:
        asked = [asked[n] for n in np.random.default_rng(0).permutation(len(asked))[:most]]
    return {row["query_id"]: qrels[row["query_id"]] for row in asked}, asked


def ranked(root: Path, questions: Sequence[dict[str, Any]]) -> tuple[pa.Table, Units]:
    """The questions with every column of the two-stage ranking, 64 at a time."""
    at = Place(artifacts=Store(root).artifacts("default"), root=root, threads=1)
    run = Pipeline(rank=RANKING).open(at)
    table = question_table(questions)
    parts = [run(table.slice(start, 64)) for start in range(0, table.num_rows, 64)]
    return pa.concat_tables(parts), Units(at.artifact("units"))


def main() -> None:
    """Fit, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", nargs="+", type=Path, help="folder, root, folder, root, …")
    parser.add_argument("--questions", type=int, default=0, help="so many at random; 0: all")
    given = parser.parse_args()
    places = list(zip(given.places[::2], given.places[1::2], strict=True))
    figures = logit(places, given.questions)
    print(json.dumps(figures, indent=2), file=sys.stderr)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
