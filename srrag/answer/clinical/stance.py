"""What each paper says of the asked outcome, by its own sentence, and whether papers agree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from srrag.answer.clinical.asked import AskedQuestion, Part
from srrag.answer.clinical.match import held_words, other_people
from srrag.answer.clinical.paper import CitedPaper, PaperSentence, states
from srrag.reading.prose import cut_sentences
from srrag.reading.protocols import has_no_results
from srrag.reading.statement import Direction, Statement, read_statement

LEAST_SHARE = 0.5
"""Least share of the words of intervention, comparison and population that a paper must hold."""
LEAST_OUTCOME = 0.6
"""Least share of the outcome's words that a sentence must hold."""
LEAST_NAMED = 0.5
"""Least share of the intervention's words in a sentence that tells that it does more, or less."""
LEAST_QUESTION = 0.5
"""The same of the whole question, where it names no outcome; then only cited papers count."""
_ROLE_ORDER = {"conclusion": 0, "result": 1, "": 2}
_ADDED = re.compile(
    r"\b(?:addition|added|adding|combin\w+|plus|adjunct\w*|incorporated|with and without"
    r"|with or without|together with)\b|\+",
    re.IGNORECASE,
)
"""Titles of papers that add something to a treatment, so that all their groups receive it."""
_ANY_OUTCOME = re.compile(
    r"\bno\b[^.;]{0,40}\bdifferences?\b[^.;]{0,40}\b(?:outcomes?|measures)\b[^.;]{0,40}"
    r"\b(?:between|among|groups?)\b",
    re.IGNORECASE,
)
_SHORT = re.compile(r"\(([^\s()]{2,12})\)")
"""A short form that a question defines."""
_WORDS = re.compile(r"[^\s(),;:]+")


@dataclass(frozen=True)
class PaperStance:
    """A paper on the asked outcome: the sentence that tells, its direction, and where it stands.

    What is not `clear` is no answer, but may contradict one.
    """

    number: int
    cited: bool
    grade: str
    title: str
    direction: Direction
    says: str
    sentence: str
    clear: bool = True


def stances(
    asked: AskedQuestion, papers: Sequence[CitedPaper], quoted: Sequence[str]
) -> list[PaperStance]:
    """The stance of each paper that is on the question; none of papers that name no direction.

    A paper is on the question if it holds half of the words of population, intervention and
    comparison, is not about other people, is no protocol, and does not add something to the
    treatment that a yes/no question asks of. What the answer quotes of it comes first, then its
    sentences that state something and name the outcome: conclusions, then results. It is clear if
    its sentence is, and either finds no difference between groups or no other one on the outcome
    reports otherwise.
    """
    fits = zip(papers, fitting(asked, papers), strict=True)
    told = [paper for paper, fit in fits if fit and not _plans(paper)]
    found = [_stance(asked, paper, quoted) for paper in told]
    return [each for each in found if each is not None]


def _plans(paper: CitedPaper) -> bool:
    """Whether a paper is a protocol; a guideline is none."""
    return paper.item["grade"] != "A" and has_no_results(paper.title, paper.text)


def fitting(
    asked: AskedQuestion, papers: Sequence[CitedPaper], names: Sequence[Part] = ("P", "I", "C")
) -> list[bool]:
    """Whether each paper is on these parts of the question."""
    texts = [paper.text for paper in papers]
    parts = [held_words(asked.part(name), texts) for name in names]
    shares = [min(each.share for each in row) for row in zip(*parts, strict=True)]
    return [
        share >= LEAST_SHARE
        and bool(asked.O or paper.cited)
        and not other_people(asked, paper)
        and not (asked.claim and not asked.C and _adds(asked, paper.title))
        for share, paper in zip(shares, papers, strict=True)
    ]


def _adds(asked: AskedQuestion, title: str) -> bool:
    """Whether a title adds something to what is asked of, or that to something."""
    return _ADDED.search(title) is not None and _ADDED.search(asked.text) is None


