"""A cited answer as text while a model still writes it: whole sentences, never taken back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pydantic_core

from srrag.answer.cited import CitedAnswer, CitedSentence, Shown, Uncited, show
from srrag.answer.compose import ComposeAnswer
from srrag.llm.completion import Prompt
from srrag.pipeline import Pipeline
from srrag.schema import PARTS
from srrag.step import LLMStep

AGAIN = "\n\n[That answer was not good enough; it is written once more.]\n\n"
INSTEAD = "\n\n[The answer that counts:]\n\n"

_EVIDENCE_LINE = re.compile(r'^\{"n": ', re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x1f]")


class AnswerStream:
    """Reads the JSON of a CitedAnswer piece by piece and writes its text as it comes.

    A sentence is written once its citations are known, so each has its markers, and only markers of
    evidence that was given. This is a draft; `finish` completes it with the final answer. It serves
    one question only.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        uncited: Uncited = "drop",
        checked: bool = False,
    ) -> None:
        """Take the function that receives the text, and how sentences without citation are treated.

        If a later step has each sentence `checked`, the text comes at the end.
        """
        self._write = write
        self._uncited = uncited
        self._held = checked
        self._attempt = 0
        self._json = ""
        self._shown = ""

    def __call__(self, prompt: Prompt, attempt: int, piece: str) -> None:
        """Take the next piece of the answer to a prompt of ComposeAnswer."""
        if attempt != self._attempt:
            if self._shown:
                self._write(AGAIN)
            self._attempt, self._json, self._shown = attempt, "", ""
        self._json += piece
        given = len(_EVIDENCE_LINE.findall(prompt.user))
        text = "" if self._held else text_so_far(self._json, given, self._uncited)
        if text.startswith(self._shown) and text != self._shown:
            self._write(text[len(self._shown) :])
            self._shown = text

    def finish(self, answer: str) -> None:
        """Write the rest of the final answer, or all of it if it differs from the draft."""
        if answer.startswith(self._shown):
            self._write(answer[len(self._shown) :])
        else:
            self._write(INSTEAD + answer)


def text_so_far(text: str, num_evidence: int, uncited: Uncited = "drop") -> str:
    """The text of the sentences that stand complete at the beginning of a JSON text."""
    return "\n\n".join(shown_so_far(text, num_evidence, uncited).paragraphs)


def shown_so_far(text: str, num_evidence: int, uncited: Uncited = "drop") -> Shown:
    """The sentences that stand complete at the beginning of a JSON text.

    A sentence is complete as soon as something follows it. A longer prefix of the same JSON, if it
    names no key twice, gives a text that begins with this one.
    """
    said, whole = _parsed(_CONTROL.sub(" ", text[max(text.find("{"), 0) :]))
    complete: dict[str, list[CitedSentence]] = {name: [] for name in PARTS}
    for name, sentence in _complete(said, whole) if isinstance(said, dict) else ():
        complete[name].append(sentence)
    answer = CitedAnswer.model_construct(None, **complete)
    return show(answer, [str(n) for n in range(1, num_evidence + 1)], uncited)


def _parsed(text: str) -> tuple[Any, bool]:
    """What the beginning of a JSON text says, None if it is none, and whether it is all."""
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
                yield name, CitedSentence.model_validate(sentence)
            except pydantic_core.ValidationError:
                return
        if last:
            return


def uncited_of(pipeline: Pipeline) -> Uncited:
    """What a pipeline does with sentences without citation."""
    found = [step.uncited for step in pipeline.answer if isinstance(step, ComposeAnswer)]
    return found[-1] if found else "drop"


def checked_in(pipeline: Pipeline) -> bool:
    """Whether a model reads the sentences of an answer once more before they stand."""
    return any(
        "sentences" in step.revises and not (isinstance(step, LLMStep) and step.off)
        for step in pipeline.answer
    )
