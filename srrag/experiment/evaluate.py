"""Score rankings, answers, judges, and what extracts, each on a benchmark of its kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.errors import UsageError, check_numbers, reading
from srrag.evaluate.datasets import json_lines
from srrag.evaluate.references import resource_path
from srrag.evaluate.retrieval import lower_is_better
from srrag.evaluate.scores import compare, figure
from srrag.experiment.answers import evaluate_answers
from srrag.experiment.filter import evaluate_filter
from srrag.experiment.linking import evaluate_linking
from srrag.experiment.near_topic import evaluate_near_topic
from srrag.experiment.nli import evaluate_nli
from srrag.experiment.rankings import Judged, read_judged
from srrag.experiment.record import Evaluated, bench_name, record, set_apart, with_windows
from srrag.experiment.systems import baseline_config, system_names
from srrag.experiment.textbook import evaluate_textbook, evaluate_tree
from srrag.figures import printed
from srrag.formats import write_run
from srrag.llm.completion import Rules
from srrag.provenance import Fitted, overlap
from srrag.runner.progress import say


def evaluate(config: dict[str, Any]) -> dict[str, Any]:
    """Dispatch on the kind of benchmark; raises UsageError for one that cannot be read."""
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
    name, against = system_names(config)
    systems = [_ranked(config, "pipeline", name, judged)]
    if against:
        systems.append(_ranked(baseline_config(config), "baseline", against, judged))
    resampling = {"resamples": config["resamples"], "seed": config["seed"]}
    systems, seen = set_apart(systems, judged.queries, config["in_sample"])
    figures = [
        {each.metric.name: figure(each, **resampling) for each in system.scores}
        for system in systems
    ]
    summary: dict[str, Any] = {
        "system": name,
        "questions": len(judged.queries),
        "without_gold": judged.without_gold,
        "failed": len(systems[0].table["reject"].drop_null()),
        "judged_documents_missing": judged.missing,
        "metrics": figures[0],
        "in_sample": seen.stated(systems[0].apart, **resampling).model_dump(),
    }
    if against:
        pair = systems[0].scores, systems[1].scores
        summary |= {"baseline": against, "baseline_metrics": figures[1]}
        summary["difference"] = compare(*pair, **resampling)
    if config["out"]:
        gold = [
            {**row, "gold": [], "relevant": judged.relevant(row["query_id"])}
            for row in judged.queries
        ]
        compared = summary.get("difference")
        record(Path(config["out"]), bench_name(config), "", gold, systems, compared)
    summary["seconds"] = round(time.perf_counter() - started, 3)
    say("\n".join([*seen.said(), readable(summary)]))
    return summary


def _ranked(config: dict[str, Any], role: str, name: str, judged: Judged) -> Evaluated:
    """Rank by the pipeline of a configuration; with `out=` the first one's ranking is a run too."""
    began, out = time.perf_counter(), config["out"]
    pipeline = factory.make(config["pipeline"], role)
    bound = factory.pipeline_run(config, pipeline.ranking())
    at = bound.place(factory.place(config))
    table = bound.run(judged.table, at)
    scores = judged.scores(table, at)
    if out and role == "pipeline":
        write_documents_run(Path(out) / "run.trec", judged.found(table, at))
    kept = with_windows(table, at) if out else table
    took = time.perf_counter() - began
    return Evaluated(name, config, kept, scores, took, bound, bound.usage(judged.table))


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
    if not isinstance(factory.make(config["engine"], "engine"), Rules):
        raise UsageError(f"engine: bench.kind={kind} scores mentions; leave engine=rules")
    mentions = factory.make(config["mentions"], "mentions")
    mentions.open(factory.place(config).threads)
    with reading(path):
        if kind == "ebmnlp":
            check_unseen(config, path, mentions.fitted())
        resampling = {"resamples": config["resamples"], "seed": config["seed"]}
        found = score[kind](path, mentions.read, **resampling)
    for name, each in found["metrics"].items():
        say(f"  {name:<36}{printed(each)}")
    return {**found, "model": mentions.name}


def check_unseen(config: dict[str, Any], path: Path, fitted: Fitted) -> None:
    """Raise UsageError if a text to score on is one that the mentions were learned from."""
    texts = [str(row.get("text", "")) for _, row in json_lines.rows(path)]
    seen = overlap(fitted, (), texts).documents
    if seen and config["in_sample"] != "allow":
        raise UsageError(
            f"bench.path={path}: {fitted.name} was fitted on {len(seen)} of {len(texts)} texts; "
            "in_sample=allow scores them all the same"
        )


KINDS: Mapping[str, Callable[[dict[str, Any], Path], dict[str, Any]]] = {
    "beir": evaluate_ranking,
    "gold": evaluate_ranking,
    "answers": evaluate_answers,
    "nli": evaluate_nli,
    "filter": evaluate_filter,
    "linking": evaluate_linking,
    "near_topic": evaluate_near_topic,
    "textbook": evaluate_textbook,
    "textbook_tree": evaluate_tree,
    "ebmnlp": evaluate_extraction,
    "evidence_inference": evaluate_extraction,
}


FOLDERS = ("beir", "evidence_inference", "linking", "near_topic", "textbook", "textbook_tree")
"""Kinds whose benchmark is a folder; answers are read from either."""


def readable(summary: dict[str, Any]) -> str:
    """The metrics, for a terminal."""
    counted = f"{summary['questions']} questions, {summary['failed']} failed"
    if lost := summary["without_gold"]:
        counted += f", without gold {lost}: left out"
    lines = [counted, ""]
    system, baseline = summary["system"], summary.get("baseline")
    titles = {"metrics": system, "baseline_metrics": baseline}
    for key, title in (titles | {"difference": f"{system} - {baseline}"}).items():
        if key in summary:
            lines.append(title)
            lines += [
                f"  {name:<12}{m['value']:8.4f}   [{m['low']:.4f}, {m['high']:.4f}]"
                + (f"   p {m['p']:.4f}, Holm {m['p_holm']:.4f}" if "p" in m else "")
                + (" (lower is better)" if lower_is_better(name) else "")
                for name, m in summary[key].items()
            ]
    return "\n".join(lines) + "\n"
