"""Judges that read by a call of their own: accuracy, choice, and which evidence is better.

Accuracy is that of RASRAG (section 3.2), by two judges on NVIDIA's scale in repeated trials; the
preference of one evidence over another that of EbmKG (5.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from srrag.algo.entailment import THRESHOLD, entails, sentences
from srrag.core.schema import EVIDENCE, NUGGETS, relation
from srrag.lab.judges.gold import reference
from srrag.lab.measure.judgements import GRADED, Case, Judgement, Metric, lines
from srrag.lab.measure.judging_steps import Judge
from srrag.llm.completion import Answer, Completion, PromptFile, quoted
from srrag.llm.fields import Means, Text

ACCURACY = Metric("answer_accuracy", "an ideal answer in the gold", worth=GRADED)
"""Full, partial and none are 4, 2 and 0 of 4 points; who contradicts has none."""


class AccuracyRating(Answer):
    """How far two texts say the same."""

    example: ClassVar[dict[str, Any] | None] = {
        "reason": "Both have fewer attacks, one without the dose.",
        "verdict": "partial",
    }

    reason: Annotated[
        str, Text(30, "where they agree and differ, in one short sentence", "it is plain")
    ]
    verdict: Annotated[
        Literal["full", "partial", "none", "contradicted"], Means("how far they agree, as above")
    ]


BY_REFERENCE, BY_ANSWER = (
    PromptFile(Path(__file__).parent / "prompts" / name, AccuracyRating)
    for name in ("rate_accuracy.md", "rate_agreement.md")
)


@dataclass(frozen=True, kw_only=True)
class JudgeAccuracy(Judge):
    """Two calls a trial: one measures the answer by the reference, the other the reverse.

    The two are worded differently, and their mean is the value of the trial (RAGAS, AnswerAccuracy,
    whose ratings come without a reason). By rules one asks how many sentences of the reference the
    answer states, the other how many of the answer the reference does; all trials are the same.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "text", "answer", "missing", "ideal_answer")
    metrics: ClassVar[tuple[Metric, ...]] = (ACCURACY,)
    schema: ClassVar[type[Answer]] = AccuracyRating
    prompt_files: ClassVar[tuple[Path, ...]] = (BY_REFERENCE.path, BY_ANSWER.path)

    trials: int = 1
    temperature: float = 0.1

    def __post_init__(self) -> None:
        """Raise ValueError for trials that say nothing."""
        if not 1 <= self.trials <= 20:
            raise ValueError(f"trials is {self.trials}: 1 to 20 work")

    @property
    def sampling(self) -> tuple[int, float]:
        """Each prompt once a trial."""
        return self.trials, self.temperature

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """The prompts of both judges."""
        if case["missing"] or not case["ideal_answer"]:
            return []
        texts = {
            "question": quoted(case["text"]),
            "answer": quoted(case["answer"]),
            "reference": quoted(case["ideal_answer"]),
        }
        return [(prompt.system(), prompt.user(**texts)) for prompt in (BY_REFERENCE, BY_ANSWER)]

    def rule(self, case: Case, number: int) -> AccuracyRating:
        """Look for the words of each sentence of one text in the other."""
        pair = (case["answer"], case["ideal_answer"])
        text, claims = pair if number == 0 else pair[::-1]
        stated = [
            entails(text, claim, case["text"], THRESHOLD).verdict == "supported"
            for claim in sentences(claims)
        ]
        of = "the reference" if number == 0 else "the answer"
        return AccuracyRating(
            reason=f"{sum(stated)} of {len(stated)} sentences of {of} are in the other",
            verdict="none" if not any(stated) else "full" if all(stated) else "partial",
        )

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """A judgement a trial."""
        for trial in range(self.trials) if case["ideal_answer"] else ():
            item = f"trial {trial + 1}"
            if case["missing"]:
                yield ACCURACY.unanswered(case, item)
                continue
            pair = answers[trial], answers[self.trials + trial]
            if fault := pair[0].fault or pair[1].fault:
                yield ACCURACY.failed(case, item, fault)
                continue
            value = sum(getattr(ACCURACY.worth, each.value.verdict) for each in pair) / 2
            yield ACCURACY.judged(case, item, value, " / ".join(e.value.reason for e in pair))


CHOICE_ACCURACY = Metric("choice_accuracy", "options in the gold, one of them right")


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


CHOICE_PROMPT = PromptFile(Path(__file__).parent / "prompts" / "read_choice.md", Choice)


@dataclass(frozen=True, kw_only=True)
class JudgeChoice(Judge):
    """Whether the `choice` of an answer is right, without a call; a missing choice is wrong.

    Answers of systems that write no `choice` are read, with one call an answer. By rules it is the
    option that the answer names, or is nearest to.

    An answer that does not begin with yes, no or maybe, where these are the options, counts as no
    if its first paragraph negates, else as yes. Other options count by the share of their words
    that the answer holds. This is a lower bound for answers that quote; it does not read them.
    """

    version: ClassVar[int] = 4

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "text", "answer", "missing", "abstained", "chooses", "choice", "options",
        "gold_option",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (CHOICE_ACCURACY,)
    schema: ClassVar[type[Answer]] = Choice
    prompt_files: ClassVar[tuple[Path, ...]] = (CHOICE_PROMPT.path,)

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """One prompt, if an option is right and there is an answer without a stated choice."""
        if case["missing"] or case["chooses"] or case["gold_option"] not in case["options"]:
            return []
        user = CHOICE_PROMPT.user(
            question=quoted(case["text"]),
            options=lines({"option": option} for option in case["options"]),
            answer=quoted(case["answer"]),
        )
        return [(CHOICE_PROMPT.system(), user)]

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
            yield CHOICE_ACCURACY.unanswered(case, case["gold_option"])
        elif case["chooses"]:
            choice = case["choice"]
            chosen = case["options"][choice] if 0 <= choice < len(case["options"]) else None
            reason = "no option was chosen" if chosen is None else f"it chose {chosen}"
            right = chosen == case["gold_option"]
            yield CHOICE_ACCURACY.settled(case, case["gold_option"], right, reason)
        elif fault := answers[0].fault:
            yield CHOICE_ACCURACY.failed(case, case["gold_option"], fault)
        else:
            chosen = answers[0].value.choice
            right = dict(enumerate(case["options"], 1)).get(chosen) == case["gold_option"]
            yield CHOICE_ACCURACY.judged(case, case["gold_option"], right, answers[0].value.reason)


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


