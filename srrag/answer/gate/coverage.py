"""Coverage: how many words of a question the evidence holds, as input of the answer gate.

A word's weight is its rarity in medical texts at large, so a general word ("another", "effect")
weighs almost nothing in every corpus. A text holds a word if it has the same stem, a word with the
same first six letters, one of the same kind of outcome, for an acronym a run of words with these
initials or, for a word of such a run, the acronym ("amyotrophic lateral sclerosis" and ALS). A word
that medical texts do not know is held by one with a letter more, less or changed, and a name such
as vitamin D by that name alone.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from srrag.algo.terms import terms
from srrag.answer.select.candidates import speaks_to_a_model
from srrag.reading.lexicon import LETTERED, kinds_of, lettered, words
from srrag.reading.prose import cut_sentences

Floats = npt.NDArray[np.float64]

FEATURES = (
    "document_coverage", "passage_coverage", "heaviest_missing", "rarest_held", "num_telling",
    "absent_telling",
)  # fmt: skip
"""What `features` measures, in order."""
PREFIX_CHARS = 6
NUM_RAREST = 3
TELLING = 0.45
"""Least weight of a telling word, which occurs in fewer than about 2 % of texts."""
_WORD = re.compile(r"[^\W_]+")
_ACRONYM = re.compile(r"[A-Z]{2,6}s?\Z")
_ACRONYMS = re.compile(r"[A-Z](?<![^\W_].)[A-Z]{1,5}s?(?![^\W_])")
MAX_RUN = 6
"""Words of the longest run whose initials may be an acronym, those between content words too."""
LEAST_ACRONYM = 3
"""Letters of an acronym that the question does not give: two letters mean too many things."""
_BRACKETED = re.compile(r"((?:[\w-]+ ){1,8})\(([A-Z][A-Za-z]{1,6})\)")
LEAST_TYPO = 5
"""Letters of a stem that another with one letter more, less or changed may stand for."""
_NUMBER = re.compile(r"\d+[a-z]{0,3}\Z", re.IGNORECASE)
GENERAL = frozenset(terms(" ".join(words("general"))))
"""Words common to all questions; their absence from the evidence says nothing."""


class TextSource(NamedTuple):
    """A piece of evidence: its document, and its texts, such as title, section and text."""

    document: str
    texts: tuple[str, ...]


class Held(NamedTuple):
    """The words of a question, the weight of each (0…1), and the sources that hold each.

    `inside` is (sources, words). `documents` (sources, words) joins all sources of one document.
    """

    words: list[str]
    weights: Floats
    inside: npt.NDArray[np.bool_]
    documents: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Frequencies:
    """How many of `num_texts` medical texts hold each stem; 0 for stems not listed."""

    num_texts: int
    counts: Mapping[str, int]

    def weight(self, stem: str) -> float:
        """Weight of a stem: 0 if every text holds it, 1 if none does."""
        found = np.log((self.num_texts + 1) / (self.counts.get(stem, 0) + 1))
        return float(found / np.log(self.num_texts + 1))


def count_texts(texts: Iterable[str], least: int) -> Frequencies:
    """Document frequencies of the stems that occur in at least `least` texts."""
    counts: dict[str, int] = {}
    number = 0
    for text in texts:
        number += 1
        for stem in {*terms(text)}:
            counts[stem] = counts.get(stem, 0) + 1
    kept = {stem: counts[stem] for stem in sorted(counts) if counts[stem] >= least}
    return Frequencies(number, kept)


def held(question: str, sources: Sequence[TextSource], frequencies: Frequencies) -> Held:
    """Which words of the question the sources hold, without numbers, letters and stop words.

    A sentence that speaks to a model is no part of the question, unless there is no other, and a
    typo is read as the word that it stands for.
    """
    question = html.unescape(without_orders(question))
    texts = [text for source in sources for text in source.texts]
    for typo, word in typos(question, texts, frequencies).items():
        question = question.replace(typo, word)
    asked = _BRACKETED.sub(_written_out, question)
    stems = {
        stem: word
        for word in _WORD.findall(LETTERED.sub("", asked))
        if len(word) > 1 and not _NUMBER.match(word)
        for stem in terms(word)
    } | lettered(question)
    weights = np.array([0.0 if s in GENERAL else frequencies.weight(s) for s in stems])
    seen = [_seen(source.texts) for source in sources]
    short = acronyms(question)
    rows = [[each.holds(s, word, short.get(s, ())) for s, word in stems.items()] for each in seen]
    inside = np.array(rows, bool).reshape(len(sources), len(stems))
    names = np.array([source.document for source in sources])
    whole = [inside[names == name].any(axis=0) for name in names]
    documents = np.array(whole, bool).reshape(inside.shape)
    return Held([*stems.values()], weights, inside, documents)


def without_orders(question: str) -> str:
    """A question without the sentences that speak to a model, unless there is no other."""
    said = [each for each in cut_sentences(question) if not speaks_to_a_model(each)]
    return " ".join(said) or question


def typos(question: str, texts: Sequence[str], frequencies: Frequencies) -> dict[str, str]:
    """Words of a question that medical texts do not know, with the words that they stand for.

    These are words of the texts with a letter more, less or changed. What the texts hold, or begin
    like, is no typo.
    """
    unknown = {
        stem: word
        for word in _WORD.findall(question)
        for stem in terms(word)
        if len(stem) >= LEAST_TYPO and stem not in frequencies.counts
    }
    if unknown:
        folded = "\n".join(texts).lower()
        unknown = {s: word for s, word in unknown.items() if not _stands_in(folded, word.lower())}
    if not unknown:
        return {}
    heads = {_british(stem)[:2] for stem in unknown} | {stem[:2] for stem in unknown}
    seen = [
        word
        for text in texts
        for word in _WORD.findall(text)
        if (head := word[:4].lower())[:2] in heads
        or ("e" in head[1:3] and _british(head)[:2] in heads)
    ]  # the stems of others do not begin like one of these, in British spelling or American
    known = {stem: word for word in seen for stem in terms(word)}
    begin = {_british(stem)[:PREFIX_CHARS] for stem in known}
    meant = {
        word: next((known[other] for other in known if _mistyped(stem, other)), "")
        for stem, word in unknown.items()
        if _british(stem)[:PREFIX_CHARS] not in begin
    }
    return {word: other for word, other in meant.items() if other}


def _stands_in(folded: str, word: str) -> bool:
    """Whether a text in small letters has a word, as most do that are no typo."""
    whole = rf"{word}(?<![^\W_]{word})(?![^\W_])"
    return word in folded and re.search(whole, folded) is not None


def _written_out(found: re.Match[str]) -> str:
    """Words without the acronym in brackets behind them, if it is theirs."""
    initials = "".join(part[0] for part in re.split(r"[ -]+", found[1].strip()) if part).upper()
    return found[1] if initials.endswith(found[2].upper()) else found[0]


def _mistyped(stem: str, other: str) -> bool:
    """Whether two stems that begin alike differ by one letter more, less or changed."""
    if stem[:2] != other[:2] or abs(len(stem) - len(other)) > 1:
        return False
    short, long = sorted((stem, other), key=len)
    same = next(
        (n for n, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short)
    )
    return short[same + (len(short) == len(long)) :] == long[same + 1 :]


def acronyms(question: str) -> dict[str, set[str]]:
    """For each stem of a question, the initials of the runs of words that it stands in.

    A run begins and ends with a content word; between them function words may count or not ("range
    of motion" is ROM). Two letters count only where the question has them in capitals itself.
    """
    words = _WORD.findall(html.unescape(question))
    stems = [terms(word) for word in words]
    given = {word.rstrip("s") for word in words if _ACRONYM.match(word)}
    found: dict[str, set[str]] = {}
    for first in range(len(words)):
        for last in range(first + 1, min(first + MAX_RUN, len(words))):
            run = range(first, last + 1)
            if not stems[first] or not stems[last]:
                continue
            content = [i for i in run if stems[i]]
            for members in (content, [*run]):
                letters = "".join(words[i][0] for i in members).upper()
                if len(letters) >= LEAST_ACRONYM or letters in given:
                    for stem in (stem for i in content for stem in stems[i]):
                        found.setdefault(stem, set()).add(letters)
    return found


class _Seen:
    """What a source holds; what only some questions ask for is read when one does."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._plain = {stem for text in texts for stem in terms(text)}
        self.stems = self._plain.union(*map(lettered, texts))
        self.kinds = kinds_of(self.stems)

    @cached_property
    def beginnings(self) -> set[str]:
        """The first letters of its stems, in American spelling."""
        return {stem[:PREFIX_CHARS] for stem in _british(" ".join(self._plain)).split()}

    @cached_property
    def acronyms(self) -> set[str]:
        """Its words in capitals, in the singular."""
        return {word.rstrip("s") for text in self._texts for word in _ACRONYMS.findall(text)}

    @cached_property
    def initials(self) -> str:
        """The first letters of all its words, in capitals."""
        return "".join([word[0] for text in self._texts for word in _WORD.findall(text)]).upper()

    def holds(self, stem: str, word: str, short: Collection[str]) -> bool:
        if stem in self.stems:
            return True
        if (
            len(stem) >= PREFIX_CHARS
            and " " not in stem
            and _british(stem)[:PREFIX_CHARS] in self.beginnings
        ):
            return True
        if not self.acronyms.isdisjoint(short) or not self.kinds.isdisjoint(kinds_of([stem])):
            return True
        return len(word) > 2 and bool(_ACRONYM.match(word)) and word.rstrip("s") in self.initials


_seen = lru_cache(maxsize=512)(_Seen)
"""The last ones are kept: questions share windows."""


def _british(stem: str) -> str:
    """Map British to American spelling: anaemia to anemia, oedema to edema, foetal to fetal."""
    return stem.replace("ae", "e").replace("oe", "e")


def features(found: Held) -> Floats:
    """FEATURES of a question and its sources, float64; nothing is covered without sources."""
    weights = found.weights
    if not len(weights) or not len(found.inside):
        blank = {"heaviest_missing": 1.0, "absent_telling": 1.0}
        return np.array([blank.get(name, 0.0) for name in FEATURES])
    mass = shares(found)
    whole = found.documents @ mass
    best = found.documents[int(np.argmax(whole))]
    union = found.inside.any(axis=0)
    rarest = np.argsort(-weights, kind="stable")[:NUM_RAREST]
    return np.array(
        [
            whole.max(),
            (found.inside @ mass).max(),
            weights[~best].max(initial=0.0),
            float(best[rarest].mean()),
            np.log1p((weights >= TELLING).sum()),
            float((weights[~union] >= TELLING).sum() / max(1, (weights >= TELLING).sum())),
        ]
    )


def shares(found: Held) -> Floats:
    """The share of the question's weight that each of its words carries, by squares."""
    mass = found.weights**2
    return np.asarray(mass / max(mass.sum(), 1e-9), np.float64)


def missing_words(found: Held) -> list[str]:
    """Telling words of the question that no source holds, in order."""
    union = found.inside.any(axis=0) if len(found.inside) else np.zeros(len(found.words), bool)
    return _telling(found, ~np.asarray(union, bool))


def lacked_words(found: Held) -> list[list[str]]:
    """For each source, the telling words that neither it nor the rest of its document holds."""
    return [_telling(found, ~row) for row in found.documents]


def _telling(found: Held, chosen: npt.NDArray[np.bool_]) -> list[str]:
    is_told = (found.weights >= TELLING) & chosen
    return [word for word, told in zip(found.words, is_told.tolist(), strict=True) if told]
