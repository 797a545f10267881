"""Which papers tell of one study, so that it counts once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from srrag.algo.terms import terms
from srrag.reading.numbers import NUMBER_WORDS

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
    """What is known of a paper: `told` holds what it says of its study, by attribute of TRIPLES."""

    doc_id: str
    title: str
    year: int
    grade: str
    pmid: str = ""
    status: str = "ok"
    text: str = field(default="", repr=False)
    authors: str = ""
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

    Papers are of one study by the same PMID, title, registration number, or authors and number of
    people. Reviews are joined by PMID and title alone.
    """
    first: dict[tuple[str, str], str] = {}
    study: dict[str, str] = {}
    why: dict[str, set[str]] = {}
    for paper in papers:
        size = paper.people
        keys = [
            ("PMID", paper.pmid),
            ("title", " ".join(terms(paper.title))),
            ("registration number", paper.registration),
            (
                "authors and number of people",
                f"{paper.authors} {size}"
                if paper.authors and size and paper.grade not in REVIEWS
                else "",
            ),
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
