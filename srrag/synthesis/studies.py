"""What is known of the papers of a question: which tell of one study, so that it counts once, and
whether two names of interventions, outcomes or people mean one thing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from srrag.algo.terms import terms
from srrag.reading.lexicon import named_terms
from srrag.reading.numbers import NUMBER_WORDS

COVERED = 2 / 3
"""Share of an asked name's stems that a name has to hold."""
NEAR = 0.68
"""Cosine from which names mean one thing without a stem in common."""
Encode = Callable[[Sequence[str]], np.ndarray]
Built = Callable[[Sequence[str]], Mapping[str, np.ndarray]]
"""Finds the vectors of names that a build has encoded."""
_WORD = re.compile(r"[\w/+-]+")


class NameMatcher:
    """Compares names by stems, long forms, other names of their paper, and vectors.

    `long` are the long forms of abbreviations, `others` the other names of a name; `encode` makes
    unit-length vectors of names, None compares without; `built` finds those of some names.
    """

    def __init__(
        self,
        long: Mapping[str, str],
        others: Mapping[str, Iterable[str]],
        encode: Encode | None = None,
        built: Built | None = None,
    ) -> None:
        self._long, self._encode, self._built = long, encode, built
        self._others = {name.casefold(): tuple(each) for name, each in others.items()}
        self._vectors: dict[str, np.ndarray] = {}
        self.stems = lru_cache(maxsize=None)(self._stems)

    def _stems(self, name: str) -> tuple[frozenset[str], ...]:
        """The stems of a name and of each of its other names."""
        full = _WORD.sub(lambda word: self._long.get(word[0], word[0]), name)
        told = (name, full, *self._others.get(name.casefold(), ()))
        return tuple(dict.fromkeys(frozenset(named_terms(each)) for each in told if each))

    def means(self, asked: Iterable[str], names: Iterable[str]) -> bool:
        """Whether one of the names is one of those asked for, or of its kind."""
        names = [name for name in names if name]
        return any(
            covered(stems, held) >= COVERED
            for each in asked
            for stems in self.stems(each)
            for name in names
            for held in self.stems(name)
        ) or any(self._cosine(each, name) >= NEAR for each in asked for name in names)

    def holds(self, asked: str, texts: Iterable[str]) -> bool:
        """Whether one of the texts holds all stems of a name, or of another name for it."""
        told = [held for text in texts for held in self.stems(text)]
        return any(stems <= held for stems in self.stems(asked) for held in told)

    def holds_any(self, asked: Iterable[str], text: str) -> bool:
        """Whether a text holds all stems of one of the names."""
        return any(self.holds(each, [text]) for each in asked)

    def same(self, one: str, other: str) -> bool:
        """Whether two names have the same stems, or the same meaning by their vectors."""
        if {*self.stems(one)} & {*self.stems(other)}:
            return True
        return self._cosine(one, other) >= 0.85

    def _cosine(self, one: str, other: str) -> float:
        if self._encode is None:
            return 0.0
        missing = [name for name in (one, other) if name not in self._vectors]
        if missing:
            self._vectors.update(zip(missing, self._encode(missing), strict=True))
        return float(self._vectors[one] @ self._vectors[other])

    def learn(self, names: Iterable[str]) -> None:
        """Find or encode names at once, rather than each when it is compared."""
        if self._encode is None:
            return
        missing = [name for name in dict.fromkeys(names) if name and name not in self._vectors]
        if missing and self._built is not None:
            self._vectors.update(self._built(missing))
            missing = [name for name in missing if name not in self._vectors]
        if missing:
            self._vectors.update(zip(missing, self._encode(missing), strict=True))


def covered(asked: frozenset[str], held: frozenset[str]) -> float:
    """Share of the asked stems that are held."""
    return len(asked & held) / len(asked) if asked else 0.0


_REGISTERED = re.compile(
    r"\b(?:NCT\s?\d{8}|ISRCTN\s?\d{6,8}|ACTRN\s?\d{14}|ChiCTR[\w-]*\d{8,}|DRKS\s?\d{8}"
    r"|EudraCT\W{0,3}(?:number)?\W{0,3}\d{4}-\d{6}-\d{2}|UMIN\s?\d{9}|CTRI/\d{4}/\d+/\d+"
    r"|IRCT\w{12,}|NTR\s?\d{3,5}|JPRN-\w+)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d[\d,]*")
_SHARE = re.compile(rf"\w+ in (?:10|100|1,?000|{'|'.join(NUMBER_WORDS)})\b", re.IGNORECASE)
"""Seven in ten patients: no number of people."""
REVIEWS = ("A", "B")
"""Grades of papers that tell of other studies: guidelines, reviews, meta-analyses."""


@dataclass(frozen=True)
class StudyPaper:
    """What is known of a paper: `told` holds what it says of its study, by attribute of TRIPLES.

    `link` is the paper that states its status, `ids` are its own, both as in NOTICES.
    """

    doc_id: str
    title: str
    year: int
    grade: str
    pmid: str = ""
    status: str = "ok"
    link: str = ""
    ids: frozenset[str] = frozenset()
    text: str = field(default="", repr=False)
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def people(self) -> int | None:
        """How many people the study has, as it says first; None where it does not."""
        sizes = (first_number(each) for each in self.told.get("sample_size", ()))
        return next(filter(None, sizes), None)

    @property
    def registration(self) -> str:
        """Its number in a register; "" for none, for several, and for a review."""
        told = " ".join([self.text, *self.told.get("registration", ())])
        found = {re.sub(r"[\s\W]", "", each).upper() for each in _REGISTERED.findall(told)}
        return found.pop() if len(found) == 1 and self.grade not in REVIEWS else ""


def one_study(papers: Iterable[StudyPaper]) -> dict[str, tuple[str, str]]:
    """The study of each paper by its id: the id of its first paper, and why they are one.

    Papers are of one study by the same PMID, title or registration number. Reviews are joined by
    PMID and title alone.
    """
    first: dict[tuple[str, str], str] = {}
    study: dict[str, str] = {}
    why: dict[str, set[str]] = {}
    for paper in papers:
        keys = [
            ("PMID", paper.pmid),
            ("title", " ".join(terms(paper.title))),
            ("registration number", paper.registration),
        ]
        named = [key for key in keys if key[1]]
        met = {study[first[key]]: key for key in named if key in first}
        root = min(met, default=paper.doc_id, key=list(study.values()).index)
        study[paper.doc_id] = root
        for other, (kind, _) in met.items():
            why.setdefault(root, set()).update({kind} | why.get(other, set()))
            study.update({doc: root for doc, of in study.items() if of == other})
        for key in named:
            first.setdefault(key, paper.doc_id)
    return {doc: (of, ", ".join(sorted(why.get(of, ())))) for doc, of in study.items()}


def first_number(text: str) -> int | None:
    """The first whole number of a text, in digits or as its first word; None for a share."""
    if _SHARE.match(text):
        return None
    if found := _NUMBER.search(text):
        return int(found[0].replace(",", ""))
    word = text.split(" ", maxsplit=1)[0].lower() if text else ""
    return NUMBER_WORDS.get(word)
