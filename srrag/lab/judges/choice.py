"""Multiple-choice accuracy: which option an answer settles on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from srrag.algo.entailment import entails
from srrag.lab.measure.judgements import Case, Judgement, Metric, lines
from srrag.lab.measure.judging_steps import Judge
from srrag.llm.completion import Answer, Completion, PromptFile, quoted
from srrag.llm.fields import Means, Text

ACCURACY = Metric("choice_accuracy", "options in the gold, one of them right")


_POLAR = frozenset(("yes", "no", "maybe"))
_BEGINS = re.compile(r"\W*(yes|no|maybe)\b", re.IGNORECASE)
_NEGATES = re.compile(
    r"\b(?:no|not|nor|never|neither|none|without|cannot)\b|n['’]t\b", re.IGNORECASE
)


class Choice(Answer):
    """The number of the option, 0 for none."""

    example: ClassVar[dict[str, Any] | None] = {"reason": "It calls the second safe.", "choice": 2}

    reason: Annotated[
        str, Text(30, "what the answer says of the options, in one short sentence", "it is plain")
    ]
    choice: Annotated[
        int, Field(ge=0, le=64), Means("the number of the option that it comes to, 0 for none")
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "read_choice.md", Choice)


@dataclass(frozen=True, kw_only=True)
class JudgeChoice(Judge):
    """Whether the `choice` of an answer is right, without a call; a missing choice is wrong.

    Answers of systems that write no `choice` are read, with one call an answer. By rules it is the
    option that the answer names, or is nearest to.

    An answer that does not begin with yes, no or maybe, where these are the options, counts as no
    if its first paragraph negates, else as yes. Other options count by the share of their words
    that the answer holds. This is a lower bound for answers that quote; it does not read them.
    """

    version: ClassVar[int] = 3

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "text", "answer", "missing", "abstained", "chooses", "choice", "options",
        "gold_option",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (ACCURACY,)
    schema: ClassVar[type[Answer]] = Choice
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """One prompt, if an option is right and there is an answer without a stated choice."""
        if case["missing"] or case["chooses"] or case["gold_option"] not in case["options"]:
            return []
        user = PROMPT.user(
            question=quoted(case["text"]),
            options=lines({"option": option} for option in case["options"]),
            answer=quoted(case["answer"]),
        )
        return [(PROMPT.system(), user)]

    def rule(self, case: Case, number: int) -> Choice:
        """The option that is named, or nearest; none for an abstention."""
        options = [option.strip() for option in case["options"]]
        if case["abstained"]:
            return Choice(reason="the answer abstains", choice=0)
        if _POLAR.issuperset(option.casefold() for option in options):
            return _stance(case["answer"], options)
        return _first_named(case["answer"], options) or _nearest(case, options)

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """Whether the option is the right one."""
        if case["gold_option"] not in case["options"]:
            return
        if case["missing"]:
            yield ACCURACY.unanswered(case, case["gold_option"])
        elif case["chooses"]:
            choice = case["choice"]
            chosen = case["options"][choice] if 0 <= choice < len(case["options"]) else None
            reason = "no option was chosen" if chosen is None else f"it chose {chosen}"
            right = chosen == case["gold_option"]
            yield ACCURACY.settled(case, case["gold_option"], right, reason)
        elif fault := answers[0].fault:
            yield ACCURACY.failed(case, case["gold_option"], fault)
        else:
            chosen = answers[0].value.choice
            right = chosen == case["options"].index(case["gold_option"]) + 1
            yield ACCURACY.judged(case, case["gold_option"], right, answers[0].value.reason)


def _stance(answer: str, options: Sequence[str]) -> Choice:
    begins = _BEGINS.match(answer)
    if begins:
        said, reason = begins[1], "the answer begins with it"
    else:
        negates = _NEGATES.search(answer.partition("\n\n")[0])
        said, reason = ("no", "it negates") if negates else ("yes", "it negates nothing")
    folded = [option.casefold() for option in options]
    said = said.casefold()
    return Choice(reason=reason, choice=folded.index(said) + 1 if said in folded else 0)


def _first_named(answer: str, options: Sequence[str]) -> Choice | None:
    """The option that is named first; of two that begin there, the longer one."""
    places = []
    for n, option in enumerate(options, start=1):
        named = re.search(rf"\b{re.escape(option)}(?!\w)", answer, re.IGNORECASE)
        if named and option:
            places.append((named.start(), -len(option), n))
    return Choice(reason="this option is named first", choice=min(places)[2]) if places else None


def _nearest(case: Case, options: Sequence[str]) -> Choice:
    scores = [entails(case["answer"], option, case["text"]).score for option in options]
    best = max(scores)
    if best == 0 or scores.count(best) > 1:
        return Choice(reason="no option is nearer than the others", choice=0)
    return Choice(reason=f"{best:.0%} of its words are there", choice=scores.index(best) + 1)
