"""`srrag evaluate bench=beir`, and of gold windows: score a ranking, and compare two."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from srrag.core.figures import printed
from srrag.core.formats import write_run
from srrag.lab.experiment.rankings import Judged, read_judged
from srrag.lab.experiment.record import Evaluated, record, set_apart, with_windows
from srrag.lab.experiment.systems import System
from srrag.lab.experiment.terms import Terms
from srrag.lab.measure.retrieval import lower_is_better
from srrag.lab.measure.scores import compare, figure
from srrag.runner.progress import say


def evaluate_ranking(terms: Terms, compared: Sequence[System]) -> dict[str, Any]:
    """Rank the judged questions; a document is scored by its best window."""
    started = time.perf_counter()
    judged = read_judged(terms.bench, terms.path, terms.root, terms.build)
    runs = (terms.out and terms.out / "run.trec", None)
    systems = [_ranked(terms, *each, judged) for each in zip(compared, runs, strict=False)]
    resampling = terms.resampling
    systems, seen = set_apart(systems, judged.queries, terms.in_sample)
    figures = [
        {each.metric.name: figure(each, **resampling) for each in system.scores}
        for system in systems
    ]
    summary: dict[str, Any] = {
        "system": systems[0].name,
        "questions": len(judged.queries),
        "without_gold": judged.without_gold,
        "failed": len(systems[0].table["reject"].drop_null()),
        "judged_documents_missing": judged.missing,
        "metrics": figures[0],
        "in_sample": seen.stated(systems[0].apart, **resampling).model_dump(),
    }
    if len(systems) > 1:
        pair = systems[0].scores, systems[1].scores
        summary |= {"baseline": systems[1].name, "baseline_metrics": figures[1]}
        summary["difference"] = compare(*pair, **resampling)
    if terms.out:
        gold = [
            {**row, "gold": [], "relevant": judged.relevant(row["query_id"])}
            for row in judged.queries
        ]
        difference = summary.get("difference")
        record(terms.out, terms.name, "", gold, systems, difference, **resampling)
    summary["seconds"] = round(time.perf_counter() - started, 3)
    say("\n".join([*seen.said(), readable(summary)]))
    return summary


def _ranked(terms: Terms, system: System, run: Path | None, judged: Judged) -> Evaluated:
    """Rank by the pipeline of a system, and write its ranking to `run`, if that is given."""
    began = time.perf_counter()
    bound = terms.running.bound(terms.root, terms.build, system.make().ranking())
    at = bound.place(terms.running.place)
    table = bound.run(judged.table, at)
    scores = judged.scores(table, at)
    if run is not None:
        write_documents_run(run, judged.found(table, at))
    kept = with_windows(table, at) if terms.out else table
    took, usage = time.perf_counter() - began, bound.usage(judged.table)
    return Evaluated(system.name, system.overrides, kept, scores, took, bound, usage)


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