RECALL = Metric("preference_recall", "evidence of two systems")
PRECISION = Metric("preference_precision", "evidence of two systems")
WON, TIE, LOST = 1.0, 0.5, 0.0
MOST = 64
"""Pieces of evidence of a system that a judge can be shown."""
Side = Literal["first", "second", "tie"]

PAIRED = relation(
    "query_id text ideal_answer", ("nuggets", NUGGETS), ("evidence", EVIDENCE), ("other", EVIDENCE)
)
"""A row a question: the evidence of a system, and that of the other one."""


class PreferenceVerdict(Answer):
    """Which of two evidences is better."""

    example: ClassVar[dict[str, Any] | None] = {
        "reason": "Only the first gives the dose; both hold passages on children.",
        "recall": "first",
        "precision": "tie",
    }

    reason: Annotated[
        str, Text(30, "what each holds and lacks, in one or two short sentences", "it is plain")
    ]
    recall: Annotated[Side, Means("which holds more of what a full and right answer needs")]
    precision: Annotated[Side, Means("which holds less that such an answer has no use for")]


PREFERENCE_PROMPT = PromptFile(
    Path(__file__).parent / "prompts" / "judge_preference.md", PreferenceVerdict
)


@dataclass(frozen=True, kw_only=True)
class JudgePreference(Judge):
    """Two calls a question: the first `depth` pieces of both systems, in either order.

    The value is 1 if the system wins in both orders, 0 if the other one does, else ½, a tie: the
    paper shows one order, but judges have a position bias. By rules recall is the share of the
    gold's nuggets that the evidence states, precision the share of pieces that state one; without
    nuggets all are ties.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "text", "ideal_answer", "nuggets", "evidence", "other",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (RECALL, PRECISION)
    schema: ClassVar[type[Answer]] = PreferenceVerdict
    prompt_files: ClassVar[tuple[Path, ...]] = (PREFERENCE_PROMPT.path,)

    depth: int = 16

    def __post_init__(self) -> None:
        """Raise ValueError for a depth outside its range."""
        if not 1 <= self.depth <= MOST:
            raise ValueError(f"depth is {self.depth}: 1 to {MOST} work")

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """A prompt an order."""
        system = PREFERENCE_PROMPT.system()
        shared = {"question": quoted(case["text"]), "reference": quoted(reference(case))}
        return [
            (system, PREFERENCE_PROMPT.user(**shared, first=_shown(one), second=_shown(two)))
            for one, two in self._orders(case)
        ]

    def rule(self, case: Case, number: int) -> PreferenceVerdict:
        """Compare what both state of the nuggets."""
        sides = [_stated(case, pieces) for pieces in self._orders(case)[number]]
        (recall, precision), (other_recall, other_precision) = sides
        return PreferenceVerdict(
            reason=f"{recall:.2f} and {other_recall:.2f} of the nuggets, {precision:.2f} and "
            f"{other_precision:.2f} of the pieces",
            recall=_better(recall, other_recall),
            precision=_better(precision, other_precision),
        )

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """A judgement of recall and one of precision."""
        fault = next((answer.fault for answer in answers if answer.fault), None)
        if fault is not None:
            yield from (metric.failed(case, "", fault) for metric in self.metrics)
            return
        shown, turned = (answer.value for answer in answers)
        reason = f"{shown.reason} / {turned.reason}"
        yield RECALL.judged(case, "", _both(shown.recall, turned.recall), reason)
        yield PRECISION.judged(case, "", _both(shown.precision, turned.precision), reason)

    def _orders(self, case: Case) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
        own, other = case["evidence"][: self.depth], case["other"][: self.depth]
        return [(own, other), (other, own)]


def _both(shown: Side, turned: Side) -> float:
    """The value of the verdicts in the order (own, other) and in the reverse order."""
    if (shown, turned) == ("first", "second"):
        return WON
    return LOST if (shown, turned) == ("second", "first") else TIE


def _shown(pieces: Sequence[dict[str, Any]]) -> str:
    return lines({"title": piece["title"], "text": piece["text"]} for piece in pieces) or "(none)"


def _stated(case: Case, pieces: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """The share of the nuggets that the pieces state, and of the pieces that state one."""
    found = [
        {n for n, nugget in enumerate(case["nuggets"])
         if entails(piece["text"], nugget["text"], case["text"]).verdict == "supported"}
        for piece in pieces
    ]  # fmt: skip
    recall = len(set().union(*found)) / len(case["nuggets"]) if case["nuggets"] else 0.0
    return recall, sum(map(bool, found)) / len(pieces) if pieces else 0.0


def _better(one: float, two: float) -> Side:
    return "tie" if one == two else "first" if one > two else "second"
