"""`srrag evaluate`: score rankings, answers, judges, and what extracts, each on a benchmark."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from jobs import parts
from jobs.answer import read_queries, write_run
from jobs.evaluate_answers import evaluate_answers
from jobs.evaluate_filter import evaluate_filter
from jobs.evaluate_nli import evaluate_nli
from jobs.launch import UsageError, with_pipeline
from srrag.algo.intervals import bootstrap_interval
from srrag.algo.significance import mcnemar_exact, paired_bootstrap
from srrag.completion import Rules
from srrag.evaluate.gold import (
    must_have,
    quote_windows,
    read_gold,
    resource_path,
    window_qrels,
)
from srrag.evaluate.retrieval import LOWER_IS_BETTER, Qrels, coverage, per_question, read_qrels
from srrag.evaluate.scores import correct, rounded
from srrag.evaluate.split import questions_of
from srrag.index.units import Units, open_units
from srrag.pipeline import Pipeline
from srrag.retrieve.hits import unpack_hits
from srrag.retrieve.questions import question_table
from srrag.runner.progress import say
from srrag.store import Store

Metrics = dict[str, dict[str, float]]


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Dispatch on the kind of benchmark."""
    kind = config["bench"]["kind"]
    path = resource_path(config["bench"]["path"])
    if not path.exists():
        raise UsageError(f"bench.path={path} does not exist")
    if kind in ("answers", "nli"):
        return (evaluate_answers if kind == "answers" else evaluate_nli)(config, path)
    if kind == "filter":
        return evaluate_filter(config, path)
    if kind not in ("beir", "gold"):
        return evaluate_extraction(config, kind, path)
    if config["root"] is None:
        raise UsageError(f"root= is missing: bench.kind={kind} ranks a finished build's windows")
    if kind == "beir":
        qrels = read_qrels(path / "qrels" / f"{config['bench']['split']}.tsv")
        return evaluate_ranking(config, qrels, list(read_queries(path / "queries.jsonl")), False)
    store = Store(config["root"])
    questions = questions_of(read_gold(path), config["bench"].get("split"))
    units = Units(store.artifacts(config["build"])["units"])
    statements = must_have(quote_windows(questions, units))
    return evaluate_ranking(config, window_qrels(questions, units), questions, True, statements)


def evaluate_ranking(
    config: dict[str, Any],
    qrels: Qrels,
    queries: list[dict[str, Any]],
    by_window: bool,
    statements: dict[str, list[list[str]]] | None = None,
) -> dict[str, Any]:
    """Rank the judged questions; a document is scored by its best window.

    `statements` are, by question, the windows of each statement that an answer has to make.
    """
    started = time.perf_counter()
    unknown = sorted(qrels.keys() - {row["query_id"] for row in queries})
    if unknown:
        raise UsageError(
            f"bench.path: {len(unknown)} of {len(qrels)} judged queries are not in queries.jsonl; "
            f"the first: {unknown[0]!r}"
        )
    missing = 0 if by_window else missing_documents(config, qrels)
    questions = question_table(row for row in queries if row["query_id"] in qrels)
    systems = {"pipeline": config}
    if config["baseline"]:
        systems["baseline"] = with_pipeline("evaluate", config, config["baseline"])
    values, runs, failed = {}, {}, {}
    for name, asked in systems.items():
        pipeline = parts.make(asked["pipeline"], name)
        runs[name], failed[name] = rank(asked, pipeline, questions, by_window)
        values[name] = per_question(qrels, runs[name])
        if statements:
            values[name]["coverage@10"] = coverage(statements, runs[name])
    if config["out"]:
        write_documents_run(Path(config["out"]) / "run.trec", runs["pipeline"])
    summary: dict[str, Any] = {
        "questions": len(qrels),
        "failed": failed["pipeline"],
        "judged_documents_missing": missing,
        "metrics": intervals(values["pipeline"], config),
    }
    if config["baseline"]:
        summary["baseline"] = config["baseline"]
        summary["baseline_metrics"] = intervals(values["baseline"], config)
        summary["difference"] = differences(values["pipeline"], values["baseline"], config)
    summary["seconds"] = round(time.perf_counter() - started, 3)
    say(readable(summary))
    return summary


def missing_documents(config: dict[str, Any], qrels: Qrels) -> int:
    """How many judged documents the build lacks; raises UsageError if it lacks them all."""
    units = Units(Store(config["root"]).artifacts(config["build"])["units"])
    judged = {document for documents in qrels.values() for document in documents}
    missing = judged - set(units.documents["source_id"].to_pylist())
    if missing == judged:
        raise UsageError(
            f"root={config['root']} holds none of the documents that bench.path judges"
        )
    return len(missing)


