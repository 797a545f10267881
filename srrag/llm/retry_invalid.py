"""Asks a model until its answer is valid or the tries are used up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from srrag.llm.completion import NOT_ASKED, Client, Completion, Fault, Prompt, Usage, tally

AFRESH = ("empty", "whitespace", "truncated", "looped", "example")
"""Kinds of faults whose text a model would only continue, so the retry does not show it."""

AFRESH_TEMPERATURE = 0.7
"""A prompt that is asked afresh at temperature 0 would get the same answer."""

FINAL = ("too_long", "refused_call", "not_recorded", "recorded_fault")
"""Kinds of faults that a retry cannot change."""

_MAX_SHOWN_CHARS = 2000
_MAX_REQUEST_CHARS = 600

Check = Callable[[Prompt, Any], Fault | None]


@dataclass
class _Question:
    """A prompt with its best answer so far, and the number of answers paid for here."""

    first: Prompt
    prompt: Prompt
    best: Completion = field(default_factory=Completion)
    paid: int = 0

    def take(self, answer: Completion, check: Check) -> bool:
        """Record an answer; returns True if the prompt is worth a retry."""
        self.paid += answer.paid
        if answer.fault == NOT_ASKED:
            return False
        # An answer that fits its schema beats one that does not; otherwise the later one wins.
        if self.best.value is None or answer.value is not None:
            self.best = answer
        fault = answer.fault or check(self.prompt, answer.value)
        if fault is None:
            return False
        tally(Usage(faults=Counter([fault.kind])))
        if fault.kind in AFRESH:
            self.prompt = replace(
                self.first,
                user=f"{self.first.user}\n\n{_AGAIN.get(fault.kind, _request(fault))}",
                temperature=max(self.first.temperature, AFRESH_TEMPERATURE),
            )
        elif answer.text.strip():
            shown = (answer.text.strip()[:_MAX_SHOWN_CHARS], _request(fault))
            self.prompt = replace(self.prompt, turns=(shown,))
        return fault.kind not in FINAL


def ask(
    client: Client, prompts: Sequence[Prompt], check: Check, again: int = 1
) -> list[Completion]:
    """Answer prompts; retry a bad answer `again` times, and show the model what was wrong.

    A useless answer (AFRESH) is not shown: the retry repeats the prompt with a note on the fault,
    and samples.

    Tries in the log count, unless the client is `fresh`, which grants `again` + 1 new ones. An
    answer that fits its schema but fails the step's `check` is returned if none is better. Raises
    EngineStopped.
    """
    questions = [_Question(prompt, prompt) for prompt in prompts]
    pending = questions
    attempt = 0
    while pending:
        may_call = [attempt <= again or (client.fresh and q.paid <= again) for q in pending]
        answers = client.complete([q.prompt for q in pending], attempt, may_call)
        answers = [_own(q.first, answer) for q, answer in zip(pending, answers, strict=True)]
        pending = [q for q, a in zip(pending, answers, strict=True) if q.take(a, check)]
        attempt += 1
    return [question.best for question in questions]


_AGAIN = {
    "truncated": "Keep it short: fewer items, none of them twice. One JSON object, no more.",
    "looped": "Name each item once, and end. One JSON object of the schema and nothing else.",
}


def _own(prompt: Prompt, answer: Completion) -> Completion:
    """Turn an answer that hands back words of the prompt's example into a fault."""
    if answer.value is None:
        return answer
    copied = example_words(prompt.system) & leaves(answer.value.model_dump())
    asked = " ".join(prompt.user.lower().split())
    if all(words.lower() in asked for words in copied):
        return answer
    detail = (
        "The answer holds words of the example in the instructions, which is about another case."
    )
    return replace(answer, value=None, fault=Fault("example", detail))


def leaves(value: Any) -> set[str]:
    """Return the texts in a JSON value."""
    if isinstance(value, str):
        return {" ".join(value.split())}
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {text for item in items for text in leaves(item)}


@lru_cache(maxsize=64)
def example_words(system: str) -> frozenset[str]:
    """Return the free texts in the JSON examples of a system text: of several words, or "…"."""
    found: set[str] = set()
    place = system.find("{")
    while place >= 0:
        try:
            value, end = _DECODER.raw_decode(system, place)
        except ValueError:
            end = place + 1
        else:
            found |= leaves(value)
        place = system.find("{", end)
    return frozenset(text for text in found if " " in text or text.strip("….?") == "" != text)


_DECODER = json.JSONDecoder()


def _request(fault: Fault) -> str:
    """The message that asks the model to correct its answer."""
    wrong = fault.detail[:_MAX_REQUEST_CHARS]
    return f"{wrong} Answer once more, with one JSON object of the schema and nothing else."
