"""Evaluate a part by itself: a filter, what reads mentions, or the judge of nuggets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.classification import best_threshold
from srrag.algo.significance import Values, alpha_interval, counts_intervals
from srrag.core.errors import UsageError, reading
from srrag.core.figures import measured, printed, unmeasured
from srrag.core.provenance import Fitted, overlap
from srrag.core.schema import empty_value
from srrag.core.spec import content_id
from srrag.lab.datasets import json_lines
from srrag.lab.experiment.bench import in_sample
from srrag.lab.experiment.judging import judge, judged_in, judges
from srrag.lab.experiment.running import Terms
from srrag.lab.judges.nuggets import CONTRADICTED, COVERAGE
from srrag.lab.measure.judgements import CASES
from srrag.lab.measure.pico import score_ebmnlp, score_evidence_inference
from srrag.lab.measure.scores import Figure
from srrag.lab.train.filter.judge import Scored, judge_pairs
from srrag.lab.train.filter.pairs import JudgedPairs, read_judged
from srrag.model.filter import load_filter
from srrag.runner.progress import say
from srrag.runner.summary import calls_made


def evaluate_filter(terms: Terms) -> dict[str, Any]:
    """Judge every pair of the file at the threshold that the filter in `bench.model` stores.

    Pairs of questions that it was fitted on are left out unless in_sample=allow.
    """
    path, folder = terms.path, Path(terms.bench["model"])
    if not folder.is_dir():
        raise UsageError(f"bench.model={folder}: no such folder; `srrag train_filter` makes it")
    with reading(path):
        pairs = read_judged(path)
    if not 0 < pairs.labels.sum() < len(pairs):
        raise UsageError(f"{path}: all pairs have the same label; there is nothing to tell apart")
    loaded = load_filter(folder, terms.running.place.device)
    pairs, seen = _unseen(terms.in_sample, path, pairs, loaded.facts.fitted)
    threshold = loaded.facts.decision.threshold
    probabilities = loaded.probabilities(pairs.questions, pairs.passages)
    found = judge_pairs(Scored(pairs, probabilities, threshold), terms.resamples)
    for name, each in found["metrics"].items():
        say(f"  {name:<10}{printed(each)}")
    return {
        **found,
        "in_sample_pairs": seen,
        "threshold": threshold,
        "model": str(folder),
        "revision": loaded.revision,
    }


def _unseen(
    in_sample: str, path: Path, pairs: JudgedPairs, fitted: Fitted
) -> tuple[JudgedPairs, int]:
    """Leave out pairs of questions that the filter was fitted on, and count them.

    Raises UsageError if no others are left to tell apart.
    """
    places = overlap(fitted, pairs.questions).questions
    if not fitted.known:
        say("not known what it was fitted on: evidence filter")
    if not places:
        return pairs, 0
    say(f"{len(places)} of {len(pairs)} pairs are in-sample: {in_sample}")
    if in_sample == "allow":
        return pairs, len(places)
    keep = np.ones(len(pairs), bool)
    keep[list(places)] = False
    kept = pairs.select(keep)
    if not 0 < kept.labels.sum() < len(kept):
        raise UsageError(f"{path}: the filter was fitted on these questions (in_sample=allow)")
    return kept, len(places)


SCORES: Mapping[str, Callable[..., dict[str, Any]]] = {
    "ebmnlp": score_ebmnlp,
    "evidence_inference": score_evidence_inference,
}


def evaluate_extraction(terms: Terms) -> dict[str, Any]:
    """Score the mentions of the rules, or of a tagger, on EBM-NLP or Evidence Inference prompts.

    Raises UsageError if they were fitted on a text of EBM-NLP's, unless in_sample=allow.
    """
    kind, path = str(terms.bench["kind"]), terms.path
    if not terms.by_rules:
        raise UsageError(f"engine: bench.kind={kind} scores mentions; leave engine=rules")
    mentions = terms.make("mentions")
    mentions.open(terms.running.place.threads)
    with reading(path):
        if kind == "ebmnlp" and terms.in_sample != "allow":
            check_unseen(path, mentions.fitted())
        found = SCORES[kind](path, mentions.read, **terms.resampling)
    for name, each in found["metrics"].items():
        say(f"  {name:<36}{printed(each)}")
    return {**found, "model": mentions.name}


def check_unseen(path: Path, fitted: Fitted) -> None:
    """Raise UsageError if a text to score on is one that the mentions were learned from."""
    texts = [str(row.get("text", "")) for _, row in json_lines.rows(path, "an abstract of EBM-NLP")]
    seen = overlap(fitted, (), texts).documents
    if seen:
        raise UsageError(
            f"bench.path={path}: {fitted.name} was fitted on {len(seen)} of {len(texts)} texts; "
            "in_sample=allow scores them all the same"
        )


LABELS = ("Entailment", "Neutral", "Contradiction")
_KEYS = ("id", "question", "answer", "nugget", "label", "votes")
Bools = npt.NDArray[np.bool_]


def read_nli(path: Path) -> list[dict[str, Any]]:
    """Read pairs of an answer and a nugget with physicians' votes; ValueError names the line."""
    rows = []
    for place, row in json_lines.rows(path, "a judged pair", _KEYS):
        votes = row["votes"] if isinstance(row["votes"], list) else [None]
        if not all(label in LABELS for label in (row["label"], *votes)):
            raise ValueError(f"{place}: not a judged pair (labels are {', '.join(LABELS)})")
        rows.append(row)
    if not rows:
        raise ValueError(f"{path}: there is no judged pair")
    return rows


