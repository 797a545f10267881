"""`srrag evaluate`: score rankings, answers, judges, and what extracts, each on a benchmark."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobs import parts
from jobs.answer import write_run
from jobs.evaluate_answers import evaluate_answers
from jobs.evaluate_filter import evaluate_filter
from jobs.evaluate_nli import evaluate_nli
from jobs.launch import UsageError, check_numbers, reading, with_pipeline
from jobs.ranked import read_judged
from jobs.record import Evaluated, bench_name, record, with_windows
from srrag.completion import Rules
from srrag.evaluate.gold import resource_path
from srrag.evaluate.retrieval import lower_is_better
from srrag.evaluate.scores import Scores, compare, figure
from srrag.runner.progress import say


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Dispatch on the kind of benchmark."""
    kind = config["bench"]["kind"]
    path = resource_path(config["bench"]["path"])
    if not path.exists():
        raise UsageError(f"bench.path={path} does not exist")
    if kind not in KINDS:
        raise UsageError(f"bench.kind={kind}: there are {', '.join(KINDS)}")
    if kind != "answers" and path.is_dir() != (kind in FOLDERS):
        wanted = "folder" if kind in FOLDERS else "file"
        raise UsageError(f"bench.path={path}: bench.kind={kind} reads a {wanted}")
    check_numbers(config, resamples=1, seed=0)
    return KINDS[kind](config, path)


def evaluate_ranking(config: dict[str, Any], path: Path) -> dict[str, Any]:
    """Rank the judged questions; a document is scored by its best window."""
    started = time.perf_counter()
    judged = read_judged(config, path)
    systems = {"pipeline": config}
    if config["baseline"]:
        systems["baseline"] = with_pipeline("evaluate", config, config["baseline"])
    resampling = {"resamples": config["resamples"], "seed": config["seed"]}
    found: dict[str, list[Scores]] = {}
    tables: dict[str, pa.Table] = {}
    kept: list[Evaluated] = []
    for name, asked in systems.items():
        began = time.perf_counter()
        pipeline = parts.make(asked["pipeline"], name)
        bound = parts.pipeline_run(asked, pipeline.ranking())
        at = bound.place(parts.place(asked))
        tables[name] = bound.run(judged.table, at)
        found[name] = judged.scores(tables[name], at)
        if config["out"] and name == "pipeline":
            run_ = judged.found(tables[name], at)
            write_documents_run(Path(config["out"]) / "run.trec", run_)
        if config["out"]:
            label = config["baseline"] if name == "baseline" else name
            windows, used = with_windows(tables[name], at), bound.usage(judged.table)
            took = time.perf_counter() - began
            kept.append(Evaluated(label, asked, windows, found[name], took, bound, used))
    summary: dict[str, Any] = {
        "questions": len(judged.qrels),
        "failed": len(tables["pipeline"]["reject"].drop_null()),
        "judged_documents_missing": judged.missing,
        "metrics": {each.metric.name: figure(each, **resampling) for each in found["pipeline"]},
    }
    if config["baseline"]:
        summary["baseline"] = config["baseline"]
        summary["baseline_metrics"] = {
            each.metric.name: figure(each, **resampling) for each in found["baseline"]
        }
        summary["difference"] = compare(found["pipeline"], found["baseline"], **resampling)
    if kept:
        relevant = {
            q: [d for d, grade in own.items() if grade > 0] for q, own in judged.qrels.items()
        }
        gold = [
            {**row, "gold": [], "relevant": relevant[row["query_id"]]}
            for row in judged.queries
            if row["query_id"] in relevant
        ]
        record(Path(config["out"]), bench_name(config), "", gold, kept, summary.get("difference"))
    summary["seconds"] = round(time.perf_counter() - started, 3)
    say(readable(summary))
    return summary


def write_documents_run(path: Path, run_: dict[str, dict[str, float]]) -> None:
    """Write the ranking of documents as a TREC run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"query_id": query, "hits": [{"unit_id": d, "score": s} for d, s in documents.items()]}
        for query, documents in run_.items()
    ]
    names = {document: document for documents in run_.values() for document in documents}
    write_run(path, rows, names, "srrag")


def evaluate_extraction(config: dict[str, Any], path: Path) -> dict[str, Any]:
    """Score the mentions of the rules, or of a tagger, on EBM-NLP or Evidence Inference prompts."""
    from srrag.evaluate.pico import score_ebmnlp, score_evidence_inference

    kind = config["bench"]["kind"]
    score = {"ebmnlp": score_ebmnlp, "evidence_inference": score_evidence_inference}
    if not isinstance(parts.make(config["engine"], "engine"), Rules):
        raise UsageError(f"engine: bench.kind={kind} scores mentions; leave engine=rules")
    mentions = parts.make(config["mentions"], "mentions")
    mentions.open(parts.place(config).threads)
    with reading(path):
        metrics = score[kind](path, mentions.read)
    for name, value in metrics.items():
        say(f"  {name:<28}{value:8.4f}")
    return {"metrics": metrics, **metrics, "model": mentions.name}


KINDS: Mapping[str, Callable[[dict[str, Any], Path], dict[str, Any]]] = {
    "beir": evaluate_ranking,
    "gold": evaluate_ranking,
    "answers": evaluate_answers,
    "nli": evaluate_nli,
    "filter": evaluate_filter,
    "ebmnlp": evaluate_extraction,
    "evidence_inference": evaluate_extraction,
}


FOLDERS = ("beir", "evidence_inference")
"""Kinds whose benchmark is a folder; answers are read from either."""


def readable(summary: dict[str, Any]) -> str:
    """The metrics, for a terminal."""
    lines = [f"{summary['questions']} questions, {summary['failed']} failed", ""]
    for title in ("metrics", "baseline_metrics", "difference"):
        if title in summary:
            lines.append(title.replace("_", " "))
            lines += [
                f"  {name:<12}{m['value']:8.4f}   [{m['low']:.4f}, {m['high']:.4f}]"
                + (f"   p {m['p']:.4f}, Holm {m['p_holm']:.4f}" if "p" in m else "")
                + (" (lower is better)" if lower_is_better(name) else "")
                for name, m in summary[title].items()
            ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    from jobs.launch import launch

    sys.exit(launch("evaluate", run, sys.argv[1:]))
