"""Asks a model until its answer is valid or the tries are used up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from srrag.llm.completion import (
    AWAITED,
    NOT_ASKED,
    Answer,
    AnswersAwaited,
    Client,
    Completion,
    Fault,
    Prompt,
    Usage,
    tally,
)
from srrag.llm.read_answer import objects

AFRESH = ("empty", "whitespace", "only_thinking", "truncated", "looped", "example")
"""Kinds of faults whose text a model would only continue, so the retry does not show it."""

AFRESH_TEMPERATURE = 0.7
"""A prompt that is asked afresh at temperature 0 would get the same answer."""

FINAL = ("too_long", "refused_call", "not_recorded", "recorded_fault")
"""Kinds of faults that a retry cannot change."""

_MAX_SHOWN_CHARS = 6000
"""A longer answer is not shown again: a part of it would be no answer."""
_MAX_REQUEST_CHARS = 600

Check = Callable[[Prompt, Any], Fault | None]


@dataclass
class _Question:
    """A prompt with its best answer so far, and the number of answers paid for here."""

    first: Prompt
    prompt: Prompt
    best: Completion = field(default_factory=Completion)
    fault: Fault | None = None
    """What the check found in the best answer."""
    paid: int = 0

    def take(self, answer: Completion, check: Check) -> bool:
        """Record an answer; returns True if the prompt is worth a retry."""
        self.paid += answer.paid
        if answer.fault in (NOT_ASKED, AWAITED):
            return False
        if self.fault is not None and self.fault.items and answer.value is not None:
            answer = replace(answer, value=mended(self.best.value, self.fault.items, answer.value))
        fault = answer.fault or check(self.first, answer.value)
        if answer.lost:
            tally(Usage(faults=Counter({"bad_item": answer.lost})))
        if self._is_better(answer, fault):
            self.best, self.fault = answer, None if answer.value is None else fault
        if fault is None:
            return False
        if answer.paid:  # one that is known was counted by the call that paid for it
            tally(Usage(faults=Counter([fault.kind])))
        if fault.kind in AFRESH:
            self.prompt = replace(
                self.first,
                user=f"{self.first.user}\n\n{_AGAIN.get(fault.kind, _request(fault))}",
                temperature=max(self.first.temperature, AFRESH_TEMPERATURE),
            )
        elif self.fault is not None and self.fault.items:
            part = _only(self.best.value, self.fault.items)
            lacks = not any(isinstance(item, list) and item for _, item in part)
            shown = (self.best.value if lacks else part).model_dump_json()
            self.prompt = replace(self.first, turns=((shown, _request_items(self.fault, lacks)),))
        elif len(shown := answer.text.strip()) > _MAX_SHOWN_CHARS:
            self.prompt = replace(self.first, user=f"{self.first.user}\n\n{_request(fault)}")
        elif shown:
            self.prompt = replace(self.prompt, turns=((shown, _request(fault)),))
        return fault.kind not in FINAL

    def _is_better(self, answer: Completion, fault: Fault | None) -> bool:
        """Whether an answer is to be kept instead of the best so far.

        An answer that fits its schema beats one that does not. Then counts how many items of its
        lists stand, none if the whole answer is at fault; then that nothing is; then the first.
        """
        if self.best.value is None or answer.value is None:
            return self.best.value is None
        former, later = _standing(self.best.value, self.fault), _standing(answer.value, fault)
        return later > former


def _standing(value: Answer, fault: Fault | None) -> tuple[bool, int, bool]:
    """How good an answer is: whether it stands, how many items of it do, whether all is right."""
    if fault is not None and not fault.items:
        return False, 0, False
    sizes = {name: len(item) for name, item in value if isinstance(item, list)}
    bad = sum(place < sizes[name] for name, place in fault.items) if fault else 0
    good = sum(sizes.values()) - bad
    return fault is None or good > 0, good, fault is None


def _only(value: Answer, items: Sequence[tuple[str, int]]) -> Answer:
    """Return an answer whose lists hold these items alone."""
    kept = {
        name: [each for place, each in enumerate(old) if (name, place) in items]
        for name, old in value
        if isinstance(old, list)
    }
    return value.model_copy(update=kept)


def mended(value: Answer, items: Sequence[tuple[str, int]], again: Answer) -> Answer:
    """Return an answer with the items of another in the places of these, which may be its end.

    Where a list of the other has not as many items as were asked for, all come after the others.
    """
    lists: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for name, _ in items):
        places = [place for each, place in items if each == name]
        old, new = list(getattr(value, name)), [*getattr(again, name)]
        if len(new) == len(places) and max(places) < len(old):
            for place, item in zip(places, new, strict=True):
                old[place] = item
            new = []
        else:
            old = [item for place, item in enumerate(old) if place not in places]
        lists[name] = old + [item for item in new if item not in old]
    return value.model_copy(update=lists)


def ask(
    client: Client, prompts: Sequence[Prompt], check: Check, again: int = 1
) -> list[Completion]:
    """Answer prompts; retry a bad answer `again` times, and show the model what was wrong.

    A useless answer (AFRESH) is not shown: the retry repeats the prompt with a note on the fault,
    and samples.

    Where some items of an answer are at fault, the retry shows and asks for them alone, and takes
    them into the answer; one that only lacks items is shown as it stands. What stood is never lost
    by a retry: of two answers the better is kept.

    Tries in the log count, unless the client is `fresh`, which grants `again` + 1 new ones. An
    answer that fits its schema but fails the step's `check` is returned if none is better. Raises
    EngineStopped, and AnswersAwaited once every prompt that can be asked now is.
    """
    questions = [_Question(prompt, prompt) for prompt in prompts]
    pending = questions
    attempt = awaited = 0
    while pending:
        may_call = [attempt <= again or (client.fresh and q.paid <= again) for q in pending]
        answers = client.complete([q.prompt for q in pending], attempt, may_call)
        awaited += sum(answer.fault == AWAITED for answer in answers)
        answers = [_own(q.first, answer) for q, answer in zip(pending, answers, strict=True)]
        pending = [q for q, a in zip(pending, answers, strict=True) if q.take(a, check)]
        attempt += 1
    if awaited:
        raise AnswersAwaited(f"{awaited} prompts wait for an answer")
    return [question.best for question in questions]


_AGAIN = {
    "truncated": "Keep it short: fewer items, none of them twice. One JSON object, no more.",
    "only_thinking": "Think briefly, then give the answer: one JSON object of the schema.",
    "looped": "Name each item once, and end. One JSON object of the schema and nothing else.",
}


def _own(prompt: Prompt, answer: Completion) -> Completion:
    """Turn an answer that hands back words of the prompt's example into a fault.

    Subject headings of it may be right in another case too, beside more of its own.
    """
    if answer.value is None:
        return answer
    told = leaves(answer.value.model_dump())
    asked = " ".join(prompt.user.lower().split())
    copied = {w for w in example_words(prompt.system) & told if w.lower() not in asked}
    own = {w for w in told - _example(prompt.system) if " " in w or w[:1].isupper()}
    if not copied or (all(map(str.istitle, copied)) and len(copied) < len(own)):
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
    found = _example(system)
    return frozenset(text for text in found if " " in text or text.strip("….?") == "" != text)


@lru_cache(maxsize=64)
def _example(system: str) -> frozenset[str]:
    return frozenset(text for each in objects(system) for text in leaves(json.loads(each)))


def _request_items(fault: Fault, lacks: bool) -> str:
    """The message that asks the model to correct some items of its answer, or for what it lacks."""
    wrong = fault.detail[:_MAX_REQUEST_CHARS]
    if lacks:
        return (
            f"{wrong} What you wrote stands. Answer with one JSON object of the schema that holds "
            "the items that are missing, and none of those above."
        )
    return (
        f"{wrong} These items are at fault, the others stand. Answer with one JSON object of the "
        "schema that holds these items alone, corrected; leave out what cannot be."
    )


def _request(fault: Fault) -> str:
    """The message that asks the model to correct its answer."""
    wrong = fault.detail[:_MAX_REQUEST_CHARS]
    return f"{wrong} Answer once more, with one JSON object of the schema and nothing else."
