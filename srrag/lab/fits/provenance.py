"""Write into the packaged fits what they saw: `python -m srrag.lab.fits.provenance DATA`.

DATA is the folder of public data sets. Nothing is fitted: the questions, articles and pairs that
each fit saw are read again, by the rules of the command that fitted it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from srrag.core.formats import read_queries
from srrag.core.ids import content_id
from srrag.core.provenance import KEY, fitted_on
from srrag.lab.datasets import evidence_inference
from srrag.lab.measure.near_topic import read_near_topic
from srrag.lab.measure.retrieval import read_qrels
from srrag.lab.measure.splits import SPLITS, split_of
from srrag.reading.tagger import with_fitted

LOGIT_QUESTIONS = 400
"""Of each set, drawn by `srrag.lab.fits.logits D/rehab R1 D/bioasq R2 --questions 400`."""


def answerable(data: Path) -> dict[str, Any]:
    """What `srrag fit_abstain` saw: the develop half, with and without an answer."""
    asked = read_near_topic(data / "near_topic", data / "rehab", "develop")
    return fitted_on(
        name="answerable", command="srrag fit_abstain", questions=[each.text for each in asked]
    )


def sentence_weights(data: Path) -> dict[str, Any]:
    """What the fit of quotes saw: prompts outside rehab, and one in three questions of BioASQ."""
    articles = {row["id"]: row for row in _rows(data / "evidence_inference" / "articles.jsonl")}
    prompts = [
        row
        for row in _rows(data / "evidence_inference" / "prompts.jsonl")
        if row["label"] is not None and not articles[row["article_id"]]["rehab"]
    ]
    asked = [
        row["text"]
        for row in _rows(data / "bioasq" / "queries.jsonl")
        if int(content_id("fitted", row["_id"])[:8], 16) % 3 == 0
    ]
    return fitted_on(
        name="sentence weights",
        command="python -m srrag.lab.fits.quotes fit",
        questions=[*asked, *_prompts(data, {row["id"] for row in prompts})],
        documents={row["article_id"] for row in prompts},
    )


def logit(data: Path) -> dict[str, Any]:
    """What `srrag.lab.fits.logits` saw: the training side of 400 questions a set."""
    asked: list[str] = []
    for name in ("rehab", "bioasq"):
        qrels = read_qrels(data / name / "qrels" / "test.tsv")
        rows = [r for r in read_queries(data / name / "queries.jsonl") if r["query_id"] in qrels]
        order = np.random.default_rng(0).permutation(len(rows))[:LOGIT_QUESTIONS]
        drawn = [rows[n] for n in order]
        asked += [row["text"] for row in drawn if split_of(row["query_id"]) == SPLITS[0]]
    command = "python -m srrag.lab.fits.logits D/rehab R1 D/bioasq R2 --questions 400"
    return fitted_on(name="bi-encoder logit", command=command, questions=asked)


def lexicon(data: Path) -> dict[str, Any]:
    """What `srrag.extract.make_lexicon` saw: the crowd-labelled abstracts."""
    rows = _rows(data / "pico" / "ebmnlp_crowd_dev.jsonl")
    return fitted_on(
        name="lexicon",
        command="python -m srrag.extract.make_lexicon",
        documents=[row["text"] for row in rows],
    )


def _prompts(data: Path, names: set[str]) -> Iterator[str]:
    """The questions that are made of these prompts of Evidence Inference."""
    for _, row in evidence_inference.rows(data / "evidence_inference"):
        if row["id"] in names:
            yield row["text"]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


FITS: dict[tuple[str, str], Callable[[Path], dict[str, Any]]] = {
    ("srrag.answer.gate", "answerable.json"): answerable,
    ("srrag.answer.select", "sentence_weights.json"): sentence_weights,
    ("srrag.rerank", "logits.json"): logit,
}


def main(data: Path) -> None:
    """Write each block into its file."""
    for (package, name), block in FITS.items():
        path = Path(str(files(package).joinpath(name)))
        told = json.loads(path.read_text("utf-8")) | {KEY: block(data)}
        path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(name, told[KEY]["counts"])
    path = Path(str(files("srrag.reading").joinpath("mentions.tsv")))
    block_ = lexicon(data)
    path.write_text(with_fitted(path.read_text("utf-8"), block_), "utf-8")
    print(path.name, block_["counts"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
