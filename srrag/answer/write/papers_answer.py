"""What a model answers that has read papers: findings first, then state, answer and limits."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from srrag.llm.completion import Answer
from srrag.llm.fields import Items, Means, Text

MAX_NUMBER_CHARS = 16
MAX_OPTIONS = 64
KINDS = {
    "result": "what the paper found itself, or concludes from it",
    "recommendation": "of a guideline",
    "planned": "what is to be studied",
    "method": "whom a finished study treated, how and how long",
    "background": "what it says of others' work",
}
STATES = {
    "answered": 'if results or recommendations tell what was asked, whichever way: "no '
    'difference", "equivalent" and one small trial tell it too',
    "partly": "if they tell only a part of it, or it only in another setting or stage, by "
    "laboratory markers where the question is of patients, or by a study without a control group",
    "not": "if none bears on it, or none has the comparator, the time or people of the age that it "
    "names: plans, methods and background tell nothing, and neither does an outcome that was "
    "measured and is not reported. Methods are results where the question is of them",
}
VERDICTS = {
    "yes": "",
    "no": "it is not so, the opposite is, or without a control nothing changed",
    "no difference": "compared with a control, and not shown to differ, or equivalent",
    "mixed": "results for one outcome contradict one another, also analyses of one study; where "
    "outcomes differ, the main ones decide",
    "unclear": "only a trend, or figures of which the paper neither tests nor says that they "
    'differ; the state is then "partly"',
    "": "for a question such as which, how or what (the first sentence tells the direction), for "
    'one whose parts have different answers, and with the state "not"',
}


def _number(value: Any) -> Any:
    """A number as text, also where a model wrote none; what is no number is dropped later."""
    given = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return str(value)[:MAX_NUMBER_CHARS] if given else value


Number = Annotated[str, BeforeValidator(_number), Field(max_length=MAX_NUMBER_CHARS)]


class Finding(Answer):
    """What sentences of a paper say to the question, and of what kind that is."""

    sentences: Annotated[list[Number], Items(4, 'the numbers of its sentences, such as "2.7"')]
    says: Annotated[str, Text(15, "what they say, with the figures")]
    kind: Annotated[
        Literal["result", "recommendation", "planned", "method", "background"], Means("", KINDS)
    ]


class CitingSentence(Answer):
    """A sentence of the answer, and the numbers of the sentences that state it."""

    text: Annotated[str, Text(45, "the sentence, without any number of a sentence in it")]
    sentences: Annotated[
        list[Number],
        Items(
            8,
            "the numbers of all sentences that state it; that of a paper alone, such as "
            '"2", only for a sentence on nothing but what it does not tell ("No paper tells of '
            'stiffness.")',
        ),
    ]


_AS_THERE = Items(8, "as in `answer`")


class StudyStatement(Answer):
    """A sentence on one study."""

    text: Annotated[str, Text(35, "the sentence")]
    sentences: Annotated[list[Number], _AS_THERE]


class Limit(Answer):
    """A sentence on what weakens an answer."""

    text: Annotated[str, Text(25, "the sentence")]
    sentences: Annotated[list[Number], _AS_THERE]


class _Read(Answer):
    findings: Annotated[
        list[Finding],
        Items(
            12,
            "go through the papers one by one: every paper that bears on the question has a "
            "finding, also a plan; one on another treatment or condition has none. A study of the "
            'very comparison that does not tell the outcome has one of the kind "method". Where no '
            "paper answers, the nearest of the same treatment or condition has its result",
            "none does",
        ),
    ]
    state: Annotated[Literal["answered", "partly", "not"], Means("", STATES)]
    verdict: Annotated[
        Literal["yes", "no", "no difference", "mixed", "unclear", ""],
        Means("what the answer is to a question of yes or no", VERDICTS),
    ]


class _Chosen(Answer):
    choice: Annotated[
        int,
        Field(ge=0, le=MAX_OPTIONS),
        Means(
            "the number of the option that the papers support, from 1; 0 for none. The first "
            "sentence of `answer` then repeats its words"
        ),
    ]


class _Told(Answer):
    answer: Annotated[
        list[CitingSentence],
        Items(
            5,
            "the first sentence answers the question as it was asked, in at most 30 words, as one "
            "says it to the asker: which way, how far it goes and of whom, one of yes or no in a "
            'word ("Yes, in one small trial: ...", "Not shown: ...", "No harm was seen in 38 '
            'children."), one with several parts in a word for each ("Pain: yes, ...; function: '
            'not shown, in one trial of 50 women."). With '
            'the state "partly" it says too what is not told. The others are a list, each behind '
            'what it tells of ("Shoulder pain after 4 hours: ...", "Olanzapine: ..."): what else '
            "was asked, in that order; the sizes of each outcome that was asked for, with "
            "treatment, comparator, time, the people of each group, counts, interval or p where "
            "they are given; where several treatments, outcomes or studies answer, a line each",
            'the state is "not"',
        ),
    ]
    evidence: Annotated[
        list[StudyStatement],
        Items(
            8,
            "a line each, a study's together, the highest grade first. Of each study first its "
            "design, who took part, how many in each group, what against what and for how long, "
            "where not yet told. Then one outcome a line, behind its name "
            '("Pain at rest, the primary outcome: ..."): what else of the comparison asked for '
            "somebody who asks this weighs, also where nothing differed, such as its primary "
            "outcome and its harms (where harms were asked for, only harms); what qualifies or "
            'contradicts the answer. With the state "not" first what no paper tells, and how near '
            "the nearest comes; then that, in the same way",
            "there is nothing to add, or nothing is near",
        ),
    ]
    limits: Annotated[
        list[Limit],
        Items(
            3,
            "what the asker weighs before acting upon it, the weightiest first, in the asker's "
            "words, each as its sentences have it: the weakness that a paper names itself; whom it "
            "took, at what age, stage, dose or setting, where the question is of others; that it "
            "had no control or randomisation, or how few people; a subgroup. That a conclusion "
            "goes beyond the figures, only with the numbers of the sentence that concludes and "
            "of the figures. Nothing that no sentence shows, and not what is not reported: that "
            "stands in `missing` alone",
            'there are none, or the state is "not"',
        ),
    ]
    missing: Annotated[
        str,
        Text(
            40,
            "which part of what was asked no sentence of any paper tells, also none on methods, "
            "and no sentence of yours has said; look for it once more before you name it",
            "nothing is missing",
        ),
    ]


class _Search(Answer):
    search: Annotated[
        list[Annotated[str, Text(12, "in the words of papers")]],
        Items(
            3,
            "what to search for, where a further search may find what the answer lacks",
            "the papers suffice",
        ),
    ]


_READ: dict[str, Any] = {
    "findings": [
        {
            "sentences": ["1.6"],
            "says": "1.2 against 1.9 new carious surfaces at 2 years, P = 0.01",
            "kind": "result",
        },
        {
            "sentences": ["3.4"],
            "says": "92 children at low risk: not significantly fewer, 0.4 against 0.5",
            "kind": "result",
        },
    ],
    "state": "answered",
    "verdict": "yes",
}
_TOLD: dict[str, Any] = {
    "answer": [
        {
            "text": "Yes, in one trial of children at moderate risk: fluoride varnish twice a year "
            "left fewer new carious surfaces than no varnish.",
            "sentences": ["1.3", "1.6"],
        },
        {
            "text": "New surfaces after 2 years: 1.2 in the 118 children with varnish, 1.9 in the "
            "122 without (P = 0.01).",
            "sentences": ["1.3", "1.6"],
        },
    ],
    "evidence": [
        {
            "text": "Fillings: not significantly fewer (14% against 17%, P = 0.4).",
            "sentences": ["1.7"],
        },
        {
            "text": "New surfaces in 92 children at low risk, in another trial: not significantly "
            "fewer (0.4 against 0.5).",
            "sentences": ["3.2", "3.4"],
        },
    ],
    "limits": [
        {
            "text": "Children with braces were left out of both trials.",
            "sentences": ["1.2", "3.1"],
        },
        {
            "text": "Only 92 children at low risk took part.",
            "sentences": ["3.2"],
        },
    ],
    "missing": "Anything beyond 2 years.",
}
_SEARCH = {"search": ["fluoride varnish orthodontic brackets"]}


class PapersAnswer(_Told, _Read):
    """An answer from papers, in the order in which a model writes it."""

    example: ClassVar[dict[str, Any] | None] = _READ | _TOLD


class SearchingAnswer(_Search, PapersAnswer):
    """An answer that may ask for a further search."""

    example: ClassVar[dict[str, Any] | None] = _READ | _TOLD | _SEARCH


class ChosenFromPapers(PapersAnswer, _Told, _Chosen, _Read):
    """An answer to a question with options."""

    example: ClassVar[dict[str, Any] | None] = _READ | {"choice": 1} | _TOLD
