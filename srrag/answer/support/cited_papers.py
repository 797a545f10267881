"""The papers that the sentences of an answer cite, sentence by sentence, as a prompt shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from srrag.core.grades import STUDIES
from srrag.core.rows import Row
from srrag.llm.delimit import quoted
from srrag.reading.protocols import has_no_results
from srrag.reading.sentences import sentence_spans

GAP = "…"


class CitedText(NamedTuple):
    """A piece of evidence with its number from 1, the spans of its sentences, and those cited.

    `cited` numbers sentences from 1; it is empty where the paper is cited as a whole.
    """

    number: int
    item: Row
    spans: list[tuple[int, int]]
    cited: frozenset[int]

    def lines(self, whole_chars: int, neighbours: int) -> list[str]:
        """What a prompt shows of the paper: a line on it, and one for each sentence."""
        head = {
            "paper": self.number,
            "year": self.item["year"] or None,
            "title": self.item["title"],
            "design": STUDIES.get(self.item["grade"], ""),
            "results": not has_no_results(self.item["title"], self.item["text"]),
        }
        near = [*range(1, len(self.spans) + 1)]
        if self.cited and len(self.item["text"]) > whole_chars:
            near = [n for n in near if any(abs(n - cited) <= neighbours for cited in self.cited)]
        told, before = [head], 0
        for n in [*near, len(self.spans) + 1]:
            if n > before + 1:
                told.append({GAP: ""})
            if n <= len(self.spans):
                told.append({f"{self.number}.{n}": self.sentence(n)})
            before = n
        return [quoted(each) for each in told]

    def sentence(self, n: int) -> str:
        """The n-th sentence, from 1."""
        low, high = self.spans[n - 1]
        return str(self.item["text"][low:high])

    def of_places(self, places: Sequence[Row]) -> list[int]:
        """The numbers of the sentences that these places of answers touch."""
        mine = [each for each in places if each["evidence_id"] == self.item["evidence_id"]]
        return [
            n
            for n, (low, high) in enumerate(self.spans, 1)
            if any(each["start"] < high and low < each["end"] for each in mine)
        ]


def cited_papers(evidence: Sequence[Row], sentences: Sequence[Row]) -> dict[str, CitedText]:
    """The evidence that sentences cite, by id, in its order."""
    papers = {}
    for number, item in enumerate(evidence, 1):
        citing = [each for each in sentences if item["evidence_id"] in each["evidence_ids"]]
        if not citing:
            continue
        paper = CitedText(number, item, sentence_spans(item["text"]), frozenset())
        cited = [paper.of_places(each["places"]) for each in citing]
        if all(cited):
            paper = paper._replace(cited=frozenset(n for each in cited for n in each))
        papers[item["evidence_id"]] = paper
    return papers


def sources_of(sentence: Row, papers: Mapping[str, CitedText], question: str) -> list[str]:
    """The question, and titles, years and texts of what a sentence cites."""
    cited = [papers[each].item for each in sentence["evidence_ids"] if each in papers]
    told = [f"{item['title']}\n{item['year'] or ''}\n{item['text']}" for item in cited]
    return [question, *told]
