"""The extractive answer: verbatim sentences of the evidence, chosen without a model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srrag.algo.terms import terms
from srrag.answer.gate.answerable import packaged_model
from srrag.answer.gate.coverage import GENERAL, TextSource, held, typos, without_orders
from srrag.answer.select.candidates import (
    FEATURES,
    Candidate,
    Passage,
    Seen,
    asked_outcome,
    candidates,
    features,
    is_title,
    read_window,
)
from srrag.core.provenance import Fitted, packaged_fit
from srrag.reading.lexicon import ADVERSE_EVENT, TO_BE_SAID, lexicon, named_terms
from srrag.reading.statement import read_statement

PACKAGED = "sentence_weights.json"
LEAST_SCORE = 0.01
ON_QUESTION = 0.8
"""Share of the best passage's coverage from which a guideline is on the question."""
MIN_SENTENCE_COVERAGE = 0.05
REDUNDANCY = 0.6
"""Two sentences that share this much of their words (Jaccard) say the same."""
GUIDELINE_LEADS = 1.25
"""What another sentence must score times a guideline's on the question to lead before it: a stated
preference, as no public set holds guidelines to fit it on."""
DIFFER_OUTCOME = 0.5
"""Least share of the asked outcome that two sentences must both name to contradict each other."""
_KINDS = frozenset({"harm", *terms("symptoms events characteristics at baseline")})
"""Words for a kind of outcome, which papers call by what they measured."""
_SAID_OTHERWISE = (GENERAL | _KINDS) - {"fall"}
"""Outcomes that papers may have in other words; "falls" is what old people have, too."""
_EFFECT = lexicon("effect_asked")
"""What a question on an effect asks with; a paper's findings answer it, not what it read before."""
_MARKS = ".,;:?!()[]\"'“”‘’"


class ChosenSentence(NamedTuple):
    """A chosen sentence and the numbers (from 1) of the evidence that holds it verbatim."""

    text: str
    cites: list[int]


class Extract(NamedTuple):
    """Chosen sentences, best first, or none with the missing words if the evidence is too thin.

    `differ` holds the evidence numbers of two choices that contradict each other on the outcome,
    `unnamed` the asked outcome if that is why there are none.
    """

    choices: list[ChosenSentence]
    coverage: float
    absent: list[str]
    differ: tuple[int, ...] = ()
    unnamed: str = ""


class Asked(NamedTuple):
    """The weights of the question's terms, and how far the evidence covers them.

    `own` and `outcome` are the shares that each candidate covers, `around` the share that its
    passage and title cover, `coverage` the share that the best single passage covers. `paper` is
    the share that all found of a candidate's paper covers, weighted by how rare a term is in
    medical texts, squared; `paper_outcome` says whether that names the asked outcome.
    """

    own: NDArray[np.float64]
    outcome: NDArray[np.float64]
    around: NDArray[np.float64]
    paper: NDArray[np.float64]
    paper_outcome: NDArray[np.bool_]
    coverage: float
    absent: list[str]


