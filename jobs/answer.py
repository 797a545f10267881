"""`srrag answer queries=FILE`: a batch of questions → ANSWERS, a TREC run, BioGen JSON."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from srrag.answer.record import AnswerRecord
from srrag.config import factory
from srrag.config.factory import step_keys
from srrag.core.errors import UsageError
from srrag.core.formats import read_queries, write_lines, write_run
from srrag.core.hits import unpack_hits
from srrag.core.schema import STATES
from srrag.core.units import open_units
from srrag.export.submission import submission
from srrag.lab.experiment.answers import lost_steps, support_counts
from srrag.lab.experiment.estimate import estimate
from srrag.llm.completion import LOST
from srrag.retrieve.questions import question_table
from srrag.runner.progress import say
from srrag.runner.summary import calls_made
from srrag.storage.atomic_write import commit, commit_json, write_parquet


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Answer every question of `queries`, reusing stored answers.

    The job writes all files, then fails if more than `max_failed_share` of the questions failed.
    """
    started = time.perf_counter()
    asked = list(read_queries(path := Path(config["queries"])))
    if not asked:
        raise UsageError(f"queries={path}: there is no question")
    questions = question_table(asked)
    pipeline = factory.answering(config)
    bound = factory.pipeline_run(config, pipeline)
    at = factory.place(config)
    if config["estimate"]:
        return estimate({"answers": bound}, questions, at)
    # A failed helping step costs no answer, so only failed questions count towards the limit.
    at = bound.place(replace(at, account=replace(at.account, max_lost_share=1.0)))
    answers = bound.run(questions, at)
    out = Path(config["out"])
    rows = answers.to_pylist()
    alive = [row for row in rows if row["reject"] is None]
    commit(out / "answers.parquet", lambda path: write_parquet(answers, path))
    write_lines(
        out / "answers.jsonl",
        ({"query_id": r["query_id"], **AnswerRecord.of(r).json} for r in alive),
    )
    made = submission(alive, config["team"], config["run_name"])
    commit_json(out / "biogen.json", made.entries)
    unit_ids, _, _ = unpack_hits(answers["hits"])
    sources = open_units(at).document_keys(unit_ids.to_pylist()).to_pylist()
    names = dict(zip(unit_ids.to_pylist(), sources, strict=True))
    write_run(out / "run.trec", alive, names, config["run_name"])
    failed = len(rows) - len(alive)
    most = config["max_failed_share"]
    if lost := sum(row["reject"] is not None and row["reject"]["reason"] in LOST for row in rows):
        say(f"{lost} of {len(rows)} questions got no usable answer; retry_failed=true asks again")
    if too_many := failed > most * len(rows):
        say(f"{failed} of {len(rows)} questions failed; max_failed_share is {most:g}")
    return {
        "ok": not too_many,
        "questions": len(rows),
        **{state: sum(row["state"] == state for row in alive) for state in STATES},
        "failed": failed,
        **support_counts(alive),
        "degraded": lost_steps(alive, step_keys(config["pipeline"])),
        "failures": [
            {"query_id": row["query_id"], **row["reject"]} for row in rows if row["reject"]
        ][:20],
        "engines": list(pipeline.engines),
        **calls_made({"answers": bound.usage(questions)}, len(rows)),
        "seconds": round(time.perf_counter() - started, 3),
        "out": str(out),
    }
