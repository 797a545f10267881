"""Other wordings of a question without a model: from the corpus's own words."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from srrag.algo.terms import STOPWORDS, terms
from srrag.core.units import Units
from srrag.index.words import WordIndex

Floats = npt.NDArray[np.float64]

FEEDBACK_WINDOWS = 5
FEEDBACK_TERMS = 8
_WORD = re.compile(r"[^\W_](?:[\w'’/+-]*[^\W_])?")
_CLEAN = re.compile(r"[\w+/'’.-]+")


@dataclass(frozen=True)
class Rewording:
    """The inputs of rewording: the BM25 index, the texts of its windows, and the abbreviations."""

    index: WordIndex
    units: Units
    abbreviations: Mapping[str, str]

    def __call__(self, question: str) -> list[str]:
        """Up to three versions, distinct and unlike the question.

        They stand for BioGen's clinical, patient-focused and aspect-specific versions: the question
        with its abbreviations written out, the rarer half of its words, and the question with the
        `FEEDBACK_TERMS` most telling words of its `FEEDBACK_WINDOWS` best windows (RM3).
        """
        versions = (
            written_out(question, self.abbreviations),
            self.rare(question),
            " ".join([question, *self.feedback(question)]),
        )
        found = {_plain(question): ""}
        for version in versions:
            if _plain(version):
                found.setdefault(_plain(version), version)
        return [version for version in found.values() if version]

    def rare(self, question: str) -> str:
        """The rarer half of a question's content words by inverse document frequency, in order."""
        words = list(dict.fromkeys(w for w in _WORD.findall(question) if _tells(w)))
        if len(words) < 2:
            return ""
        rarity = [self.rarity(word) for word in words]
        half = (len(words) + 1) // 2
        kept = sorted(range(len(words)), key=lambda n: (-rarity[n], n))[:half]
        return " ".join(words[n] for n in sorted(kept))

    def rarity(self, word: str) -> float:
        """Inverse document frequency of a word; of several terms in it the rarest counts."""
        held = [self.index.document_frequency(term) for term in self.index.terms(word)]
        return max((math.log(1 + len(self.index) / (1 + count)) for count in held), default=0.0)

    def feedback(self, question: str) -> list[str]:
        """The words that distinguish the best windows: RM1 (Lavrenko and Croft 2001) times rarity.

        P(w) is the sum over windows of P(w | window) times the window's share of the BM25 scores;
        it counts times the word's inverse document frequency, without which the words are those of
        any abstract. A word is written as the windows write it most often; numbers, and words of
        the question, are left out.
        """
        ((ids, scores),) = self.index.search([question], FEEDBACK_WINDOWS)
        if not len(ids):
            return []
        texts = self.units.take(ids.to_pylist(), ("text",))["text"].to_pylist()
        likely = likely_words(texts, np.asarray(scores, np.float64), question)
        worth = {word: share * self.rarity(word) for word, share in likely.items()}
        best = sorted(worth, key=lambda word: (-round(worth[word], 12), word))
        return best[:FEEDBACK_TERMS]


def likely_words(texts: Sequence[str], scores: Floats, question: str) -> dict[str, float]:
    """P(w) of the words of scored texts that the question lacks, stem by stem."""
    asked = set(terms(question))
    weight: defaultdict[str, float] = defaultdict(float)
    written: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text, share in zip(texts, scores / scores.sum(), strict=True):
        words = [word for word in _WORD.findall(text) if _tells(word)]
        for word in words:
            (stem, *_) = terms(word) or [word.lower()]
            if stem not in asked:
                weight[stem] += float(share) / len(words)
                written[stem][word] += 1
    return {
        min(words.items(), key=lambda pair: (-pair[1], pair[0]))[0]: weight[stem]
        for stem, words in written.items()
    }


def written_out(question: str, abbreviations: Mapping[str, str]) -> str:
    """The question with each abbreviation, where it first stands, as "long form (ABC)"."""
    done: set[str] = set()
    lower = question.casefold()

    def whole(found: re.Match[str]) -> str:
        word = found[0]
        short = word.rstrip(".'’-")
        long = abbreviations.get(short, "")
        if not long or short in done or long.casefold() in lower:
            return word
        done.add(short)
        return f"{long} ({short}){word[len(short) :]}"

    return _CLEAN.sub(whole, question)


def _tells(word: str) -> bool:
    """Whether a word says what a text is about: no stop word, no number, no single letter."""
    return len(word) > 1 and word.lower() not in STOPWORDS and not word.isdigit()


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
