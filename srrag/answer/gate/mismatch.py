"""The notice that evidence is about other people or another intervention than was asked for.

The rules find nothing if in doubt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import pyarrow as pa

from srrag.algo.terms import terms
from srrag.core.rows import Row, live, with_columns
from srrag.core.schema import MISMATCHES
from srrag.core.step import Function, Place, Step
from srrag.reading.lexicon import alternatives, lexicon, words
from srrag.reading.mentions import find_mentions
from srrag.reading.people import contradiction, traits
from srrag.reading.prose import plain

MAX_PHRASE_CHARS = 160
MAX_SHOWN = 3
"""Groups of evidence that a notice names; the rest are in the column."""
_TREATMENTS = frozenset(("Intervention", "Device", "Arm"))
LOOSE = frozenset(terms(" ".join(words("shared"))))
"""Words that many conditions and interventions share, so that they tell none from another."""
_BREAK = alternatives("name_ends")
_CONDITION = re.compile(
    rf"(?<![\w-])(?:(?!(?:{_BREAK})\b)[a-z][\w-]{{0,30}}\s){{0,4}}"
    r"(?:pain|sprains?|strains?|tears?|ruptures?|fractures?|injur(?:y|ies)|syndromes?|disorders?|"
    r"diseases?|disabilit(?:y|ies)|instability|impingement|whiplash|stroke|cancer|diabetes|"
    r"failure|(?!(?:diagnosis|prognosis|aroma|diploma|academia)\b)"
    r"[a-z]{2,30}(?:itis|osis|opathy|alg?ia|emia|oma|trophy|paresis|plegia))\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?![\w-]*(?:ed|ing|ly)$)[A-Za-z][\w-]{4,40}")
_CAPITALS = re.compile(r"\b[A-Z]{2,6}s?\b")


_AMONG = re.compile(r"\b(?:in|among|for)\s+", re.IGNORECASE)


class Source(NamedTuple):
    """A piece of evidence as the rules read it; `document` joins those of one document."""

    document: str
    title: str
    text: str


class FoundMismatch(NamedTuple):
    """A mismatch of a piece of evidence (by number, from 1)."""

    number: int
    part: Literal["P", "I"]
    asked: str
    found: str


@dataclass(frozen=True, kw_only=True)
class NoticeMismatch(Step):
    """Add `mismatches` of `evidence` with the question, and a `notice` of them for the reader.

    The notice has a sentence for the population and one for the intervention, names only the `top`
    pieces of evidence, and is "" without mismatches.
    """

    reads: ClassVar[tuple[str, ...]] = ("text", "anchors", "evidence")
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("mismatches", MISMATCHES, nullable=False),
            pa.field("notice", pa.string(), nullable=False),
        ]
    )
    version: ClassVar[int] = 4

    top: int = 6

    def open(self, at: Place) -> Function:
        """The function from table to table; nothing is loaded."""

        def run(batch: pa.Table) -> pa.Table:
            rows: list[Row] = [{"mismatches": [], "notice": ""}] * batch.num_rows
            for place, question in live(batch, self.reads):
                evidence = question["evidence"]
                sources = [Source(e["doc_id"], e["title"], e["text"]) for e in evidence]
                found = [
                    each._replace(asked=plain(each.asked), found=plain(each.found))
                    for each in rule_mismatches(question["text"], question["anchors"], sources)
                    if max(len(each.asked), len(each.found)) <= MAX_PHRASE_CHARS
                ]
                mismatches = [
                    {
                        "evidence_id": evidence[each.number - 1]["evidence_id"],
                        "part": each.part, "asked": each.asked, "found": each.found,
                    }
                    for each in found
                ]  # fmt: skip
                rows[place] = {"mismatches": mismatches, "notice": notice(found, self.top)}
            return with_columns(batch, pa.Table.from_pylist(rows, schema=self.writes))

        return run


def notice(mismatches: Sequence[FoundMismatch], top: int) -> str:
    """A sentence for each part in which one of the `top` pieces of evidence differs."""
    sentences = []
    for part in ("P", "I"):
        differing = [each for each in mismatches if each.part == part and each.number <= top]
        groups: dict[str, set[int]] = {}
        for each in differing:
            groups.setdefault(each.found, set()).add(each.number)
        if not groups:
            continue
        told = [
            f"{_list(numbers)} of “{found}”" for found, numbers in [*groups.items()][:MAX_SHOWN]
        ]
        told += ["others of more"] if len(groups) > MAX_SHOWN else []
        asked = dict.fromkeys(f"“{each.asked}”" for each in differing if each.asked)
        lead = (
            f"The question asks about {' and '.join(asked)}, but"
            if asked
            else "Other than the question,"
        )
        sentences.append(f"{lead} evidence {', '.join(told)}.")
    return " ".join(sentences)


def _list(numbers: Collection[int]) -> str:
    first, *rest = map(str, sorted(numbers))
    if not rest:
        return f"{first} speaks"
    return f"{', '.join([first, *rest[:-1]])} and {rest[-1]} speak"


def rule_mismatches(
    question: str, anchors: Mapping[str, Sequence[str]], sources: Sequence[Source]
) -> list[FoundMismatch]:
    """Mismatches by number of the evidence, at most one a part.

    P: traits that contradict those of the question's P anchors; else a title that names another
    condition, where nothing found of the document holds a telling word of the condition asked
    about. I: a title that names another intervention, where no evidence at all holds the one
    asked about, by half of its telling words or by its initials.
    """
    people = traits("; ".join(anchors["P"]))
    people += [each for each in traits(question) if each.kind == "species"]
    conditions = [name for anchor in anchors["P"] for name in conditions_in(anchor)]
    whole: dict[str, str] = {}
    for source in sources:
        known = whole.get(source.document, source.title)
        whole[source.document] = f"{known} {source.text}"
    named = [anchor for anchor in anchors["I"] if _names_one(anchor)]
    absent = bool(named) and not any(_holds(t, anchors["I"], 0.5) for t in whole.values())
    treatments = _treatments(sources) if absent else [[]] * len(sources)
    asked = _telling(question)
    found = []
    for number, (source, others) in enumerate(zip(sources, treatments, strict=True), 1):
        trait = contradiction(people, source.title, source.text)
        if trait:
            found.append(FoundMismatch(number, "P", _first(anchors["P"], trait.kind), trait.phrase))
        elif conditions and not _holds(whole[source.document], conditions, 0):
            other = _other(conditions_in(source.title), asked)
            found += [FoundMismatch(number, "P", conditions[0], other)] if other else []
        if other := _other(others, asked):
            found.append(FoundMismatch(number, "I", named[0], other))
    return found


def _names_one(anchor: str) -> bool:
    """Whether an I anchor names an intervention, not only a verb that the rules took for one."""
    return len(_telling(anchor)) > 1 or bool(_NAME.fullmatch(anchor))


def _treatments(sources: Sequence[Source]) -> list[list[str]]:
    """Phrases of each title that the tagger takes for interventions, and that may be shown."""
    titles = [source.title for source in sources]
    mentions = find_mentions(titles, [""] * len(titles), [True] * len(titles))
    phrases = [
        [title[m.start : m.end] for m in found if m.type in _TREATMENTS]
        for title, found in zip(titles, mentions, strict=True)
    ]
    return [
        [p for p in each if " " in p and ":" not in p and not _CONDITION.search(p)]
        for each in phrases
    ]


def asked_people(question: str) -> str:
    """The last words of a question that say in whom ("in infants with diarrhea"), "" for none."""
    for found in reversed([*_AMONG.finditer(question)]):
        whom = question[found.end() :]
        if lexicon("person").search(whom) or traits(whom) or conditions_in(whom):
            return whom
    return ""


def conditions_in(text: str) -> list[str]:
    """Phrases that name a condition with a word that tells it from others."""
    return [name for m in _CONDITION.finditer(text) if _telling(name := m[0].strip())]


def _first(anchors: Sequence[str], kind: str) -> str:
    """The first anchor that names a trait of this kind, "" if none does."""
    return next((a for a in anchors if any(each.kind == kind for each in traits(a))), "")


def _holds(text: str, names: Sequence[str], share: float) -> bool:
    """Whether a text may be about any of these: by more words than a share, or by initials.

    A name without a telling word counts as held.
    """
    held = {*terms(text)}
    capitals = {word.rstrip("s") for word in _CAPITALS.findall(text)}
    for name in names:
        telling = _telling(name)
        initials = "".join(word[0] for word in re.split(r"[\s-]+", name) if word).upper()
        known = len(telling & held)
        if not telling or (known and known >= share * len(telling)):
            return True
        if any(initials.startswith(word) for word in capitals):
            return True
    return False


def _other(names: Iterable[str], asked: set[str]) -> str:
    """The first name with telling words of which the question has none, "" if there is none."""
    return next((n for n in names if _telling(n) and not _telling(n) & asked), "")


def _telling(name: str) -> set[str]:
    """Stems of the words that tell a condition or an intervention from others."""
    return {*terms(name)} - LOOSE
