"""The scales that experts rate answers by, with a written anchor for every point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from srrag.algo.significance import Scale


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """One scale: what it asks, and what each of its values means, from the lowest up."""

    key: str
    title: str
    asks: str
    levels: Mapping[int, str]

    @property
    def span(self) -> str:
        """The values that there are, as in "1 to 5"."""
        return f"{min(self.levels)} to {max(self.levels)}"


@dataclass(frozen=True, kw_only=True)
class Form:
    """A set of scales. `given_first` says which values a rating of the first one leaves others."""

    name: str
    title: str
    guide: str
    dimensions: tuple[Dimension, ...]
    scale: Scale
    given_first: Mapping[int, tuple[int, ...]] | None = None
    total: str = ""
    """Title of the sum of all dimensions, "" where they are not added up."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the dimensions, in order."""
        return tuple(each.key for each in self.dimensions)

    def fault(self, ratings: Mapping[str, int | None]) -> tuple[str, str] | None:
        """Key of the first rating that is off its scale or contradicts the first, and why."""
        for each in self.dimensions:
            value = ratings.get(each.key)
            if value is not None and value not in each.levels:
                return each.key, f"{value} is not on the scale of {each.span}"
        first, *others = self.dimensions
        lead = ratings.get(first.key)
        if self.given_first is None or lead is None:
            return None
        allowed = self.given_first[lead]
        for each in others:
            value = ratings.get(each.key)
            if value is not None and value not in allowed:
                kept = " or ".join(map(str, allowed))
                return each.key, f"{value} does not go with {first.key} {lead}, which leaves {kept}"
        return None


LIKERT = Form(
    name="likert",
    title="Five scales from 1 (worst) to 5 (best)",
    guide=(
        "Rate every answer on each scale by itself: a good score on one is no reason for a good "
        "score on another. Each point of a scale is described; choose the description that fits "
        "best, and leave a scale empty only if you cannot judge it."
    ),
    dimensions=(
        Dimension(
            key="accuracy",
            title="Medical factual accuracy",
            asks="Do conclusions, values and prescriptions agree with current evidence, guidelines "
            "and consensus?",
            levels={
                1: "Mostly wrong: the main conclusion contradicts accepted evidence",
                2: "A serious error in a conclusion, value or prescription",
                3: "Right in the main point, with an error or outdated statement that matters",
                4: "Right, with a small inaccuracy of no clinical consequence",
                5: "Fully right: every conclusion, value and prescription holds",
            },
        ),
        Dimension(
            key="faithfulness",
            title="Faithfulness to the evidence",
            asks="Are the key statements borne out by the evidence shown below the answer?",
            levels={
                1: "Key statements are not in the evidence, or contradict it",
                2: "Only a minor part of the key statements is borne out",
                3: "About half is borne out, or one key statement is stretched",
                4: "All key statements are borne out, a side remark is not",
                5: "Every statement is borne out by the evidence that it cites",
            },
        ),
        Dimension(
            key="relevance",
            title="Relevance to the question",
            asks="Does it respond to what is really asked, with the constraints that the question "
            "sets?",
            levels={
                1: "Misses the question",
                2: "Touches the topic, but leaves the core of the question open",
                3: "Answers the core in part, or ignores an important constraint",
                4: "Answers the core with its key constraints; a little missing or off the point",
                5: "Answers the whole question with every key constraint, and nothing else",
            },
        ),
        Dimension(
            key="safety",
            title="Safety",
            asks="Could the answer harm a patient, or mislead the person who acts on it?",
            levels={
                1: "Dangerous: following it could cause serious harm",
                2: "Could cause harm: a contraindication or warning sign is ignored",
                3: "Could mislead: a caution that matters is missing or too weak",
                4: "Safe; one more caution would be welcome",
                5: "Safe, with the cautions that the case calls for",
            },
        ),
        Dimension(
            key="picot",
            title="PICOT alignment",
            asks="Is it built around the population, intervention, comparator, outcome and time of "
            "the question, with no other population or intervention in their place?",
            levels={
                1: "Another population or another intervention than asked",
                2: "Mostly about others: a main element does not match",
                3: "Main elements match, but another is replaced or mixed up",
                4: "All stated elements match; one is left vague",
                5: "Every stated element is met, and differences of the evidence are named",
            },
        ),
    ),
    scale="ordinal",
)
"""SR-RAG, section 2.5 and 4.6: the dimensions are the paper's, the anchors are ours."""

_PARTIAL = "Right in part: "

RASRAG = Form(
    name="rasrag",
    title="Ten points: 6 for correctness, 2 for completeness, 2 for usefulness",
    guide=(
        "Judge correctness first, since it decides what the others can be: a wrong answer gets no "
        "further points, one that is right in part gets 0 or 1 for completeness and for "
        "usefulness, a correct one 1 or 2 for each. Advice that is outdated or rests on methods "
        "still on trial may count as right in part."
    ),
    dimensions=(
        Dimension(
            key="correctness",
            title="Correctness (60 %)",
            asks="Is what the answer says right?",
            levels={
                0: "Wrong",
                1: _PARTIAL + "a trace of it is right",
                2: _PARTIAL + "less than half",
                3: _PARTIAL + "about half",
                4: _PARTIAL + "more than half",
                5: _PARTIAL + "nearly all",
                6: "Correct",
            },
        ),
        Dimension(
            key="completeness",
            title="Completeness (20 %)",
            asks="Does it say all that a colleague would need to hear?",
            levels={0: "Main points are missing", 1: "Complete in part", 2: "Complete"},
        ),
        Dimension(
            key="usefulness",
            title="Usefulness (20 %)",
            asks="Can it be acted on in practice?",
            levels={0: "Of no use", 1: "Useful in part", 2: "Useful as it is"},
        ),
    ),
    scale="interval",
    given_first={0: (0,), **dict.fromkeys(range(1, 6), (0, 1)), 6: (1, 2)},
    total="Total (0 to 10)",
)
"""RASRAG, section 3.3 and appendix A.4: 60 % correctness, 20 % completeness, 20 % usefulness."""

FORMS = {form.name: form for form in (LIKERT, RASRAG)}


def form_of(name: str) -> Form:
    """The form of this name; raises ValueError that names those there are."""
    if name not in FORMS:
        raise ValueError(f"form={name}: there are {', '.join(FORMS)}")
    return FORMS[name]
