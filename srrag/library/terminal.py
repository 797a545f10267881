"""An answer in a terminal: its words as they come, then its evidence and its warnings."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from srrag.answer.answer_json import answer_json, trace_json
from srrag.answer.provenance_tree import tree
from srrag.answer.streaming import STREAMED, AnswerStream, checked_in, uncited_of
from srrag.engine.stream import listening
from srrag.errors import UsageError
from srrag.ids import content_id
from srrag.llm.completion import tallied
from srrag.model.embed import few_texts
from srrag.rerank.betr_terms import terms_of
from srrag.retrieve.questions import question_fault, question_table
from srrag.runner.engines import engines_here, engines_of
from srrag.runner.pipeline_run import PipelineRun
from srrag.runner.progress import say
from srrag.standing import mark as marked_as
from srrag.step import Place

_WIDTH = 96


def check_question(question: Any) -> str:
    """Return the question without white space at its ends; raises UsageError."""
    if fault := question_fault(question):
        raise UsageError(f"question: {fault[1]}")
    return str(question).strip()


@few_texts()
def ask_aloud(
    bound: PipelineRun, question: str, at: Place, naming: Callable[[Any], Any], *, trace: bool
) -> dict[str, Any]:
    """Answer a question, and write the answer to stderr while it comes; returns it as JSON.

    `naming` names the steps that gave nothing by their keys in the configuration. Raises
    RuntimeError if a step failed.
    """
    pipeline, at = bound.pipeline, bound.place(at)
    asked = question_table([{"query_id": content_id(question), "text": question}])
    draft = AnswerStream(wrapped(), uncited_of(pipeline), checked_in(pipeline), _tell_finding)
    say(f"\n{textwrap.fill(question, _WIDTH)}\n")
    with (
        engines_here(engines_of([pipeline]), at, exclusive=False) as engines,
        tallied() as usage,
        listening(draft, *STREAMED),
    ):
        row = pipeline.open(replace(at, clients=engines.clients))(asked).to_pylist()[0]
    if row["reject"] is not None:
        raise RuntimeError(f"{row['reject']['stage']}: {row['reject']['detail']}")
    summary = answer_json(row)
    summary["degraded"] = naming(summary["degraded"])
    draft.finish(row["answer"])
    say(readable(summary))
    if off := pipeline.left_out:
        summary["off"] = off
        say(f"Off with engine=rules: {', '.join(off)}.\n")
    if trace:
        summary["trace"] = trace_json(row, terms_of(pipeline))
        say(tree(summary["trace"]))
    summary["usage"] = usage.as_dict()
    return summary


def _tell_finding(finding: dict[str, Any]) -> None:
    """Say what a paper says, while the answer is still written."""
    say(textwrap.fill(f"· {finding['text']} [{finding['number']}]", _WIDTH, subsequent_indent="  "))


def wrapped() -> Callable[[str], None]:
    """Streams text to stderr, in lines that fit a terminal."""
    column = 0

    def write(text: str) -> None:
        nonlocal column
        for word in re.findall(r"\n|\S+[^\S\n]?|[^\S\n]", text):
            if column and column + len(word.rstrip()) > _WIDTH:
                print(file=sys.stderr)
                column = 0
            print(word, end="", file=sys.stderr, flush=True)
            column = 0 if word == "\n" else column + len(word)

    return write


def readable(summary: dict[str, Any]) -> str:
    """Format what follows an answer in a terminal: its warnings, then its graded evidence."""
    lost = [f"{each['step']} gave nothing. {each['fault']}" for each in summary["degraded"]]
    names = ("standing_note", "notice", "missing", "note", "support_note")
    lines = ["\n"]
    for said in filter(None, (*(summary.get(name) for name in names), *lost)):
        lines += [textwrap.fill(f"Note: {said}", _WIDTH), ""]
    cited = {number for item in summary["sentences"] for number in item["citations"]}
    for item in summary["evidence"]:
        mark = "*" if item["number"] in cited else " "
        source = item["pmid"] or item["source_id"]
        head = f"[{item['number']}] grade {item['grade'] or '–'}  {item['title']} ({source}"
        head += f", {item['year']})" if item["year"] else ")"
        if told := marked_as(item):
            head = f"[{item['number']}] {told.upper()} {head.partition('] ')[2]}"
        lines.append(mark + textwrap.shorten(head, _WIDTH - 1, placeholder=" …"))
    lines += ["", f"* cited. Written by: {summary['model']}. Not medical advice.", ""]
    return "\n".join(lines)