@dataclass(frozen=True, kw_only=True)
class ExtractRule:
    """Rules that choose the sentences of an answer, or abstain.

    A term's weight is log(1 + n / (df + 0.5)) over the n sentences of the evidence block; the
    coverage of a text is the share of the question's weight that its terms carry, so that words
    which no evidence holds count most. Below `min_coverage` of the best passage, or without a
    sentence of MIN_SENTENCE_COVERAGE, there is no answer. A sentence scores by the learned
    weights of `sentence_features`, times the weights of its grade and its passage. The lead is the
    sentence with the best score, where scores of papers other than the first passage's are
    multiplied by `other_document`; guidelines that cover the question as well as the best passage
    are not. To a question on an effect, only a paper leads that covers `lead_covers` of what the
    best one does and, if any does, names the asked outcome. Sentences that state aims, methods or
    questions are never chosen, and no background and no protocol where a question asks for an
    effect. A sentence
    that opens with a contrast or a reference is quoted together with the sentence that it refers
    to, or not at all; one that the next sentence contradicts is quoted together with that one. If a
    question names an outcome of which no quoted passage holds a word, nothing is quoted; of an
    effect, the first paper has to hold it.
    """

    max_sentences: int = 5
    min_coverage: float = 0.4
    other_document: float = 0.3
    keep: float = 0.5
    lead_covers: float = 0.8

    def __call__(self, question: str, passages: Sequence[Passage]) -> Extract:
        """Choose sentences that answer the question, best first."""
        question = _read(question, passages)
        effect = _EFFECT.search(question) is not None
        found = candidates(passages)
        asked = _asked(question, passages, found)
        usable = asked.own >= MIN_SENTENCE_COVERAGE
        for i in np.flatnonzero(usable):
            usable[i] = _finds(found[i], passages, effect)
        if asked.coverage < self.min_coverage or not usable.any():
            return Extract([], asked.coverage, asked.absent)
        score = self._scores(asked, passages, found, usable)
        named = asked_outcome(question)
        chosen, differ = _opposed(
            self._diverse(score, self._lead(score, asked, passages, found, effect), found),
            asked.outcome, passages, found, "" if named == question else named,
        )  # fmt: skip
        shown = [read_window(each.text, each.section).shown for each in passages]
        choices = [ChosenSentence(found[i].text, _cites(found[i], shown)) for i in chosen]
        quoted = [passages[n - 1] for choice in choices for n in choice.cites]
        if effect:
            lead = passages[found[chosen[0]].passage]
            quoted = [each for each in passages if not _other_paper(each, lead)]
        if unnamed := _unnamed(question, quoted) or _unsaid_kind(question, choices):
            return Extract([], asked.coverage, asked.absent, unnamed=unnamed)
        numbers = tuple(found[i].passage + 1 for i in differ)
        return Extract(choices, asked.coverage, asked.absent, numbers)

    def _scores(
        self,
        asked: Asked,
        passages: Sequence[Passage],
        found: Sequence[Candidate],
        usable: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """The score of each candidate, 0 for unusable ones."""
        *weights, intercept = packaged_weights()
        told = seen(asked, found)
        rows = np.zeros((len(found), len(FEATURES)))
        rows[usable] = features([told[i] for i in np.flatnonzero(usable)])
        learned = rows @ np.array(weights) + intercept
        factors = np.array([each.factor for each in found])
        score: NDArray[np.float64] = np.maximum(learned, LEAST_SCORE) * factors * usable
        return score

    def _lead(
        self,
        score: NDArray[np.float64],
        asked: Asked,
        passages: Sequence[Passage],
        found: Sequence[Candidate],
        effect: bool,
    ) -> int:
        """Choose the first sentence, from the first paper or from a guideline on the question."""
        other = np.array([_other_paper(passages[each.passage], passages[0]) for each in found])
        guideline = np.array([passages[each.passage].grade == "A" for each in found])
        guideline &= asked.around >= ON_QUESTION * asked.around.max(initial=0.0)
        factor = np.where(other, self.other_document, 1.0)
        factor = np.where(guideline, GUIDELINE_LEADS, factor)
        able = score > 0
        if effect:
            able &= asked.paper >= self.lead_covers * asked.paper[able].max(initial=0.0)
            able &= asked.paper_outcome | ~(asked.paper_outcome & able).any()
        return int(np.argmax((score * factor * able).round(6)))

    def _diverse(
        self, score: NDArray[np.float64], lead: int, found: Sequence[Candidate]
    ) -> list[int]:
        """Return the lead, then by score what repeats no chosen sentence and no context of one."""
        order = np.lexsort((np.arange(len(score)), -score.round(6)))
        chosen = [lead]
        for i in order.tolist():
            if len(chosen) == self.max_sentences or score[i] < self.keep * score[lead]:
                break
            if not any(self._repeats(found[i], found[j]) for j in chosen):
                chosen.append(i)
        return chosen

    def _repeats(self, one: Candidate, other: Candidate) -> bool:
        """Whether one quote holds the other, or they share most of their words (Jaccard)."""
        within = one.core in other.text or other.core in one.text
        return within or _jaccard(one.stems, other.stems) >= REDUNDANCY


def _read(question: str, passages: Sequence[Passage]) -> str:
    """The question without orders to a model, its typos written as the passages have the words."""
    question = without_orders(question)
    texts = [text for each in passages for text in (each.title, each.text)]
    for typo, word in typos(question, texts, packaged_model().frequencies).items():
        question = question.replace(typo, word)
    return question


def _finds(each: Candidate, passages: Sequence[Passage], effect: bool) -> bool:
    """Whether a sentence may answer: no plan and, where an effect is asked for, no background.

    Nor is a title an effect, or what a protocol says. A guideline's background is what it knows, so
    grade A is exempt.
    """
    whole = passages[each.passage]
    before = (each.role in ("background", "method") and whole.grade != "A") or not whole.results
    return not each.plan and not (effect and (before or is_title(each.core)))


def _asked(question: str, passages: Sequence[Passage], found: Sequence[Candidate]) -> Asked:
    words = {stem: word for word in question.split() for stem in named_terms(word)}
    asked = sorted({*named_terms(question)})
    has = _membership(asked, [candidate.stems for candidate in found])
    if not asked or not found:
        absent = [words.get(term, term).strip(_MARKS) for term in asked]
        none = np.zeros(len(found))
        return Asked(none, none, none, none, none > 0, 0.0, absent)
    weight = np.log1p(len(found) / (has.sum(0) + 0.5))
    weight /= weight.sum()
    outcome = np.isin(asked, named_terms(asked_outcome(question)))
    named = outcome if asked_outcome(question) != question else np.zeros_like(outcome)
    inside = _membership(asked, [read_window(each.text, each.section).stems for each in passages])
    titles = _membership(asked, [frozenset(named_terms(passage.title)) for passage in passages])
    around = inside | titles
    names = np.array([each.paper or f"{n}" for n, each in enumerate(passages)])
    papers = np.array([around[names == name].any(axis=0) for name in names], bool)
    return Asked(
        has @ weight,
        (has & outcome) @ weight / (weight[outcome].sum() or 1.0),
        (around @ weight)[[each.passage for each in found]],
        (papers @ _rarity(asked))[[each.passage for each in found]],
        np.asarray((papers & named).any(axis=1))[[each.passage for each in found]],
        float((inside @ weight).max()),
        [words.get(asked[i], asked[i]).strip(_MARKS) for i in np.flatnonzero(~around.any(axis=0))],
    )


def _rarity(stems: Sequence[str]) -> NDArray[np.float64]:
    """The squared weight of each stem in medical texts, 0 for general ones."""
    frequencies = packaged_model().frequencies
    return np.array([0.0 if stem in GENERAL else frequencies.weight(stem) for stem in stems]) ** 2


def seen(asked: Asked, found: Sequence[Candidate]) -> list[Seen]:
    """The inputs of the learned weights for each candidate."""
    return [
        Seen(
            each.core, each.role, float(asked.own[i]), float(asked.around[i] - asked.own[i]),
            float(asked.outcome[i]), each.leans, each.passage, each.place,
        )
        for i, each in enumerate(found)
    ]  # fmt: skip


def _unnamed(question: str, quoted: Sequence[Passage]) -> str:
    """The asked outcome if the passages and their titles hold no word of it, else "".

    An outcome of general words alone ("side effects") is found under other names.
    """
    outcome = asked_outcome(question)
    named = {*named_terms(outcome)}
    if outcome == question or named <= _SAID_OTHERWISE:
        return ""
    texts = [(each.title, each.text) for each in quoted]
    if any(not named.isdisjoint(named_terms(text)) for both in texts for text in both):
        return ""
    found = held(outcome, [TextSource("", both) for both in texts], packaged_model().frequencies)
    return "" if found.inside[:, found.weights > 0].any() else outcome


def _unsaid_kind(question: str, choices: Sequence[ChosenSentence]) -> str:
    """A kind of outcome that a question asks for and no quote names, "" if none is missing."""
    asked = TO_BE_SAID.intersection(named_terms(asked_outcome(question)))
    said = {term for choice in choices for term in named_terms(choice.text)}
    if any(ADVERSE_EVENT.search(choice.text) for choice in choices):
        said.add("harm")
    return "" if asked & said else ", ".join(sorted(asked))


def _opposed(
    chosen: list[int],
    outcome: NDArray[np.float64],
    passages: Sequence[Passage],
    found: Sequence[Candidate],
    named: str,
) -> tuple[list[int], list[int]]:
    """Put a sentence that contradicts the lead second. Returns the choices and the two, or none.

    The two come from different papers, and both name the asked outcome and a direction; what all
    groups of a trial did contradicts nothing.
    """
    if not chosen or outcome[chosen[0]] < DIFFER_OUTCOME:
        return chosen, []
    lead, *others = chosen
    for i in others:
        apart = _other_paper(passages[found[i].passage], passages[found[lead].passage])
        if not apart or outcome[i] < DIFFER_OUTCOME:
            continue
        said, other = (read_statement(found[n].core, named) for n in (lead, i))
        both = (
            said.clear
            and other.clear
            and not any(lexicon("within").search(found[n].core) for n in (lead, i))
        )
        if both and other.direction != said.direction:
            return [lead, i, *(each for each in others if each != i)], [lead, i]
    return chosen, []


def _other_paper(a: Passage, b: Passage) -> bool:
    """Whether two passages come from different papers; unknown ones count as one."""
    return a is not b and "" not in (a.paper, b.paper) and a.paper != b.paper


def _cites(candidate: Candidate, shown: Sequence[str]) -> list[int]:
    """Numbers, from 1, of the passages that hold a text."""
    return [
        n for n, text in enumerate(shown, 1) if n == candidate.passage + 1 or candidate.text in text
    ]


@cache
def packaged_weights() -> tuple[float, ...]:
    """Weights of FEATURES, then the intercept, fitted by `python -m srrag.lab.fits.quotes fit`.

    Raises ValueError if the file is for other features.
    """
    told = json.loads(files("srrag.answer.select").joinpath(PACKAGED).read_text("utf-8"))
    if tuple(told["features"]) != FEATURES:
        raise ValueError(f"{PACKAGED}: of other features; fit it again")
    return (*map(float, told["weights"]), float(told["intercept"]))


def sentence_weights_fitted() -> Fitted:
    """What the packaged weights were fitted on."""
    return packaged_fit("srrag.answer.select", PACKAGED, "sentence weights")


def _membership(asked: list[str], stems: Sequence[frozenset[str]]) -> NDArray[np.bool_]:
    rows = [[term in each for term in asked] for each in stems]
    return np.array(rows, bool).reshape(len(stems), len(asked))


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a or b else 1.0
