"""Asks a model until its answer is valid or the tries are used up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from srrag.llm.completion import NOT_ASKED, Client, Completion, Fault, Prompt, Usage, tally

FINAL = ("too_long", "refused_call", "not_recorded", "recorded_fault")
"""Kinds of faults that a retry cannot change."""

_MAX_SHOWN_CHARS = 2000

Check = Callable[[Prompt, Any], Fault | None]


@dataclass
class _Question:
    """A prompt with its best answer so far, and the number of answers paid for here."""

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
        if answer.text.strip():
            shown = (answer.text.strip()[:_MAX_SHOWN_CHARS], _request(fault))
            self.prompt = replace(self.prompt, turns=(shown,))
        return fault.kind not in FINAL


def ask(
    client: Client, prompts: Sequence[Prompt], check: Check, again: int = 1
) -> list[Completion]:
    """Answer prompts; retry a bad answer `again` times, and show the model what was wrong.

    Tries in the log count, unless the client is `fresh`, which grants `again` + 1 new ones. An
    answer that fits its schema but fails the step's `check` is returned if none is better. Raises
    EngineStopped.
    """
    questions = [_Question(prompt) for prompt in prompts]
    pending = questions
    attempt = 0
    while pending:
        may_call = [attempt <= again or (client.fresh and q.paid <= again) for q in pending]
        answers = client.complete([q.prompt for q in pending], attempt, may_call)
        pending = [q for q, a in zip(pending, answers, strict=True) if q.take(a, check)]
        attempt += 1
    return [question.best for question in questions]


def _request(fault: Fault) -> str:
    """The message that asks the model to correct its answer."""
    return f"{fault.detail} Answer once more, with one JSON object of the schema and nothing else."
