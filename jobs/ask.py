"""`srrag ask question=…`: one question through a pipeline, with graded citations."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from typing import Any

from jobs import parts
from jobs.launch import UsageError
from srrag.completion import tallied
from srrag.ids import content_id
from srrag.pipeline import Pipeline
from srrag.retrieve.questions import question_fault, question_table
from srrag.runner.engines import engines_here, engines_of
from srrag.runner.progress import say

_WIDTH = 96


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Answer `question` from the build in `root`."""
    fault = question_fault(config["question"])
    if fault:
        raise UsageError(f"question: {fault[1]}")
    pipeline: Pipeline = parts.make(config["pipeline"], "pipeline")
    bound = parts.pipeline_run(config, pipeline)
    text = config["question"].strip()
    questions = question_table([{"query_id": content_id(text), "text": text}])
    at = bound.place(parts.place(config))
    with engines_here(engines_of([pipeline]), at, exclusive=False) as engines, tallied() as usage:
        row = pipeline.open(replace(at, clients=engines.clients))(questions).to_pylist()[0]
    if row["reject"] is not None:
        raise RuntimeError(f"{row['reject']['stage']}: {row['reject']['detail']}")
    summary = answer_json(row)
    say(readable(summary))
    summary["usage"] = usage.as_dict()
    return summary


def answer_json(row: dict[str, Any]) -> dict[str, Any]:
    """A row of ANSWERS as one reads it in JSON: citations resolved to evidence numbers."""
    numbers = {item["evidence_id"]: n for n, item in enumerate(row["evidence"], start=1)}
    return {
        "question": row["text"],
        "answer": row["answer"],
        "insufficient": row["insufficient"],
        "note": row["answer_note"],
        "model": row["model"],
        "sentences": [
            {
                "text": sentence["text"],
                "citations": [numbers[item] for item in sentence["evidence_ids"]],
            }
            for sentence in row["sentences"]
        ],
        "evidence": [{"number": numbers[item["evidence_id"]], **item} for item in row["evidence"]],
        "trace": [
            {"step": item["step"], "ms": round(1000 * item["seconds"], 2)} for item in row["trace"]
        ],
    }


def readable(summary: dict[str, Any]) -> str:
    """The answer and its graded evidence, for a terminal."""
    lines = ["", textwrap.fill(summary["question"], _WIDTH), ""]
    for paragraph in summary["answer"].split("\n\n"):
        lines += [textwrap.fill(paragraph, _WIDTH), ""]
    cited = {number for item in summary["sentences"] for number in item["citations"]}
    for item in summary["evidence"]:
        mark = "*" if item["number"] in cited else " "
        source = item["pmid"] or item["source_id"]
        head = f"[{item['number']}] grade {item['grade'] or '–'}  {item['title']} ({source}"
        head += f", {item['year']})" if item["year"] else ")"
        lines.append(mark + textwrap.shorten(head, _WIDTH - 1, placeholder=" …"))
    lines += ["", f"* cited. Written by: {summary['model']}. Not medical advice.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    from jobs.launch import launch

    sys.exit(launch("ask", run, sys.argv[1:]))
