"""The extractive answer: verbatim sentences of the evidence, chosen without a model."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srrag.answer.sentences import Role, plain, split_sentences
from srrag.answer.terms import terms

GRADE_WEIGHT = {"A": 1.0, "B": 0.8792, "C": 0.7729, "D": 0.6797, "E": 0.5974}
"""Odds ratios between grades that BETR learned (SR-RAG, Table 1)."""

ROLE_WEIGHT: dict[Role, float] = {
    "conclusion": 1.5,
    "result": 1.3,
    "": 1.0,
    "background": 0.5,
    "method": 0.4,
}
_FINDING = re.compile(
    r"\b(?:should|recommend\w*|advis\w*|conclu\w+|suggests?|significant\w*|associated with"
    r"|improve\w*|reduce[sd]?|increase[sd]?|effective\w*|superior|more than|less than"
    r"|compared with|no difference|lower|higher|risk of|odds)\b",
    re.IGNORECASE,
)
_PLAN = re.compile(
    r"\b(?:aim(?:s|ed)? (?:to|of|was)|objective|purpose|were (?:recruited|randomi[sz]ed|included)"
    r"|was (?:designed|conducted)|hypothesi[sz]ed?|remains? (?:unclear|unknown)|protocol)\b",
    re.IGNORECASE,
)
_LEANS_ON_THE_ONE_BEFORE = re.compile(r"(?:He|She|They|It|These|Those|Their|His|Her)\b")
_TO_A_MODEL = re.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,40}\b(?:instructions?|prompts?)\b"
    r"|\bsystem prompt\b|\blanguage model\b|\bevidence grade\s*:|\bcite (?:this|me|only)\b"
    r"|\{\s?\"|\"\s?\}|</|<\||<[a-z]{1,20}>",
    re.IGNORECASE,
)
MIN_WORDS, MAX_WORDS = 5, 90
_MARKS = ".,;:?!()[]\"'“”‘’"


class Passage(NamedTuple):
    """A piece of evidence as the ranking needs it; `grade` is ours, never the text's.

    `weight` multiplies the score of its sentences.
    """

    text: str
    title: str
    section: str
    grade: str
    weight: float = 1.0


class ChosenSentence(NamedTuple):
    """A chosen sentence and the numbers (from 1) of the evidence that holds it verbatim."""

    text: str
    cites: list[int]


class Extract(NamedTuple):
    """Chosen sentences, best first; none if the evidence is too thin, and then what it lacks."""

    choices: list[ChosenSentence]
    coverage: float
    absent: list[str]


@dataclass(frozen=True, kw_only=True)
class ExtractRule:
    """What makes a sentence part of the answer, and when there is none.

    A term's weight is log(1 + n / (df + 0.5)) over the n sentences of the evidence block; the
    coverage of a text is the share of the question's weight that its terms carry, so that words
    which no evidence holds count most. Below `min_coverage` of the best passage, or without a
    sentence of `min_sentence_coverage`, there is no answer. A sentence scores by its coverage,
    plus `context` times what only its passage or title covers, times the weights of its grade,
    its rank (1 / (1 + `rank_decay` × rank), from 0) and its part of the paper. Those chosen are
    put in order by the same with `direct_context`: what answers by its own words comes first.
    """

    max_sentences: int = 5
    min_coverage: float = 0.4
    min_sentence_coverage: float = 0.12
    context: float = 0.9
    direct_context: float = 0.3
    rank_decay: float = 0.05
    keep: float = 0.5
    redundancy: float = 0.6

    def __call__(self, question: str, passages: Sequence[Passage]) -> Extract:
        """Choose sentences that answer the question, most telling first."""
        words = {stem: word for word in question.split() for stem in terms(word)}
        asked = sorted(words)
        found = _candidates(passages)
        if not asked or not found:
            return Extract([], 0.0, [words[term].strip(_MARKS) for term in asked])
        has = _membership(asked, [candidate.stems for candidate in found])
        weight = np.log1p(len(found) / (has.sum(0) + 0.5))
        weight /= weight.sum()
        stems = [frozenset(terms(passage.text)) for passage in passages]
        titles = [frozenset(terms(passage.title)) for passage in passages]
        inside = _membership(asked, stems)
        around = inside | _membership(asked, titles)
        coverage = float((inside @ weight).max())
        absent = [words[asked[i]].strip(_MARKS) for i in np.flatnonzero(~around.any(axis=0))]
        own = has @ weight
        if coverage < self.min_coverage or own.max() < self.min_sentence_coverage:
            return Extract([], coverage, absent)
        rank = np.array([candidate.passage for candidate in found])
        factor = np.array([candidate.factor for candidate in found])
        factor /= 1 + self.rank_decay * rank
        beside = (around[rank] @ weight) - own
        score = (own + self.context * beside) * factor
        score[own < self.min_sentence_coverage] = 0
        chosen = self._diverse(score, [candidate.stems for candidate in found])
        direct = ((own + self.direct_context * beside) * factor).round(6)
        chosen.sort(key=lambda i: -direct[i])
        shown = [plain(passage.text) for passage in passages]
        return Extract(
            [
                ChosenSentence(
                    found[i].text, [n for n, text in enumerate(shown, 1) if found[i].text in text]
                )
                for i in chosen
            ],
            coverage,
            absent,
        )

    def _diverse(self, score: NDArray[np.float64], stems: list[frozenset[str]]) -> list[int]:
        """Take sentences by score unless they overlap with one taken (Jaccard of their stems)."""
        order = np.lexsort((np.arange(len(score)), -score.round(6)))
        chosen: list[int] = []
        for i in order.tolist():
            if len(chosen) == self.max_sentences or score[i] < self.keep * score[order[0]]:
                break
            if all(_jaccard(stems[i], stems[j]) < self.redundancy for j in chosen):
                chosen.append(i)
        return chosen


class _Candidate(NamedTuple):
    text: str
    passage: int
    stems: frozenset[str]
    factor: float


def _candidates(passages: Sequence[Passage]) -> list[_Candidate]:
    """Whole sentences that state something, each once, at its best-ranked passage."""
    found: dict[str, _Candidate] = {}
    for number, passage in enumerate(passages):
        weight = passage.weight * GRADE_WEIGHT.get(passage.grade, GRADE_WEIGHT["E"])
        for text, role in split_sentences(passage.text, passage.section):
            if text in found or not _states(text):
                continue
            factor = weight * ROLE_WEIGHT[role]
            factor *= 1.15 if _FINDING.search(text) else 1.0
            factor *= 0.6 if _PLAN.search(text) else 1.0
            factor *= 0.7 if _LEANS_ON_THE_ONE_BEFORE.match(text) else 1.0
            factor *= 1.0 if text[-1] in ".!)\"'”’" else 0.7
            found[text] = _Candidate(text, number, frozenset(terms(text)), factor)
    return list(found.values())


def _states(text: str) -> bool:
    """Whether a text is a whole statement: no question, fragment or order to a model."""
    words = text.count(" ") + 1
    opens = text[0].isupper() or text[0].isdigit() or text[0] in "\"'“‘(["
    states = MIN_WORDS <= words <= MAX_WORDS and opens and text[-1] not in "?:"
    return states and _TO_A_MODEL.search(text) is None


def _membership(asked: list[str], stems: Sequence[frozenset[str]]) -> NDArray[np.bool_]:
    rows = [[term in each for term in asked] for each in stems]
    return np.array(rows, bool).reshape(len(stems), len(asked))


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a or b else 1.0
