"""Answers by rules: fit what sentences are chosen by, and measure them on three public sets.

    python -m srrag.lab.fits.quotes collect DATA REHAB_ROOT BIOASQ_ROOT CACHE
    python -m srrag.lab.fits.quotes fit DATA CACHE OUT.json
    python -m srrag.lab.fits.quotes baselines DATA CACHE
    python -m srrag.lab.fits.quotes score DATA CACHE

`collect` keeps the evidence, once; `fit` writes the weights of a sentence; `baselines` scores the
first and the last sentence; `score` prints cross-fitted figures.

DATA holds evidence_inference/, bioasq/ and rehab/. Questions are split into folds by the hash of
their article (Evidence Inference) or id; weights are fitted on Evidence Inference without the
articles of rehab and on BioASQ, on both at once. The figures need the package rouge-score.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from srrag.algo.intervals import bootstrap_interval
from srrag.algo.terms import terms
from srrag.answer.select import quotes as extracting
from srrag.answer.select.candidates import (
    FEATURES,
    LEANS,
    Passage,
    candidates,
    features,
    passage_of,
)
from srrag.answer.select.quotes import Extract, ExtractRule, seen
from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.ids import content_id, file_sha256
from srrag.core.provenance import KEY, fitted_on
from srrag.lab.datasets import evidence_inference
from srrag.reading.prose import plain, split_sentences
from srrag.reading.statement import read_statement
from srrag.retrieve.questions import question_table
from srrag.storage.atomic_write import commit_json

ANSWERING = ("compose", "gate", "support")
FOLDS = 5
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
Pick = Callable[[str, Sequence[Passage], int], Extract]


@dataclass(frozen=True)
class LabelledQuestion:
    """A question with its evidence, its fold, and what its answer is compared with."""

    kind: str
    query_id: str
    text: str
    passages: tuple[Passage, ...]
    documents: tuple[str, ...]
    fold: int
    gold: Mapping[str, Any]


def fold_of(name: str) -> int:
    """The fold of a question or article, by its hash."""
    return int(content_id("quotes", name)[:15], 16) % FOLDS


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def collect(data: Path, rehab_root: str, bioasq_root: str, cache: Path) -> None:
    """Find the evidence of all questions of rehab and BioASQ, and keep it."""
    for name, root, pipeline in (
        ("rehab", rehab_root, "hybrid_maxsim"),
        ("bioasq", bioasq_root, "hybrid_maxsim"),
    ):
        leave = [f"answering.Rules.{step}=null" for step in ANSWERING]
        config = configure(
            "evaluate",
            [f"bench.path={data / name}", f"root={root}", f"pipeline={pipeline}", *leave],
        )
        made = factory.make(config["pipeline"], "pipeline")
        bound = factory.pipeline_run(config, made)
        asked = [
            {"query_id": row["_id"], "text": row["text"]}
            for row in lines(data / name / "queries.jsonl")
        ]
        table = bound.run(question_table(asked), factory.place(config))
        kept = table.select(["query_id", "text", "evidence"]).to_pylist()
        commit_json(cache / f"{name}.json", kept)


def read_all(data: Path, cache: Path) -> list[LabelledQuestion]:
    """The questions of all three sets."""
    return [
        *_evidence_inference(data / "evidence_inference"),
        *_found(data, cache, "bioasq"),
        *_found(data, cache, "rehab"),
    ]


def _evidence_inference(path: Path) -> Iterable[LabelledQuestion]:
    """Prompts with a label, each beside its own abstract with its sections."""
    articles = {row["id"]: row for row in lines(path / "articles.jsonl")}
    for row in lines(path / "prompts.jsonl"):
        article = articles[row["article_id"]]
        if row["label"] is None:
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
        gold = {**row, "rehab": article["rehab"]}
        documents = (row["article_id"],) * len(passages)
        fold = fold_of(row["article_id"])
        yield LabelledQuestion(
            "evidence_inference", row["id"], text, passages, documents, fold, gold
        )


def _found(data: Path, cache: Path, name: str) -> Iterable[LabelledQuestion]:
    """Questions with found evidence; of rehab those whose answer a passage holds (grade 2)."""
    answers = {row["id"]: row for row in lines(data / name / "answers.jsonl")}
    qrels: dict[str, dict[str, int]] = {}
    for line in (data / name / "qrels" / "test.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        qrels.setdefault(query, {})[document] = int(grade)
    best = {query: max(grades.values()) for query, grades in qrels.items()}
    for row in json.loads((cache / f"{name}.json").read_text("utf-8")):
        query = row["query_id"]
        passages = tuple(passage_of(e) for e in row["evidence"])
        documents = tuple(e["source_id"] for e in row["evidence"])
        gold = {
            "ideal": answers[query].get("ideal_answer") or [] if query in answers else [],
            "holds": {d for d, g in qrels.get(query, {}).items() if g == best[query]},
            "documents": set(qrels.get(query, {})),
        }
        yield LabelledQuestion(name, query, row["text"], passages, documents, fold_of(query), gold)


def target(each: LabelledQuestion, text: str) -> float:
    """Return the target score of a sentence as the first one of the answer."""
    if each.kind == "bioasq":
        return max((rouge2(ideal, text) for ideal in each.gold["ideal"]), default=0.0)
    row = each.gold
    told = _told(text, row)
    shared = max((_dice(e["text"], text) for e in row["evidence"]), default=0.0)
    return shared + RIGHT_DIRECTION * (told == LABELS[row["label"]]) * (shared > 0.2)


def _told(text: str, row: Mapping[str, Any]) -> str:
    """The direction that a sentence tells of a prompt's outcome."""
    return read_statement(text, row["outcome"], row["intervention"], row["comparator"]).direction


