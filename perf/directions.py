"""`python -m perf.directions ROOT DATA`: how often the direction that a page reads is right.

ROOT holds the abstracts of Evidence Inference (`corpus=jsonl corpus.path=DATA/articles.jsonl`),
DATA is their folder. Each labelled prompt is asked as "What is the effect of … compared with … on
…?", the reading of the answer says higher, lower or no difference, and the experts' label says
what is right. Prints one JSON object with shares, intervals (bootstrap over articles), opposite
directions, and what the commonest label alone would reach on the same questions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

import srrag
from srrag.answer.clinical.summary import clinical_reading
from srrag.expand.anchor_rules import rule_anchors

SAYS = {
    "significantly increased": "higher",
    "significantly decreased": "lower",
    "no significant difference": "no difference",
}
ROUNDS = 2000


def questions(folder: Path) -> list[dict[str, Any]]:
    """The labelled prompts, each with its question."""
    lines = (folder / "prompts.jsonl").read_text("utf-8").splitlines()
    prompts = [row for row in map(json.loads, lines) if row["label"]]
    words = "What is the effect of {intervention} compared with {comparator} on {outcome}?"
    return [{**row, "text": words.format(**row), "right": SAYS[row["label"]]} for row in prompts]


def told(root: Path, asked: list[dict[str, Any]], pipeline: str) -> list[str]:
    """What the reading of each answer says, "" where it says nothing or papers differ."""
    with srrag.open(root) as opened:
        replies = opened.answer([row["text"] for row in asked], pipeline=pipeline)
    read = []
    for reply in replies:
        anchors = rule_anchors([reply.question])[0]
        says = "" if reply.error else clinical_reading(reply.json, anchors).certainty.says
        read.append(says if says in SAYS.values() else "")
    return read


def share(right: np.ndarray, articles: np.ndarray) -> dict[str, float | int]:
    """A share with its 95 % interval: articles are drawn, with all their questions."""
    names, place = np.unique(articles, return_inverse=True)
    of = np.zeros((2, len(names)))
    np.add.at(of[0], place, right)
    np.add.at(of[1], place, 1)
    drawn = np.random.default_rng(0).integers(len(names), size=(ROUNDS, len(names)))
    means = of[0][drawn].sum(1) / of[1][drawn].sum(1)
    low, high = np.quantile(means, (0.025, 0.975))
    figures = {"value": right.mean(), "low": low, "high": high}
    return {**{name: round(float(each), 3) for name, each in figures.items()}, "n": len(right)}


def figures(asked: list[dict[str, Any]], read: list[str]) -> dict[str, Any]:
    """The figures over these questions."""
    says, right = np.array(read), np.array([row["right"] for row in asked])
    articles = np.array([row["article_id"] for row in asked])
    spoken = says != ""
    opposite = [{a, b} == {"higher", "lower"} for a, b in zip(says, right, strict=True)]
    commonest = max(SAYS.values(), key=lambda each: int((right[spoken] == each).sum()))
    return {
        "told": share(spoken, articles),
        "right_of_told": share((says == right)[spoken], articles[spoken]),
        "opposite_of_told": share(np.array(opposite)[spoken], articles[spoken]),
        "commonest_of_told": share((right == commonest)[spoken], articles[spoken]),
    }


def main() -> None:
    """Ask, read, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--pipeline", default="bm25")
    given = parser.parse_args()
    asked = questions(given.data)
    read = told(given.root, asked, given.pipeline)
    # The 400 questions first by hash were looked at while the rules were written.
    order = sorted(
        range(len(asked)), key=lambda n: hashlib.sha256(asked[n]["id"].encode()).digest()
    )
    parts = {"all": order, "looked_at": order[:400], "never_looked_at": order[400:]}
    print(
        json.dumps(
            {
                name: figures([asked[n] for n in of], [read[n] for n in of])
                for name, of in parts.items()
            }
        )
    )


if __name__ == "__main__":
    main()
