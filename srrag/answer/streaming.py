"""A cited answer as text while a model still writes it: whole sentences, never taken back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pydantic_core

from srrag.answer.cited import PARAGRAPHS, CitedAnswer, CitedSentence, Uncited, show
from srrag.answer.compose import ComposeAnswer
from srrag.llm.completion import Prompt
from srrag.pipeline import Pipeline

AGAIN = "\n\n[That answer was not good enough; it is written once more.]\n\n"
INSTEAD = "\n\n[The answer that counts:]\n\n"

_EVIDENCE_LINE = re.compile(r'^\{"n": ', re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x1f]")


class AnswerStream:
    """Hears the JSON of a CitedAnswer in pieces, and writes its text as it comes.

    A sentence is written when its citations are known: so nothing is shown without its marker,
    and no marker but of evidence that was given. It is a draft: `finish` closes it with the
    answer that counts. For one question; of several it mixes the answers.
    """

    def __init__(self, write: Callable[[str], object], uncited: Uncited = "drop") -> None:
        """Bind where the text goes, and what becomes of sentences without citation."""
        self._write = write
        self._uncited = uncited
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
        text = text_so_far(self._json, given, self._uncited)
        if text.startswith(self._shown) and text != self._shown:
            self._write(text[len(self._shown) :])
            self._shown = text

    def finish(self, answer: str) -> None:
        """Write what is missing of the answer that counts, or all of it if it is another."""
        if answer.startswith(self._shown):
            self._write(answer[len(self._shown) :])
        else:
            self._write(INSTEAD + answer)


def text_so_far(json: str, num_evidence: int, uncited: Uncited = "drop") -> str:
    """The text of the sentences that stand complete at the beginning of a JSON text.

    A sentence is complete as soon as something follows it. Of a longer beginning of the same
    JSON, which names no key twice, the text begins with this one.
    """
    said, whole = _parsed(_CONTROL.sub(" ", json[max(json.find("{"), 0) :]))
    complete: dict[str, list[CitedSentence]] = {name: [] for name in PARAGRAPHS}
    for name, sentence in _complete(said, whole) if isinstance(said, dict) else ():
        complete[name].append(sentence)
    answer = CitedAnswer.model_construct(None, **complete)
    return "\n\n".join(show(answer, [""] * num_evidence, uncited).paragraphs)


def _parsed(json: str) -> tuple[Any, bool]:
    """What the beginning of a JSON text says, None if it is none, and whether it is all."""
    try:
        return pydantic_core.from_json(json), True
    except ValueError:
        pass
    try:
        return pydantic_core.from_json(json, allow_partial=True), False
    except ValueError:
        return None, False


def _complete(said: dict[str, Any], whole: bool) -> Iterator[tuple[str, CitedSentence]]:
    """Sentences with their paragraph, up to the first that is incomplete or wrong."""
    for name in PARAGRAPHS:
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