def _dice(a: str, b: str) -> float:
    left, right = {*terms(a)}, {*terms(b)}
    return 2 * len(left & right) / max(1, len(left) + len(right))


def rouge2(ideal: str, text: str) -> float:
    """ROUGE-2 F1 with stemming, by the package rouge-score."""
    return float(_scorer().score(ideal, text)["rouge2"].fmeasure)


_SCORER: list[Any] = []


def _scorer() -> Any:
    if not _SCORER:
        from rouge_score.rouge_scorer import RougeScorer

        _SCORER.append(RougeScorer(["rouge2"], use_stemmer=True))
    return _SCORER[0]


def rouge_su4(ideal: str, text: str) -> float:
    """ROUGE-SU4 F1: unigrams and pairs with at most four words between, stemmed."""
    left, right = _skips(ideal), _skips(text)
    shared = sum((left & right).values())
    return 2 * shared / max(1, left.total() + right.total())


def _skips(text: str) -> Counter[Any]:
    from rouge_score.tokenizers import DefaultTokenizer

    stemmer = DefaultTokenizer(use_stemmer=True)
    words = stemmer.tokenize(text)
    pairs = ((words[i], words[j]) for i in range(len(words)) for j in range(i + 1, i + 6)
             if j < len(words))  # fmt: skip
    return Counter([*words, *pairs])


def learn(asked: Sequence[LabelledQuestion]) -> dict[int, list[float]]:
    """Weights by the fold left out (-1: none), with the intercept; ridge on both sets at once."""
    rows: dict[str, list[Any]] = {"x": [], "y": [], "w": [], "fold": []}
    for each in asked:
        if each.kind == "rehab" or (each.kind == "evidence_inference" and each.gold["rehab"]):
            continue
        if each.kind == "bioasq" and int(content_id("fitted", each.query_id)[:8], 16) % FIT_IN:
            continue
        found = candidates(each.passages)
        if not found:
            continue
        matrix = features(seen(extracting._asked(each.text, each.passages, found), found))
        values = [target(each, candidate.core) for candidate in found]
        spread = max(max(values) - min(values), 1e-9) if each.kind == "bioasq" else 1.0
        rows["x"].append(matrix)
        rows["y"].append(np.array(values) / (spread if spread > 0.05 else 1.0))
        rows["w"].append(np.full(len(found), 1 / len(found)))
        rows["fold"].append(np.full(len(found), each.fold))
    x, y, w, fold = (np.concatenate(rows[name]) for name in ("x", "y", "w", "fold"))
    return {
        left: _ridge(x[fold != left], y[fold != left], w[fold != left]) for left in range(-1, FOLDS)
    }


