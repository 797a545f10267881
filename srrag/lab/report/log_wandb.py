"""Log a report to wandb: the tables as tables, the report and its results as artifacts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from srrag.lab.report.page import BenchmarkSection
from srrag.lab.report.results import Results
from srrag.llm.completion import one_line

PATIENCE_S = 20.0
"""How long wandb may take to be reached."""
UPLOAD_S = 600.0
"""How long it may take to send what was logged."""

Table = tuple[str, list[str], list[list[Any]]]


def log(
    results: Results, sections: Sequence[BenchmarkSection], out: Path, mode: bool | str
) -> dict[str, str]:
    """Log everything; returns `state` (logged, disabled, not installed, failed) and a `detail`.

    `mode` is offline or online; True takes WANDB_MODE, or offline. A failure to log leaves the
    report in `out` intact.
    """
    how: Any = os.environ.get("WANDB_MODE", "offline") if mode is True else mode
    if how == "disabled":
        return {"state": how, "detail": "WANDB_MODE=disabled"}
    try:
        import wandb
    except ImportError:
        return {"state": "not installed", "detail": "pip install 'srrag[wandb]'"}
    patience = {"init_timeout": PATIENCE_S, "finish_timeout": UPLOAD_S}
    try:
        run = wandb.init(
            project="srrag", job_type="report", dir=str(out), mode=how,
            settings=wandb.Settings(**patience, finish_timeout_raises=True, silent=True),
            config={row.name: row.model_dump(mode="json") for row in results.rows},
        )  # fmt: skip
        try:
            _log_all(wandb, run, results, sections, out)
        finally:
            run.finish()
    except Exception as error:  # wandb's own, and those of what it runs on: all mean not logged
        return {"state": "failed", "detail": one_line(error)}
    return {"state": "logged", "detail": f"{how}: {run.dir}"}


def _log_all(
    wandb: Any, run: Any, results: Results, sections: Sequence[BenchmarkSection], out: Path
) -> None:
    for name, columns, rows in tables(sections):
        run.log({name: wandb.Table(columns=columns, data=rows)})
    for kind, folder in (("report", out), ("results", results.folder)):
        artifact = wandb.Artifact(f"srrag-{kind}", type=kind)
        for path in sorted(_files(kind, folder)):
            artifact.add_file(str(path), name=str(path.relative_to(folder)))
        run.log_artifact(artifact)


def _files(kind: str, folder: Path) -> Iterator[Path]:
    names = {
        "report": ["report.html"],
        "results": ["rows.json", "*.parquet", "answers/*.parquet", "judgements/*.parquet"],
    }
    for name in names[kind]:
        yield from folder.glob(name)


def tables(sections: Sequence[BenchmarkSection]) -> Iterator[Table]:
    """Yield name, columns and rows of each table: figures, systems, failures, strata, questions."""
    rows = [row for section in sections for row in section.bench.rows]
    ends = ["value", "low", "high"]
    yield "values", ["bench", "system", "metric", *ends, "n", "failed", "reason"], [
        [row.bench, row.name, name, f.value, f.low, f.high, f.n, f.failed, f.reason]
        for row in rows
        for name, f in row.metrics.items()
    ]  # fmt: skip
    yield "differences", ["bench", "system", "baseline", "metric", *ends, "p", "p_holm"], [
        [row.bench, row.name, row.baseline, name, d.value, d.low, d.high, d.p, d.p_holm]
        for row in rows
        for name, d in row.difference.items()
    ]  # fmt: skip
    costs = ["failed", "abstained", "tokens_in", "tokens_out", "calls", "usd", "seconds"]
    yield "systems", ["bench", "system", "state", "reason", *costs, "command"], [
        [row.bench, row.name, row.state, row.reason, *(getattr(row, each) for each in costs),
         row.command]
        for row in rows
    ]  # fmt: skip
    yield "failures", ["bench", "system", "question", "stage", "reason", "detail"], [
        [row.bench, row.name, f.query_id, f.stage, f.reason, f.detail]
        for row in rows
        for f in row.failures
    ]  # fmt: skip
    yield "breakdowns", ["bench", "metric", "by", "is", "n", "system", "value", "interval"], [
        [s.bench.name, metric.name, part.kind, stratum.name, stratum.questions, row.name,
         printed.sort, printed.interval]
        for s in sections
        for metric, parts in s.breakdowns
        for part in parts
        for stratum in part.strata
        for row, printed in zip(s.bench.rows, stratum.cells, strict=True)
    ]  # fmt: skip
    yield "questions", ["bench", "system", "question", "text", "state", "value", "baseline"], [
        [s.bench.name, d.row, q.query_id, q.text, q.state, q.value, q.baseline]
        for s in sections
        for d in s.drilldowns
        for q in d.shown
    ]  # fmt: skip
