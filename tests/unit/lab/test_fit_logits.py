from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.provenance import KEY, fitted_on
from srrag.lab.fits import logits
from srrag.lab.measure.references import Qrels, split_of

IDS = [str(n) for n in range(1, 41)]
SETS = (Path("scifact"), Path("covid"))


def judged_queries(folder: Path, most: int) -> tuple[Qrels, list[dict[str, Any]]]:
    """Two sets with the same ids, other texts and other relevant documents."""
    qrels = {name: {f"{folder} {name}": 1} for name in IDS}
    return qrels, [{"query_id": name, "text": f"{folder} asks {name}"} for name in IDS]


def ranked(root: Path, questions: Sequence[dict[str, Any]]) -> tuple[pa.Table, None]:
    names = [row["query_id"] for row in questions]
    return pa.table(dict.fromkeys(logits.COLUMNS, names)), None


def features(row: dict[str, Any], units: None, folder: Path, qrels: Qrels) -> Any:
    """The relevant document is first by all features, but for some that are not learnt from."""
    name = row["query_id"]
    found = np.random.default_rng(int(name)).random((2, 3)) + [[0.6], [0.0]]
    documents = [f"{folder} {name}", "other"]
    return logits.RankedQuestion(name, folder, documents, np.array([True, False]), found)


def test_sets_with_equal_ids_keep_their_own_texts_and_judgements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for made in (judged_queries, ranked, features):
        monkeypatch.setattr(logits, made.__name__, made)
    figures = logits.logit([(folder, Path("root")) for folder in SETS], 0)
    train = [name for name in IDS if split_of(name) == "train"]
    asked = [f"{folder} asks {name}" for folder in SETS for name in train]
    known = fitted_on(name="", command="", questions=asked)
    assert {**figures[KEY], "name": "", "command": ""} == known
    ndcg = figures["cosine + mean MaxSim + BM25"]["test_nDCG@10"]
    assert ndcg["scifact"] == ndcg["covid"] > 0.9
