"""Fit the weights by which rules choose the sentences of an answer.

    python -m srrag.lab.fits.quotes collect DATA BIOASQ_ROOT CACHE
    python -m srrag.lab.fits.quotes fit DATA CACHE OUT.json

`collect` keeps the evidence of BioASQ's questions, once; `fit` writes the weights of a sentence, as
srrag/answer/select/sentence_weights.json has them.

DATA holds evidence_inference/ and bioasq/. The weights are fitted on Evidence Inference without the
articles of rehab and on BioASQ, on both at once. The fit needs the package rouge-score.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from srrag.algo.terms import terms
from srrag.answer.select import quotes as extracting
from srrag.answer.select.candidates import FEATURES, Passage, candidates, features, passage_of
from srrag.answer.select.quotes import seen
from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.provenance import KEY, fitted_on
from srrag.core.spec import content_id, file_sha256
from srrag.lab.datasets.shape import evidence_inference_rows
from srrag.reading.statement import read_statement
from srrag.retrieve.questions import question_table
from srrag.storage.atomic_write import commit_json

ANSWERING = ("compose", "gate", "support")
RIDGE = 1.0
FIT_IN = 3
"""Of BioASQ's questions one in three is enough to fit two dozen weights."""
RIGHT_DIRECTION = 0.3
"""What a sentence gains as a target if it tells the right direction of the outcome."""
LABELS = {
    "significantly increased": "increased",
    "significantly decreased": "decreased",
    "no significant difference": "no difference",
}


@dataclass(frozen=True)
class LabelledQuestion:
    """A question with its evidence, and what its answer is compared with."""

    bioasq: bool
    text: str
    passages: tuple[Passage, ...]
    gold: Mapping[str, Any]


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def fitted_in(query_id: str) -> bool:
    """Whether a question of BioASQ is one of those that weights are fitted to, by its hash."""
    return int(content_id("fitted", query_id)[:8], 16) % FIT_IN == 0


def collect(data: Path, root: str, cache: Path) -> None:
    """Find the evidence of all questions of BioASQ, and keep it."""
    leave = [f"answering.Rules.{step}=null" for step in ANSWERING]
    given = [f"bench.path={data / 'bioasq'}", f"root={root}", "pipeline=hybrid_maxsim", *leave]
    config = configure("evaluate", given)
    bound = factory.pipeline_run(config, factory.make(config["pipeline"], "pipeline"))
    asked = [
        {"query_id": row["_id"], "text": row["text"]}
        for row in lines(data / "bioasq" / "queries.jsonl")
    ]
    table = bound.run(question_table(asked), factory.place(config))
    kept = table.select(["query_id", "text", "evidence"]).to_pylist()
    commit_json(cache / "bioasq.json", kept)


def read_all(data: Path, cache: Path) -> list[LabelledQuestion]:
    """The questions of both sets that are fitted to."""
    return [*_evidence_inference(data / "evidence_inference"), *_bioasq(data, cache)]


def _evidence_inference(path: Path) -> Iterable[LabelledQuestion]:
    """Prompts with a label, each beside its own abstract with its sections."""
    articles = {row["id"]: row for row in lines(path / "articles.jsonl")}
    for row in lines(path / "prompts.jsonl"):
        article = articles[row["article_id"]]
        if row["label"] is None or article["rehab"]:
            continue
        text = (
            f"What is the effect of {row['intervention']} compared with {row['comparator']} on "
            f"{row['outcome']}?"
        )
        passages = tuple(
            Passage(
                part["text"],
                article["title"],
                part["heading"],
                article["evidence_grade"] or "",
                paper=row["article_id"],
            )
            for part in article["sections"]
        )
        yield LabelledQuestion(False, text, passages, row)


