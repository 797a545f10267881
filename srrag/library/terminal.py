"""An answer in a terminal: its words as they come, then its evidence and its warnings."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from srrag.answer.provenance import tree
from srrag.answer.record import AnswerRecord, beside, written_by
from srrag.answer.write.cited import STREAMED, AnswerStream, checked_in
from srrag.core.errors import UsageError
from srrag.core.pipeline import build_version
from srrag.core.spec import content_id
from srrag.core.step import Place
from srrag.core.units import open_units
from srrag.engine.base import listening
from srrag.llm.completion import tallied
from srrag.model.embed import few_texts
from srrag.rerank.betr import terms_of
from srrag.retrieve.questions import question_fault, question_table
from srrag.runner.engines import engines_here, engines_of
from srrag.runner.pipeline_run import PipelineRun
from srrag.runner.progress import say

_WIDTH = 96
Row = dict[str, Any]


def check_question(question: Any) -> str:
    """Return the question without white space at its ends; raises UsageError."""
    if fault := question_fault(question):
        raise UsageError(f"question: {fault[1]}")
    return str(question).strip()


@few_texts()
def ask_aloud(
    bound: PipelineRun,
    question: str,
    at: Place,
    naming: Callable[[Row], Row],
    *,
    name: str,
    trace: bool,
) -> AnswerRecord:
    """Answer a question by the pipeline of this name, and write the answer to stderr as it comes.

    `naming` changes the row, so that its faults name keys of the configuration. Raises
    RuntimeError if a step failed.
    """
    pipeline, at = bound.pipeline, bound.place(at)
    asked = question_table([{"query_id": content_id(question), "text": question}])
    draft = AnswerStream(wrapped(), checked_in(pipeline), _tell_finding)
    say(headed(question))
    with (
        engines_here(engines_of([pipeline]), at, exclusive=False) as engines,
        tallied() as usage,
        listening(draft, *STREAMED),
    ):
        row = pipeline.open(replace(at, clients=engines.clients))(asked).to_pylist()[0]
    answer = AnswerRecord.of(
        naming(row), units=open_units(at), explained=trace,
        terms=terms_of(pipeline) if trace else None,
        pipeline=name, version=build_version(bound.store, bound.build),
        off=tuple(pipeline.left_out), usage=usage.as_dict(),
    )  # fmt: skip
    if answer.error:
        raise RuntimeError(answer.error)
    draft.finish(answer.answer)
    say(readable(answer))
    if trace:
        say(tree(answer.json))
    return answer


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


def headed(question: str) -> str:
    """The question above its answer."""
    return f"\n{textwrap.fill(question, _WIDTH)}\n"


def readable(answer: AnswerRecord) -> str:
    """Format what follows an answer in a terminal: its remarks, findings and papers."""
    by = f"* cited. {written_by(answer.model)} Not medical advice."
    off = f"Off with engine=rules: {', '.join(answer.off)}.\n"
    return "\n".join(["\n", beside(answer, _WIDTH), "", by, "", *([off] if answer.off else [])])