def _stance(asked: AskedQuestion, paper: CitedPaper, quoted: Sequence[str]) -> PaperStance | None:
    sentences = [each for each in paper.sentences if states(each)]
    shares = on_outcome(asked, [each.text for each in sentences])
    near = [each.text for each, share in zip(sentences, shares, strict=True) if share]
    agrees = len({stated(asked, each).direction for each in near} - {"unclear"}) < 2
    for quote in quoted if paper.cited else ():
        core = key_sentence(asked, quote)
        said = stated(asked, core).direction
        own = any(each.text in quote for each in sentences)
        if own and asked.answer_of(said) and on_outcome(asked, [core])[0]:
            return _of(asked, paper, core, said, agrees)
    told: list[tuple[tuple[float, ...], PaperSentence, Direction]] = []
    for sentence, share in zip(sentences, shares, strict=True):
        said = stated(asked, sentence.text).direction
        if asked.answer_of(said) and share:
            order = (_ROLE_ORDER[sentence.role], -round(share, 6), sentence.place)
            told.append((order, sentence, said))
    if not told:
        return None
    _, best, said = min(told, key=lambda each: each[0])
    return _of(asked, paper, best.text, said, agrees)


def _of(
    asked: AskedQuestion, paper: CitedPaper, sentence: str, said: Direction, agrees: bool
) -> PaperStance:
    return PaperStance(
        paper.number, bool(paper.cited), paper.item["grade"], paper.title, said,
        asked.answer_of(said), sentence,
        direction_in(asked, sentence) != "unclear"
        and (agrees or stated(asked, sentence).between_groups),
    )  # fmt: skip


def on_outcome(asked: AskedQuestion, sentences: Sequence[str]) -> list[float]:
    """How much of the outcome each sentence names, 0 where that is too little to be on it.

    A sentence that finds no difference between groups in any outcome is on each of them, and one
    with a short form that the question defines ("heart rate recovery (HRR)") is on that.
    """
    least = LEAST_OUTCOME if asked.O else LEAST_QUESTION
    shares = [each.share for each in held_words(asked.outcome, sentences)]
    short = {each for each in _SHORT.findall(asked.O) if sum(map(str.isupper, each)) > 1}
    return [
        max(share, least)
        if share >= least or _ANY_OUTCOME.search(sentence) or short & {*_WORDS.findall(sentence)}
        else 0.0
        for share, sentence in zip(shares, sentences, strict=True)
    ]


def key_sentence(asked: AskedQuestion, quote: str) -> str:
    """Of the sentences of a quote the one that names the outcome and a direction, best first.

    Where a comparison is asked for, one that finds no difference between groups comes before what
    changed within one.
    """
    parts = cut_sentences(quote) or [quote]
    shares = on_outcome(asked, parts)
    told = [stated(asked, part) for part in parts]
    order = [
        (
            not (asked.C and share and told[n].between_groups),
            not (share and told[n].direction != "unclear"),
            -round(share, 6),
            n,
        )
        for n, (part, share) in enumerate(zip(parts, shares, strict=True))
    ]
    return parts[min(order)[-1]]


def direction_in(asked: AskedQuestion, sentence: str) -> Direction:
    """The direction that a sentence clearly reports for the asked outcome, else "unclear".

    More or less is clear only where the sentence names the intervention.
    """
    said = stated(asked, sentence)
    if not said.clear:
        return "unclear"
    if said.direction != "no difference":
        named = held_words(asked.I, [sentence])[0].share >= LEAST_NAMED
        return said.direction if named else "unclear"
    return said.direction


def stated(asked: AskedQuestion, sentence: str) -> Statement:
    """What a sentence states of the asked outcome."""
    return read_statement(sentence, asked.outcome if asked.O else "", asked.I, asked.C)


@dataclass(frozen=True)
class PapersAgree:
    """What papers say together: yes, no, depends, higher, lower, no difference, mixed, or "".

    `sides` are what is said, each with the numbers of the papers that say so.
    """

    says: str
    sides: tuple[tuple[str, tuple[int, ...]], ...]
    by_uncited: bool = False
    """Whether the papers that the answer cites agree, and one that it does not cite does not."""

    @property
    def disagree(self) -> bool:
        """Whether two papers say different things."""
        return len(self.sides) > 1


def agreement(asked: AskedQuestion, found: Sequence[PaperStance]) -> PapersAgree:
    """What the papers say together; nothing if they agree and none of them is clear."""
    sides: dict[str, list[int]] = {}
    for each in found:
        sides.setdefault(each.says, []).append(each.number)
    mixed = "depends" if asked.claim else "mixed"
    alone = next((each.says for each in found if each.clear), "")
    cited = {each.says for each in found if each.cited}
    told = tuple((name, tuple(numbers)) for name, numbers in sides.items())
    return PapersAgree(alone if len(sides) < 2 else mixed, told, len(sides) > 1 and len(cited) == 1)
