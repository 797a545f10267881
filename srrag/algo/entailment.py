"""Does a text state a claim: the lexical rule by which judges answer without a model.

It compares words, so it misses paraphrases, and may take a claim that reuses a text's words for
stated; `srrag evaluate bench=nli` measures how often.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Literal, NamedTuple

import Stemmer

from srrag.algo.terms import STOPWORDS

Verdict = Literal["supported", "contradicted", "neutral"]

VERSION = 2
"""Raise it when a verdict changes: it is part of the identity of judges that use these rules."""

THRESHOLD = 0.43
"""Share of a claim's words from which it counts as stated.

Chosen, with GIVEN_WEIGHT, the window and the table of synonyms, on those physicians' votes of
K-QA whose question has an even CRC-32 (95 of 244 pairs); the others were not looked at. They stand
in `srrag/lab/judges/rules.json`, so that an evaluation keeps their questions apart.
"""

SENTENCE_THRESHOLD = 0.6
"""The same for a single sentence or claim: stricter; chosen, not tuned."""
GIVEN_WEIGHT = 0.7
"""Weight of a word that the question holds already: any answer repeats it."""
WINDOW_SENTENCES = 3
ABSENT_NUMBER = 0.5
"""What the score is multiplied by if the claim names a number that the text does not."""
DENIAL_SHARE = 0.8
"""Share of the claim's words that one clause holds before it can deny the claim.

Below that, or elsewhere in the sentence, a negation is mostly about something else.
"""
_PREFIX_CHARS = 5
_ENDING_CHARS = 2

_SYNONYMS = """
doctor physician clinician provider professional pharmacist specialist healthcare gp attention consult seek
drug medication medicine medicinal
child kid pediatric paediatric
drowsy drowsiness sleepy sleepiness tired tiredness fatigue
illness disease disorder
reduce decrease lower lessen diminish decline fall
increase raise higher rise elevate greater
pain ache sore hurt discomfort
exercise activity training
improve enhance better beneficial benefit
harmful adverse dangerous unsafe
safe safety harmless
begin start initiate onset
stop cease discontinue
pregnant pregnancy
infant baby newborn
symptom sign
surgery operation operative
heart cardiac cardiovascular
kidney renal
liver hepatic
stomach gastric gastrointestinal gi
skin dermal cutaneous
swelling edema oedema
hypertension pressure
efficacy effective effectiveness effect
evidence indication
elderly older
woman women female
man men male
quick rapid fast
test examination exam testing screening
eye ocular vision
last duration persist
advise recommend suggest
eat food diet dietary consume
"""  # noqa: E501
_OPPOSITES = (
    ("increase", "reduce"),
    ("safe", "harmful"),
    ("begin", "stop"),
    ("more", "less"),
    ("before", "after"),
    ("possible", "impossible"),
    ("likely", "unlikely"),
)
_NEGATION = re.compile(
    r"\b(?:no|not|nor|never|neither|none|without|cannot|lacks?|fail(?:s|ed)?|absence|avoid)\b|n't\b"
)
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_CLAUSE_END = re.compile(
    r"(?<=[.!?])\s+|\n+|[;:()]|,\s|\s(?:and|but|or|while|although|though|whereas|which|because)\s"
)


class Entailment(NamedTuple):
    """A verdict, the share of the claim's words found, and why."""

    verdict: Verdict
    score: float
    reason: str


def entails(text: str, claim: str, question: str = "", threshold: float = THRESHOLD) -> Entailment:
    """Whether a text states a claim, by the words that they share.

    The score is the mean of two shares of the claim's content words: of those in the best three
    successive sentences, and of those in the whole text. From `threshold` on, the claim is
    supported if the text names all of its numbers, unless the clauses that hold nearly all of it
    deny it: they negate where the claim does not, or the other way round, or say the opposite of
    one of its words.
    """
    words = dict.fromkeys(content_stems(claim))
    if not words:
        return Entailment("neutral", 0.0, "the claim holds no content word")
    given = _stem_set(question)
    weights = {word: GIVEN_WEIGHT if _found(word, given) else 1.0 for word in words}
    stems = [_stem_set(sentence) for sentence in sentences(text) or [""]]
    shares = [
        _share(weights, frozenset().union(*stems[start : start + WINDOW_SENTENCES]))
        for start in range(len(stems))
    ]
    everything = frozenset().union(*stems)
    score = (max(shares) + _share(weights, everything)) / 2
    absent = [word for word in words if word[0].isdigit() and word not in everything]
    if absent:
        score *= ABSENT_NUMBER
    said = f"{score:.0%} of the claim's words are in the text"
    if absent:
        said += f"; it names no {', '.join(absent[:3])}"
    if score < threshold:
        return Entailment("neutral", score, said)
    if denial := _denied(text, claim, weights):
        return Entailment("contradicted", score, f"{said}; {denial}")
    if absent:  # of a long claim one dose is a small share of the words
        return Entailment("neutral", score, said)
    return Entailment("supported", score, said)