def _bioasq(data: Path, cache: Path) -> Iterable[LabelledQuestion]:
    """Questions with found evidence and ideal answers."""
    answers = {row["id"]: row for row in lines(data / "bioasq" / "answers.jsonl")}
    for row in json.loads((cache / "bioasq.json").read_text("utf-8")):
        if fitted_in(row["query_id"]):
            told = answers.get(row["query_id"], {})
            gold = {"ideal": told.get("ideal_answer") or []}
            passages = tuple(passage_of(e) for e in row["evidence"])
            yield LabelledQuestion(True, row["text"], passages, gold)


def target(each: LabelledQuestion, text: str) -> float:
    """Return the target score of a sentence as the first one of the answer."""
    if each.bioasq:
        return max((rouge2(ideal, text) for ideal in each.gold["ideal"]), default=0.0)
    row = each.gold
    shared = max((_dice(e["text"], text) for e in row["evidence"]), default=0.0)
    told = read_statement(text, row["outcome"], row["intervention"], row["comparator"]).direction
    return shared + RIGHT_DIRECTION * (told == LABELS[row["label"]]) * (shared > 0.2)


def _dice(a: str, b: str) -> float:
    left, right = {*terms(a)}, {*terms(b)}
    return 2 * len(left & right) / max(1, len(left) + len(right))


def rouge2(ideal: str, text: str) -> float:
    """ROUGE-2 F1 with stemming, by the package rouge-score."""
    return float(_scorer().score(ideal, text)["rouge2"].fmeasure)


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rouge2"], use_stemmer=True)


def learn(asked: Sequence[LabelledQuestion]) -> list[float]:
    """The weights of FEATURES and the intercept, by ridge regression; each question weighs 1."""
    from sklearn.linear_model import Ridge

    x, y, weight = [], [], []
    for each in asked:
        found = candidates(each.passages)
        if not found:
            continue
        values = np.array([target(each, candidate.core) for candidate in found])
        spread = float(np.ptp(values)) if each.bioasq else 1.0
        x.append(features(seen(extracting._asked(each.text, each.passages, found), found)))
        y.append(values / (spread if spread > 0.05 else 1.0))
        weight.append(np.full(len(found), 1 / len(found)))
    whole = Ridge(alpha=RIDGE).fit(*map(np.concatenate, (x, y, weight)))
    return [*whole.coef_.tolist(), float(whole.intercept_)]


def provenance(data: Path) -> dict[str, Any]:
    """What the fit saw: prompts outside rehab, and one in three questions of BioASQ."""
    folder = data / "evidence_inference"
    rehab = {row["id"] for row in lines(folder / "articles.jsonl") if row["rehab"]}
    prompts = {
        row["id"]: row["article_id"]
        for row in lines(folder / "prompts.jsonl")
        if row["label"] is not None and row["article_id"] not in rehab
    }
    asked = [
        row["text"] for row in lines(data / "bioasq" / "queries.jsonl") if fitted_in(row["_id"])
    ]
    asked += [row["text"] for _, row in evidence_inference_rows(folder) if row["id"] in prompts]
    return fitted_on(
        name="sentence weights",
        command="python -m srrag.lab.fits.quotes fit",
        questions=asked,
        documents=set(prompts.values()),
    )


def main(argv: Sequence[str]) -> None:
    """Run the chosen command."""
    command, data, *rest = argv
    if command == "collect":
        collect(Path(data), rest[0], Path(rest[1]))
        return
    if command != "fit":
        raise ValueError(f"{command}: collect or fit")
    *weights, intercept = learn(read_all(Path(data), Path(rest[0])))
    sources = ("evidence_inference/prompts.jsonl", "bioasq/answers.jsonl")
    told = {
        "features": list(FEATURES),
        "weights": [round(each, 5) for each in weights],
        "intercept": round(intercept, 5),
        "origin": {name: file_sha256(Path(data) / name) for name in sources},
        KEY: provenance(Path(data)),
    }
    commit_json(Path(rest[1]), told)


if __name__ == "__main__":
    main(sys.argv[1:])
