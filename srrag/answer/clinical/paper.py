"""The papers behind an answer: their passages joined, and the sentences that state something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from srrag.answer.select.candidates import plans
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
