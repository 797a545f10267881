"""`srrag evaluate bench=beir`, and of gold windows: score a ranking, and compare two."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.evaluate.retrieval import lower_is_better
from srrag.evaluate.scores import compare, figure
from srrag.experiment.rankings import Judged, read_judged
from srrag.experiment.record import Evaluated, bench_name, record, set_apart, with_windows
from srrag.experiment.systems import baseline_config, system_names
from srrag.figures import printed
from srrag.formats import write_run
from srrag.runner.progress import say


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
                f"  {name:<12}{printed(m)}"
                + (f"   p {m['p']:.4f}, Holm {m['p_holm']:.4f}" if "p" in m else "")
                + (" (lower is better)" if lower_is_better(name) else "")
                for name, m in summary[key].items()
            ]
    return "\n".join(lines) + "\n"