def sentences(text: str) -> list[str]:
    """The sentences of a text, roughly: lines, and what ends with a stop and a blank."""
    return [part for part in _SENTENCE_END.split(text) if part.strip()]


_THOUSANDS = re.compile(r"(?<=\d)[,\u2009\u202f](?=\d{3}(?!\d))")
_ZEROS = re.compile(r"(?<![\d.])(\d+)(?:(\.\d*?[1-9])0+|\.0+)(?![\d.]*\d)")


def _plain(text: str) -> str:
    """1,200 as 1200, 0\u00b7730 and 0.730 as 0.73."""
    text = re.sub(r"(?<=\d)[\u00b7\u2219\u22c5](?=\d)", ".", _THOUSANDS.sub("", text))
    return _ZEROS.sub(lambda m: m[1] + (m[2] or ""), text)


def content_stems(text: str) -> list[str]:
    """Stems of the content words, one stem for each group of synonyms; numbers as they are."""
    stemmer, synonyms = _stemmer(), _synonyms()
    words = [w for w in _WORD.findall(_plain(text.lower())) if w not in STOPWORDS]
    return [synonyms.get(stem, stem) for stem in stemmer.stemWords(words)]


@lru_cache(maxsize=1 << 14)
def _stem_set(text: str) -> frozenset[str]:
    """The content stems of a sentence: one evidence is compared with many claims."""
    return frozenset(content_stems(text))


def _share(weights: dict[str, float], stems: frozenset[str]) -> float:
    """Weight of the words that are among the stems, as a share of all."""
    return sum(w for word, w in weights.items() if _found(word, stems)) / sum(weights.values())


def _found(word: str, stems: frozenset[str]) -> bool:
    """Whether a stem is there, or one that ends otherwise: "infect" and "infecti".

    "Hypotension" is not "hypothyroidism": only the last letters may differ.
    """
    if word in stems:
        return True
    return word.isalpha() and any(_differ_in_ending(word, stem) for stem in stems)


@lru_cache(maxsize=1 << 16)
def _differ_in_ending(word: str, stem: str) -> bool:
    start = word[:_PREFIX_CHARS]
    if len(start) < _PREFIX_CHARS or not stem.startswith(start):
        return False
    kept = max(len(word), len(stem)) - _ENDING_CHARS
    return word[:kept] == stem[:kept]


def _denied(text: str, claim: str, weights: dict[str, float]) -> str:
    """How all clauses that speak of nearly all of a claim deny it, or ""."""
    polar = frozenset(_polar_stems().values())
    words = {word: weight for word, weight in weights.items() if word not in polar} or weights
    denials = [
        _denial(clause.lower().replace("’", "'"), claim.lower().replace("’", "'"))
        for clause in _CLAUSE_END.split(text)
        if _share(words, _stem_set(clause)) >= DENIAL_SHARE
    ]
    return denials[0] if denials and all(denials) else ""


def _denial(clause: str, claim: str) -> str:
    """How a clause denies a claim, or ""."""
    here, there = _polar(clause), _polar(claim)
    differ = len(_NEGATION.findall(clause)) % 2 != len(_NEGATION.findall(claim)) % 2
    for pair in _OPPOSITES:
        for left, right in (pair, pair[::-1]):
            if left in here - there and right in there - here:
                return "" if differ else f"the text says {left!r}, the claim {right!r}"
    return "one of them negates, the other does not" if differ else ""


def _polar(text: str) -> frozenset[str]:
    """The words of _OPPOSITES that a text holds, synonyms included."""
    stems = [_synonyms().get(s, s) for s in _stemmer().stemWords(_WORD.findall(text))]
    return frozenset(name for name, stem in _polar_stems().items() if stem in stems)


@cache
def _polar_stems() -> dict[str, str]:
    names = [name for pair in _OPPOSITES for name in pair]
    stems = _stemmer().stemWords(names)
    return {name: _synonyms().get(s, s) for name, s in zip(names, stems, strict=True)}


@cache
def _synonyms() -> dict[str, str]:
    """Stem to the first stem of its group."""
    found: dict[str, str] = {}
    for line in _SYNONYMS.split("\n"):
        stems = _stemmer().stemWords(line.split())
        for stem in stems:
            found.setdefault(stem, stems[0])
    return found


@cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english")