def nli_cases(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Turn the pairs of each answer into a row of CASES with all of their nuggets."""
    blank = {item.name: empty_value(item.type) for item in CASES if item.name != "reject"}
    cases: dict[str, dict[str, Any]] = {}
    for row in rows:
        case = cases.setdefault(
            _answer(row),
            blank
            | {"query_id": _answer(row), "text": row["question"], "answer": row["answer"]}
            | {"missing": "" if row["answer"].strip() else "empty", "nuggets": [], "reject": None},
        )
        case["nuggets"].append({"text": row["nugget"], "importance": "okay"})
    return pa.Table.from_pylist([*cases.values()], schema=CASES)


def verdicts(rows: Sequence[Mapping[str, Any]], judged: pa.Table) -> dict[str, str]:
    """Return the label that the judge of nuggets gave each pair; pairs without one are absent.

    Physicians call entailed what is stated in its main part: of 62 nuggets that a capable model
    called partly stated, 43 are.
    """
    found: dict[tuple[str, str], str] = {}
    for row in judged.to_pylist():
        pair = row["query_id"], row["item"]
        if row["reject"] is not None:
            continue
        if row["metric"] == COVERAGE.name:
            found.setdefault(pair, "Entailment" if row["value"] else "Neutral")
        elif row["metric"] == CONTRADICTED.name and row["value"]:
            found[pair] = "Contradiction"
    pairs = {row["id"]: (_answer(row), row["nugget"]) for row in rows}
    return {name: found[pair] for name, pair in pairs.items() if pair in found}


def _answer(row: Mapping[str, Any]) -> str:
    """What identifies an answer: several pairs may share it."""
    return content_id(row["question"], row["answer"])


def agreement(
    rows: Sequence[Mapping[str, Any]], given: Mapping[str, str], *, resamples: int, seed: int
) -> dict[str, Any]:
    """Measure a judge's agreement with the physicians' majority; a missing verdict counts as wrong.

    `metrics` are accuracy over the three labels; accuracy, precision, recall and F1 of Entailment;
    Krippendorff's nominal α between judge and majority, and among the physicians, all with
    intervals over questions.
    """
    labels = [str(row["label"]) for row in rows]
    questions = [str(row["question"]) for row in rows]
    said = [given.get(row["id"], "") for row in rows]
    gold = np.array([label == "Entailment" for label in labels])
    # A missing verdict is wrong whatever the gold is; "not entailed" would be a verdict.
    found = [label == "Entailment" for label in said]
    entailed = np.where([bool(label) for label in said], found, ~gold)
    judges = np.array([[_code(label) for label in side] for side in (said, labels)])
    if not any(said):
        judges[0] = np.nan  # nobody judged: there is no agreement to measure
    votes = [[_code(vote) for vote in row["votes"]] for row in rows]
    width = max(map(len, votes))
    physicians = np.array([[*each, *[np.nan] * (width - len(each))] for each in votes]).T
    resampling = {"resamples": resamples, "seed": seed}
    same = np.array([a == b for a, b in zip(said, labels, strict=True)])
    (accuracy_3,) = counts_intervals(
        _by_question(questions, np.ones(len(same)), same), _share, **resampling
    ).values()
    return {
        "pairs": len(rows),
        "failed": sum(not label for label in said),
        "metrics": {
            "accuracy_3": measured(accuracy_3, len(set(questions))),
            **binary(gold, entailed, questions, **resampling),
            "alpha": _alpha(judges, questions, resamples, seed),
            "alpha_physicians": _alpha(physicians, questions, resamples, seed),
        },
    }


def binary(
    gold: Bools, found: Bools, questions: Sequence[str], *, resamples: int, seed: int
) -> dict[str, Figure]:
    """Accuracy, precision, recall and F1 of the positive class; 0 where undefined.

    The bootstrap draws the questions, each with all its pairs.
    """
    columns = np.ones(len(gold)), gold == found, gold & found, found, gold
    counts = _by_question(questions, *columns)
    drawn = counts_intervals(counts, _binary, resamples=resamples, seed=seed)
    return {name: measured(each, len(counts)) for name, each in drawn.items()}


def _by_question(questions: Sequence[str], *columns: npt.NDArray[Any]) -> Values:
    """Sum columns of pairs by question: (questions, columns)."""
    names, codes = np.unique(np.asarray(questions), return_inverse=True)
    counts = np.zeros((len(names), len(columns)))
    np.add.at(counts, codes, np.stack(columns, axis=1).astype(np.float64))
    return counts


def _share(sums: Values) -> dict[str, Values]:
    return {"share": sums[:, 1] / sums[:, 0]}


def _binary(sums: Values) -> dict[str, Values]:
    """Figures of sums (n, 5): pairs, right ones, hits, found, gold."""
    pairs, right, hits, found, gold = sums.T
    return {
        "accuracy": right / pairs,
        "precision": hits / np.maximum(1.0, found),
        "recall": hits / np.maximum(1.0, gold),
        "F1": 2 * hits / np.maximum(1.0, gold + found),
    }


def _code(label: str) -> float:
    """Return a label's number; a missing verdict gets a number that no physician uses."""
    return float(LABELS.index(label)) if label else float(len(LABELS))


def _alpha(
    ratings: npt.NDArray[np.float64], questions: Sequence[str], resamples: int, seed: int
) -> dict[str, Any]:
    try:
        found = alpha_interval(ratings, groups=questions, resamples=resamples, seed=seed)
    except ValueError as error:
        return unmeasured(str(error), len(set(questions)))
    return measured(found, len(set(questions)))


_NUGGETS = "nuggets"
"""The step of `bench.judges` that reads the verdicts which are measured."""


def evaluate_nli(terms: Terms) -> dict[str, Any]:
    """Compare the verdicts of the judge of nuggets, of a cosine and of a constant with votes.

    Pairs of questions that the judge was tuned on are kept apart unless in_sample=allow. Raises
    UsageError if no others are left, or if these have one label.
    """
    path, resampling = terms.path, terms.resampling
    with reading(path):
        rows = read_nli(path)
    pairs, steps = len(rows), judges(terms.bench["judges"])
    store = judged_in(terms.root, terms.out)
    judged, usage = judge(store, terms.running, nli_cases(rows), steps)
    given = verdicts(rows, judged[_NUGGETS])
    asked = [{"query_id": row["id"], "text": row["question"]} for row in rows]
    seen = in_sample(steps.values(), asked, terms.in_sample)
    apart = [row for row in rows if row["id"] in seen.apart]
    rows = [row for row in rows if row["id"] not in seen.apart]
    if not rows:
        raise UsageError(f"{path}: every pair is {seen.reason}")
    found, others = agreement(rows, given, **resampling), _others(terms, rows)
    most = max(each["metrics"]["F1"]["value"] for each in others.values())
    summary = {
        "judge": terms.judge,
        **found,
        "in_sample": agreement(apart, given, **resampling) if apart else None,
        **others,
        "fit": found["metrics"]["F1"]["value"] > most,
        **calls_made({"judge": usage}, pairs),
        "ok": found["failed"] < found["pairs"],
    }
    say(readable(summary))
    return summary


def _others(terms: Terms, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What a cosine at its best threshold, and who calls all entailed, reach on the same pairs."""
    gold = np.array([row["label"] == "Entailment" for row in rows])
    if gold.all() or not gold.any():
        raise UsageError(f"{terms.path}: all pairs have the same label; nothing to tell apart")
    cosines = _cosines(terms, rows)
    threshold = best_threshold(gold.astype(np.float64), cosines)
    questions = [str(row["question"]) for row in rows]
    best = binary(gold, cosines >= threshold, questions, **terms.resampling)
    constant = binary(gold, np.ones_like(gold), questions, **terms.resampling)
    return {
        "cosine_best": {"threshold": round(threshold, 4), "metrics": best},
        "always_entailed": {"metrics": constant},
    }


def readable(summary: Mapping[str, Any]) -> str:
    """Format the figures for a terminal."""
    lines = [f"{summary['pairs']} pairs, {summary['failed']} without a verdict"]
    if not summary["ok"]:
        lines += ["NO RESULT: no answer of the judge could be used"]
    sides = {summary["judge"]: summary, "cosine, its best threshold": summary["cosine_best"]}
    if summary["in_sample"]:
        sides[f"{summary['judge']}, in-sample"] = summary["in_sample"]
    sides["always entailed"] = summary["always_entailed"]
    for title, each in sides.items():
        figures = "  ".join(
            f"{name} {each['metrics'][name]['value']:.3f}"
            for name in ("accuracy", "precision", "recall", "F1")
        )
        lines.append(f"  {title:<38}{figures}")
    for name in ("alpha", "alpha_physicians"):
        lines.append(f"  {name:<38}{printed(summary['metrics'][name], 3)}")
    others = "the cosine and the constant"
    unfit = f"is unfit as a judge: its F1 does not beat {others}"
    verdict = f"beats {others}" if summary["fit"] else unfit
    return "\n".join([*lines, f"  {summary['judge']} {verdict}", ""])


def _cosines(terms: Terms, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Compute the cosine of each nugget with its answer, the baseline of the judge."""
    from srrag.model.embed import load

    at = terms.running.place
    model = load(terms.make("embedder"), at.device, at.threads)
    vectors = model.encode([text for row in rows for text in (row["answer"], row["nugget"])])
    return (vectors[::2] * vectors[1::2]).sum(axis=1)
