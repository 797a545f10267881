"""A cited answer as text while a model still writes it: whole sentences, never taken back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pydantic_core

from srrag.answer.check_support import MakeGate, rebuilt
from srrag.answer.cited import CitedAnswer, CitedSentence, Shown, Uncited, show
from srrag.answer.compose import ComposeAnswer
from srrag.answer.support_gate import Gate
from srrag.answer.support_signs import Window
from srrag.llm.completion import Prompt
from srrag.pipeline import Pipeline
from srrag.schema import PARTS

AGAIN = "\n\n[That answer was not good enough; it is written once more.]\n\n"
INSTEAD = "\n\n[The answer that counts:]\n\n"

_EVIDENCE_LINE = re.compile(r'^\{"n": ', re.MULTILINE)
_EVIDENCE_LINES = re.compile(r'^\{"n": .*$', re.MULTILINE)
_QUESTION_LINE = re.compile(r'^Question: (".*")$', re.MULTILINE)
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
        gate: MakeGate | None = None,
    ) -> None:
        """Take the function that receives the text, and how sentences without citation are treated.

        With the `gate` of the pipeline a sentence is held back until it has passed.
        """
        self._write = write
        self._uncited = uncited
        self._gate = gate
        self._checked: Checked | None = None
        self._attempt = 0
        self._json = ""
        self._shown = ""

    def __call__(self, prompt: Prompt, attempt: int, piece: str) -> None:
        """Take the next piece of the answer to a prompt of ComposeAnswer."""
        if attempt != self._attempt:
            if self._shown:
                self._write(AGAIN)
            self._attempt, self._json, self._shown = attempt, "", ""
            self._checked = None
        self._json += piece
        given = len(_EVIDENCE_LINE.findall(prompt.user))
        said = shown_so_far(self._json, given, self._uncited)
        if self._gate is not None:
            if self._checked is None:
                self._checked = Checked(self._gate(*read_prompt(prompt.user)), given)
            paragraphs = self._checked.paragraphs(said)
        else:
            paragraphs = said.paragraphs
        text = "\n\n".join(paragraphs)
        if text.startswith(self._shown) and text != self._shown:
            self._write(text[len(self._shown) :])
            self._shown = text

    def finish(self, answer: str) -> None:
        """Write the rest of the final answer, or all of it if it differs from the draft."""
        if answer.startswith(self._shown):
            self._write(answer[len(self._shown) :])
        else:
            self._write(INSTEAD + answer)


class Checked:
    """The verdicts on the sentences of a draft: each is given once, in their order."""

    def __init__(self, gate: Gate, num_evidence: int) -> None:
        """Begin with none."""
        self._gate = gate
        self._numbers = {str(n): n for n in range(1, num_evidence + 1)}
        self._kept: list[dict[str, Any] | None] = []

    def paragraphs(self, said: Shown) -> list[str]:
        """The paragraphs of what has passed so far."""
        for each in said.sentences[len(self._kept) :]:
            ids = each["evidence_ids"]
            verdict = self._gate.check(each["text"], [self._numbers[item] for item in ids])
            stands = [str(n) for n in verdict.cites]
            kept = {**each, "evidence_ids": stands}
            self._kept.append(None if verdict.fault else kept)
        answer = "\n\n".join(said.paragraphs)
        return rebuilt(answer, said.sentences, self._kept, self._numbers)


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


def read_prompt(user: str) -> tuple[str, list[Window]]:
    """Question and windows as a prompt of ComposeAnswer shows them."""
    question = _QUESTION_LINE.search(user)
    windows = [
        Window(str(item.get("title", "")), str(item.get("section", "")), str(item.get("text", "")))
        for item in map(json.loads, _EVIDENCE_LINES.findall(user))
    ]
    return (json.loads(question[1]) if question else ""), windows


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
