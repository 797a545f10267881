"""A cited answer as text while a model still writes it: whole sentences, never taken back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pydantic_core

from srrag.answer.select.sentence_numbers import paper_of
from srrag.answer.write.cited import CitedAnswer, CitedSentence, Shown, answer_text, show
from srrag.answer.write.papers_answer import (
    ChosenFromPapers,
    CitingSentence,
    Finding,
    PapersAnswer,
    SearchingAnswer,
)
from srrag.core.pipeline import Pipeline
from srrag.core.schema import PARTS
from srrag.core.step import LLMStep
from srrag.llm.completion import Answer, Prompt
from srrag.llm.salvage import spoken
from srrag.reading.prose import plain

AGAIN = "\n\n[That answer was not good enough; it is written once more.]\n\n"
INSTEAD = "\n\n[The answer that counts:]\n\n"

STREAMED: tuple[type[Answer], ...] = (
    CitedAnswer, PapersAnswer, SearchingAnswer, ChosenFromPapers,
)  # fmt: skip
"""The schemas whose answers an AnswerStream reads."""

_EVIDENCE_LINE = re.compile(r'^(?:\{"n": |Paper \d)', re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x1f]")


class AnswerStream:
    """Reads the JSON of an answer (STREAMED) piece by piece and writes its text as it comes.

    Findings are told as soon as each is complete. A sentence is written once its citations are
    known, so each has its markers, and only markers of evidence that was given. This is a draft;
    `finish` completes it with the final answer. It serves one question only.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        checked: bool = False,
        find: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        """Take the function that receives the text.

        `find` receives each finding: text, kind and the number of its paper. If a later step has
        each sentence `checked`, the text comes at the end.
        """
        self._write = write
        self._held = checked
        self._find = find
        self._asked = ("", 0)
        self._json = ""
        self._shown = ""
        self._found = 0

    def __call__(self, prompt: Prompt, attempt: int, piece: str) -> None:
        """Take the next piece of the answer to a prompt of ComposeAnswer or ReadAndAnswer."""
        if (prompt.user, attempt) != self._asked:
            if self._shown:
                self._write(AGAIN)
            self._asked, self._json, self._shown, self._found = (prompt.user, attempt), "", "", 0
        self._json += piece
        given = len(_EVIDENCE_LINE.findall(prompt.user))
        said = spoken(self._json)
        if self._find is not None:
            findings = findings_so_far(said, given)
            for finding in findings[self._found :]:
                self._find(finding)
            self._found = max(self._found, len(findings))
        text = "" if self._held else text_so_far(said, given)
        if text.startswith(self._shown) and text != self._shown:
            self._write(text[len(self._shown) :])
            self._shown = text

    def finish(self, answer: str) -> None:
        """Write the rest of the final answer, or all of it if it differs from the draft."""
        if answer.startswith(self._shown):
            self._write(answer[len(self._shown) :])
        else:
            self._write(INSTEAD + answer)


def text_so_far(text: str, num_evidence: int) -> str:
    """The text of the sentences that stand complete at the beginning of a JSON text."""
    said = _said(text)[0]
    numbers = {str(n): n for n in range(1, num_evidence + 1)}
    state = "not" if isinstance(said, dict) and said.get("state") == "not" else ""
    return answer_text(shown_so_far(text, num_evidence).sentences, numbers, state)


def findings_so_far(text: str, num_papers: int) -> list[dict[str, Any]]:
    """The findings that stand complete at the beginning of a JSON text, each with its paper."""
    said, whole = _said(text)
    listed = said.get("findings") if isinstance(said, dict) else None
    if not isinstance(listed, list):
        return []
    found = []
    for item in listed if whole or len(said) > 1 else listed[:-1]:
        try:
            finding = Finding.model_validate(item)
        except pydantic_core.ValidationError:
            continue
        papers = [n for n in map(paper_of, finding.sentences) if 1 <= n <= num_papers]
        if papers:
            told = {"text": plain(finding.says), "kind": finding.kind, "number": papers[0]}
            found.append(told)
    return found


def shown_so_far(text: str, num_evidence: int) -> Shown:
    """The sentences that stand complete at the beginning of a JSON text.

    A sentence is complete as soon as something follows it. A longer prefix of the same JSON, if it
    names no key twice, gives a text that begins with this one.
    """
    said, whole = _said(text)
    complete: dict[str, list[CitedSentence]] = {name: [] for name in PARTS}
    for name, sentence in _complete(said, whole) if isinstance(said, dict) else ():
        complete[name].append(sentence)
    answer = CitedAnswer.model_construct(None, **complete)
    return show(answer, [str(n) for n in range(1, num_evidence + 1)])


def _said(text: str) -> tuple[Any, bool]:
    """What the beginning of a JSON text says, None if it is none, and whether it is all."""
    text = _CONTROL.sub(" ", text[max(text.find("{"), 0) :])
    try:
        return pydantic_core.from_json(text), True
    except ValueError:
        pass
    try:
        return pydantic_core.from_json(text, allow_partial=True), False
    except ValueError:
        return None, False


def _complete(said: dict[str, Any], whole: bool) -> Iterator[tuple[str, CitedSentence]]:
    """Sentences with their paragraph, up to the first that is incomplete or wrong."""
    for name in PARTS:
        sentences = said.get(name)
        if not isinstance(sentences, list):
            return
        last = not whole and name == [*said][-1]
        for sentence in sentences[:-1] if last else sentences:
            try:
                yield name, _sentence(sentence)
            except pydantic_core.ValidationError:
                return
        if last:
            return


def _sentence(said: Any) -> CitedSentence:
    """A sentence with the numbers of its evidence, whichever way it gives them."""
    if not isinstance(said, dict) or "sentences" not in said:
        return CitedSentence.model_validate(said)
    statement = CitingSentence.model_validate(said)
    papers = [number for number in map(paper_of, statement.sentences) if number]
    return CitedSentence.model_construct(None, text=statement.text, cites=papers)


def checked_in(pipeline: Pipeline) -> bool:
    """Whether a model reads the sentences of an answer once more before they stand."""
    return any(
        "sentences" in step.revises and not (isinstance(step, LLMStep) and step.off)
        for step in pipeline.answer
    )
