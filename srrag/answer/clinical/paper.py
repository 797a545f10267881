"""The papers behind an answer: their passages joined, and the sentences that state something."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from srrag.answer.select.candidates import plans
from srrag.reading.lexicon import alternatives
from srrag.reading.numbers import NUMBER_WORDS
from srrag.reading.people import conditions_in
from srrag.reading.prose import Role, plain, split_sentences

Row = Mapping[str, Any]


class PaperSentence(NamedTuple):
    """A sentence of a paper's passage, and the number of that piece of evidence."""

    text: str
    role: Role
    number: int
    place: int


@dataclass(frozen=True)
class CitedPaper:
    """A paper: its pieces of evidence, those that the answer cites, and its sentences."""

    items: tuple[Row, ...]
    cited: tuple[int, ...]
    sentences: tuple[PaperSentence, ...]

    @property
    def number(self) -> int:
        """The number that stands for the paper: its first cited piece, else its first."""
        return self.cited[0] if self.cited else int(self.items[0]["number"])

    @property
    def item(self) -> Row:
        """The piece of evidence of that number."""
        return next(each for each in self.items if each["number"] == self.number)

    @property
    def title(self) -> str:
        """The title, without emphasis marks."""
        return plain(next((each["title"] for each in self.items if each["title"]), ""))

    @property
    def text(self) -> str:
        """Title, sections and texts as one."""
        return "\n".join([self.title, *(f"{e['section']}\n{e['text']}" for e in self.items)])


def papers_of(evidence: Sequence[Row], cited: set[int]) -> list[CitedPaper]:
    """The papers of an answer, in the order of their evidence.

    Pieces with the same PMID, else the same title, else of the same document are one paper.
    """
    groups: dict[str, list[Row]] = {}
    titles = {each["title"]: each["pmid"] for each in evidence if each["title"] and each["pmid"]}
    for each in evidence:
        pmid = each["pmid"] or titles.get(each["title"], "")
        groups.setdefault(pmid or each["title"] or each["doc_id"], []).append(each)
    return [
        CitedPaper(
            tuple(items),
            tuple(each["number"] for each in items if each["number"] in cited),
            tuple(s for each in items for s in _sentences(each)),
        )
        for items in groups.values()
    ]


def _sentences(item: Row) -> list[PaperSentence]:
    return [
        PaperSentence(each.text, each.role, item["number"], place)
        for place, each in enumerate(split_sentences(item["text"], item["section"]))
    ]


def states(sentence: PaperSentence) -> bool:
    """Whether a sentence may tell a finding: it is no aim, method, background or question."""
    if sentence.role in ("method", "background") or plans(sentence.text):
        return False
    return not sentence.text.rstrip().endswith(("?", ":"))


_CHANNELS = {
    "dense": "its meaning is close to the question", "sparse": "it uses the question’s words",
    "graph": "the evidence graph leads to it", "hyde": "it resembles a passage made up to search",
}  # fmt: skip


def here_because(item: Mapping[str, Any], why: Mapping[str, Any] | None) -> str:
    """Say what found a piece of evidence; "" where nothing tells."""
    if why is None:
        return ""
    channels = dict.fromkeys(find["channel"] for find in why["found"])
    reasons = [_CHANNELS[each] for each in _CHANNELS if each in channels]
    if item["grade"] == "A" and any(f.get("track") == "guidelines" for f in why["found"]):
        reasons.append("it was found among the guidelines")
    if not reasons:
        return ""
    told = reasons[0] if len(reasons) == 1 else ", ".join(reasons[:-1]) + " and " + reasons[-1]
    return f"Here because {told}."


_NAMES_ITSELF = re.compile(
    r"\b(?:(?:clinical|practice|treatment|management|evidence-based) guidelines?"
    r"|guidelines? (?:for|on|of|from)|(?:consensus|position) (?:statement|paper|stand|document)s?"
    r"|expert consensus|delphi consensus|: (?:a )?guideline)\b",
    re.IGNORECASE,
)
_ABOUT_ONE = re.compile(
    r"\b(?:adheren\w+|complian\w+|implement\w+|impact|awareness|according to|based on|concordan\w+"
    r"|apprais\w+|quality of|trial|survey|cohort|protocol)\b",
    re.IGNORECASE,
)
VOUCHED = ("publication_type", "mesh", "metadata")
"""Sources of a grade that stand outside the document's own wording: its index, or who added it."""


def claimed_guideline(paper: CitedPaper) -> str:
    """Say that a document only calls itself a guideline; "" for one that is, or makes no claim.

    Grade A that was read from title and wording is a claim, and so is a title that says guideline
    on a document of another grade.
    """
    item = paper.item
    source = str(item.get("grade_source") or "").split(":")[0]
    if item["grade"] == "A":
        vouched = source in VOUCHED
        return "" if vouched else "calls itself a guideline: only its own wording says so"
    names = _NAMES_ITSELF.search(paper.title) and not _ABOUT_ONE.search(paper.title)
    kind = f"graded {item['grade']}" if item["grade"] else "without a grade"
    return f"calls itself a guideline, but is {kind}" if names else ""


MAX_CHARS = 90
_PERSON = rf"(?:{alternatives('person', 'animal', 'grouped')})"
_OF_TITLE = re.compile(
    rf"(?:(?<=^)|(?<=\bin )|(?<=\bamong )|(?<=\bfor )|(?<=\bof )|(?<=\bby )|(?<=\bto )"
    rf"|(?<=\bon )|(?<=\bDo )|(?<=\bShould )|(?<=\bCan ))"
    r"((?:(?!(?:in|of|on|for|and|the|a|an|with|by|to|among|does|do|is|are|can)\b)"
    rf"[\w’'/-]+ ){{0,4}}{_PERSON}\b"
    rf"(?: (?:with|living|at risk|undergoing|following|after|who|aged|and {_PERSON})\b"
    r"[^:,;.?–(]*)?)",
    re.IGNORECASE,
)
_COUNT = rf"(?P<n>\d[\d,]*|{'|'.join(sorted(NUMBER_WORDS, key=len, reverse=True))})"
_ENROLLED = re.compile(
    rf"\b{_COUNT}\s(?:[\w-]+\s){{0,4}}?{_PERSON}(?:\s\([^)]{{0,60}}\))?\s(?:[\w-]+\s){{0,3}}?"
    r"(?:randomi[sz]ed|enrolled|recruited|included|participated|allocated|assigned|took part"
    r"|completed)\b|\b(?:randomi[sz]ed|enrolled|recruited|included)\s"
    rf"(?P<n2>\d[\d,]*)\s(?:[\w-]+\s){{0,4}}?{_PERSON}\b",
    re.IGNORECASE,
)


def population(paper: CitedPaper) -> str:
    """The words of a title that say whom the paper is about, "" if it does not."""
    title = " ".join(paper.title.split())
    found = [match[1].strip() for match in _OF_TITLE.finditer(title)]
    named = max(found, key=len, default="") or next(iter(conditions_in(title)), "")
    return named if len(named) <= MAX_CHARS else ""


def enrolled(paper: CitedPaper) -> str:
    """The number of people that a sentence says were enrolled, "" where none does.

    Of several numbers the largest, as groups are smaller than the whole.
    """
    numbers = []
    for sentence in paper.sentences:
        for match in _ENROLLED.finditer(sentence.text):
            text = (match["n"] or match["n2"]).casefold().replace(",", "")
            numbers.append(NUMBER_WORDS.get(text) or (int(text) if text.isdigit() else 0))
    most = max(numbers, default=0)
    return str(most) if most > 1 else ""