def rank(
    config: dict[str, Any], pipeline: Pipeline, questions: pa.Table, by_window: bool
) -> tuple[dict[str, dict[str, float]], int]:
    """The documents (or windows) of each question with scores, and how many questions failed."""
    bound = parts.pipeline_run(config, pipeline.ranking())
    at = parts.place(config)
    table = bound.run(questions, at)
    unit_ids, _, offsets = unpack_hits(table["hits"])
    documents = unit_ids.to_pylist()
    if not by_window:
        documents = open_units(bound.place(at)).document_keys(documents).to_pylist()
    found: dict[str, dict[str, float]] = {}
    for row, query_id in enumerate(table["query_id"].to_pylist()):
        ranked = dict.fromkeys(documents[offsets[row] : offsets[row + 1]])
        # Scored by rank: judges break ties of scores by document id, which is not our order.
        found[query_id] = {document: 1.0 / n for n, document in enumerate(ranked, start=1)}
    return found, table["reject"].length() - table["reject"].null_count


def intervals(values: dict[str, np.ndarray[Any, Any]], config: dict[str, Any]) -> Metrics:
    """Each metric's mean with its 95 % bootstrap interval."""
    out = {}
    for name, sample in values.items():
        value, low, high = bootstrap_interval(
            sample, resamples=config["resamples"], seed=config["seed"]
        )
        out[name] = {"value": round(value, 4), "low": round(low, 4), "high": round(high, 4)}
    return out


def differences(
    ours: dict[str, np.ndarray[Any, Any]],
    theirs: dict[str, np.ndarray[Any, Any]],
    config: dict[str, Any],
) -> Metrics:
    """Each metric's paired difference with p-value, alone and corrected for their number."""
    out = {}
    for name, sample in ours.items():
        value, low, high, p = paired_bootstrap(
            sample, theirs[name], resamples=config["resamples"], seed=config["seed"]
        )
        out[name] = {"value": round(value, 4), **rounded(low, high), "p": p}
        if np.isin([sample, theirs[name]], (0.0, 1.0)).all():
            out[name]["p_mcnemar"] = mcnemar_exact(sample == 1, theirs[name] == 1)
    correct(out)
    return out


def write_documents_run(path: Path, run_: dict[str, dict[str, float]]) -> None:
    """Write the ranking of documents as a TREC run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"query_id": query, "hits": [{"unit_id": d, "score": s} for d, s in documents.items()]}
        for query, documents in run_.items()
    ]
    names = {document: document for documents in run_.values() for document in documents}
    write_run(path, rows, names, "srrag")


def evaluate_extraction(config: dict[str, Any], kind: str, path: Path) -> dict[str, Any]:
    """Score the mentions of the rules, or of a tagger, on EBM-NLP or Evidence Inference prompts."""
    from srrag.evaluate.pico import score_ebmnlp, score_evidence_inference

    score = {"ebmnlp": score_ebmnlp, "evidence_inference": score_evidence_inference}
    if kind not in score:
        raise UsageError(f"bench.kind={kind}: there are beir, {', '.join(score)}")
    if not isinstance(parts.make(config["engine"], "engine"), Rules):
        raise UsageError(f"engine: bench.kind={kind} scores mentions; leave engine=rules")
    mentions = parts.make(config["mentions"], "mentions")
    mentions.open(parts.place(config).threads)
    metrics = score[kind](path, mentions.read)
    for name, value in metrics.items():
        say(f"  {name:<28}{value:8.4f}")
    return {"metrics": metrics, **metrics, "model": mentions.name}


def readable(summary: dict[str, Any]) -> str:
    """The metrics, for a terminal."""
    lines = [f"{summary['questions']} questions, {summary['failed']} failed", ""]
    for title in ("metrics", "baseline_metrics", "difference"):
        if title in summary:
            lines.append(title.replace("_", " "))
            lines += [
                f"  {name:<12}{m['value']:8.4f}   [{m['low']:.4f}, {m['high']:.4f}]"
                + (f"   p {m['p']:.4f}, Holm {m['p_holm']:.4f}" if "p" in m else "")
                + (" (lower is better)" if name in LOWER_IS_BETTER else "")
                for name, m in summary[title].items()
            ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    from jobs.launch import launch

    sys.exit(launch("evaluate", run, sys.argv[1:]))
