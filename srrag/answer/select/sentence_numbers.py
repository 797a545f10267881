"""Papers as numbered sentences [paper.sentence], what such numbers name, and what is cited."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from srrag.core.rows import Row
from srrag.core.standing import STUDIES
from srrag.llm.completion import quoted
from srrag.reading.prose import has_no_results, plain, sentence_spans

_NUMBER = re.compile(r"\[?(\d{1,3})(?:\.(\d{1,4}))?\]?")
_RANGE = re.compile(r"\[?(\d{1,3})\.(\d{1,4})\s*[-–]\s*(?:\1\.)?(\d{1,4})\]?")
_MOST_OF_A_RANGE = 12
TITLE = 0
"""The number of a paper's title among its sentences."""


class Cited(NamedTuple):
    """What numbers name: papers by id, in order, their places, and how many name nothing."""

    evidence_ids: list[str]
    places: list[dict[str, Any]]
    invalid: int


def paper_lines(evidence: Sequence[Row]) -> Iterator[str]:
    """Papers for a prompt: a line that says what each is, its title as sentence 0, its sentences.

    Every text is a JSON string on a line of its own, so that none can pass for another line.
    Headings keep their place in the count, but have no number to be cited by. Another passage of a
    paper says so, repeats neither its title nor what was shown of it, and is left out if it holds
    nothing new.
    """
    first: dict[str, int] = {}
    shown: set[tuple[str, str]] = set()
    for number, item in enumerate(evidence, 1):
        whole = first.get(item["doc_id"])
        lines = [] if whole else [*_head(number, item)]
        if item["doc_id"]:
            first.setdefault(item["doc_id"], number)
        new = False
        for place, (start, end) in enumerate(sentence_spans(item["text"]), 1):
            text = " ".join(item["text"][start:end].split())
            if whole and (item["doc_id"], text) in shown:
                continue
            shown.add((item["doc_id"], text))
            heading = text.startswith("#")
            new |= not heading
            lines.append(quoted(text) if heading else f"[{number}.{place}] {quoted(text)}")
        if not whole:
            yield from lines
        elif new:
            yield from (f"Paper {number}; more of paper {whole}", *lines)


def _head(number: int, item: Row) -> Iterator[str]:
    """The line that says what a paper is, and its title."""
    grade = item["grade"]
    known = [
        str(item["year"]) if item["year"] else "",
        f"grade {grade}, {STUDIES[grade]}" if grade in STUDIES else "",
        "PROTOCOL, NO RESULTS" if has_no_results(item["title"], item["text"]) else "",
    ]
    yield "; ".join([f"Paper {number}", *filter(None, known)])
    if item["title"]:
        yield f"[{number}.{TITLE}] {quoted(item['title'])}"


def number_of_sentences(evidence: Sequence[Row]) -> dict[tuple[int, str], str]:
    """The number of each sentence, by the number of its paper and its text as answers show it."""
    return {
        (number, plain(item["text"][start:end])): f"{number}.{place}"
        for number, item in enumerate(evidence, 1)
        for place, (start, end) in enumerate(sentence_spans(item["text"]), 1)
    }


def cited(numbers: Iterable[str], evidence: Sequence[Row]) -> Cited:
    """Return what numbers such as "2.7" name, by paper; "2" is the whole paper, "2.0" its title.

    A title has no place, nor a whole paper: what it does not say stands nowhere. "2.7-2.9" names
    three sentences.
    """
    ids: dict[str, None] = {}
    places: dict[tuple[str, int, int], None] = {}
    invalid = 0
    for paper, sentence in sorted(_read(numbers), key=itemgetter(0)):
        if not 1 <= paper <= len(evidence):
            invalid += 1
            continue
        item = evidence[paper - 1]
        spans = sentence_spans(item["text"])
        if sentence is not None and sentence > len(spans):
            invalid += 1
            continue
        ids[item["evidence_id"]] = None
        if sentence:
            places[item["evidence_id"], *spans[sentence - 1]] = None
    names = ("evidence_id", "start", "end")
    return Cited([*ids], [dict(zip(names, each, strict=True)) for each in places], invalid)


def paper_of(number: str) -> int:
    """The paper that a number names, 0 if it is no number."""
    return next(iter(_read([number])))[0]


def _read(numbers: Iterable[str]) -> Iterator[tuple[int, int | None]]:
    """Paper and sentence of each number; a paper 0, which there is not, for what is no number."""
    for text in numbers:
        if ranged := _RANGE.fullmatch(text.strip()):
            paper, first, last = map(int, ranged.groups())
            if first <= last < first + _MOST_OF_A_RANGE:
                yield from ((paper, sentence) for sentence in range(first, last + 1))
                continue
        found = _NUMBER.fullmatch(text.strip())
        yield (int(found[1]), int(found[2]) if found[2] else None) if found else (0, None)


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
        grade = self.item["grade"]
        head = {
            "paper": self.number,
            "year": self.item["year"] or None,
            "title": self.item["title"],
            "design": f"{STUDIES[grade]} (grade {grade})" if grade in STUDIES else "",
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