def _ridge(x: Any, y: Any, w: Any) -> list[float]:
    mean = np.average(x, axis=0, weights=w)
    middle = np.average(y, weights=w)
    centred = x - mean
    gram = (centred.T * w) @ centred + RIDGE * np.eye(x.shape[1])
    weights = np.linalg.solve(gram, (centred.T * w) @ (y - middle))
    return [*map(float, weights), float(middle - mean @ weights)]


def score(asked: Sequence[LabelledQuestion], pick: Pick) -> dict[str, list[float]]:
    """The figures, a value a question."""
    values: dict[str, list[float]] = {}
    for each in asked:
        choices = pick(each.text, each.passages, each.fold).choices

        def add(name: str, value: float, kind: str = each.kind) -> None:
            values.setdefault(f"{kind}.{name}", []).append(value)

        first = choices[0].text if choices else ""
        add("answered", float(bool(choices)))
        add("severed", float(any(bool(LEANS.match(c.text)) for c in choices)))
        if each.kind == "evidence_inference":
            row = each.gold
            told = _told(first, row)
            right = float(told == LABELS[row["label"]])
            add("direction", right)
            if row["evidence_in_abstract"]:
                add("direction_in_abstract", right)
                best = max(row["evidence"], key=lambda e: len(e["text"]))["text"]
                gold = _told(best, row)
                add("direction_of_gold", float(gold == LABELS[row["label"]]))
            continue
        cited = {each.documents[n - 1] for c in choices[:1] for n in c.cites}
        add("first_cites_gold", float(bool(cited & each.gold["holds"])))
        add("first_cites_document", float(bool(cited & each.gold["documents"])))
        if each.kind == "bioasq" and each.gold["ideal"]:
            text = " ".join(c.text for c in choices[:2])
            add("rouge2_first", max(rouge2(i, first) for i in each.gold["ideal"]))
            add("rouge2_two", max(rouge2(i, text) for i in each.gold["ideal"]))
            add("su4_first", max(rouge_su4(i, first) for i in each.gold["ideal"]))
    return values


def baseline(place: int) -> Pick:
    """The first (0) or last (-1) sentence of the best passage."""

    def pick(question: str, passages: Sequence[Passage], fold: int) -> Extract:
        found = split_sentences(passages[0].text, passages[0].section) if passages else []
        if not found:
            return Extract([], 0.0, [])
        return Extract([extracting.ChosenSentence(plain(found[place].text), [1])], 1.0, [])

    return pick


def fitted(weights: Mapping[int, Sequence[float]], rule: ExtractRule) -> Pick:
    """The rule with the weights that did not see the question's fold."""

    def pick(question: str, passages: Sequence[Passage], fold: int) -> Extract:
        extracting.packaged_weights = lambda: tuple(weights[fold])  # type: ignore[assignment]
        return rule(question, passages)

    return pick


def report(name: str, values: Mapping[str, Sequence[float]]) -> None:
    """Print means with 95 % intervals."""
    print(name)
    for metric, each in values.items():
        value, low, high = bootstrap_interval(np.array(each), resamples=2000)
        print(f"  {metric:<42}{value:.3f} [{low:.3f}, {high:.3f}]  n {len(each)}")


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
        row["text"]
        for row in lines(data / "bioasq" / "queries.jsonl")
        if int(content_id("fitted", row["_id"])[:8], 16) % FIT_IN == 0
    ]
    asked += [row["text"] for _, row in evidence_inference.rows(folder) if row["id"] in prompts]
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
        collect(Path(data), rest[0], rest[1], Path(rest[2]))
        return
    asked = read_all(Path(data), Path(rest[0]))
    weights = {} if command == "baselines" else learn(asked)
    if command == "fit":
        sources = ("evidence_inference/prompts.jsonl", "bioasq/answers.jsonl")
        told = {
            "features": list(FEATURES),
            "weights": [round(each, 5) for each in weights[-1][:-1]],
            "intercept": round(weights[-1][-1], 5),
            "origin": {name: file_sha256(Path(data) / name) for name in sources},
            KEY: provenance(Path(data)),
        }
        commit_json(Path(rest[1]), told)
        return
    if command == "baselines":
        report("first sentence of the top passage", score(asked, baseline(0)))
        report("last sentence of the top passage", score(asked, baseline(-1)))
        return
    report("the rule, cross-fitted", score(asked, fitted(weights, ExtractRule(min_coverage=0.0))))


if __name__ == "__main__":
    main(sys.argv[1:])
