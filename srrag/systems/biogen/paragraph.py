"""The answer as one cited paragraph under the caps of TREC BioGen (sections 6.2 and 7.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field

from srrag.algo.fusion import cosines
from srrag.algo.terms import terms, tfidf
from srrag.answer.select.candidates import passage_of, titles
from srrag.answer.write.choose_rules import choose
from srrag.answer.write.cited import CitedAnswer, Shown
from srrag.answer.write.compose import ComposeAnswer
from srrag.answer.write.papers_answer import MAX_OPTIONS
from srrag.core.rows import Row, live
from srrag.core.schema import sentence_row
from srrag.llm.completion import Answer, Fault, Prompt, PromptFile, quoted
from srrag.llm.fields import Means, Text, most_tokens
from srrag.reading.prose import cut_sentences, plain, split_sentences
from srrag.systems.biogen.bullets import CUT, MIN_TERMS
from srrag.systems.biogen.reformulate import context_of

MAX_WORDS = 250
MAX_CITATIONS = 3

_MAX_COUNT = 2**31 - 1
_MAX_DIGITS = 9
_RANGE = r"\d+(?:\s*[-–—]\s*\d+)?"
_MARKER = re.compile(rf"\[\s*{_RANGE}(?:\s*[,;]\s*{_RANGE})*\s*\]")
_AFTER_STOP = re.compile(rf"([.!?]{{1,3}}[\"'”’)]{{0,3}})((?:\s*{_MARKER.pattern})+)")
_AT_END = re.compile(rf"{_MARKER.pattern}[.!?…\"'”’)\s]*$")
_INTERVAL = re.compile(
    r"((?<![\d.,])(?P<value>\d{1,6}(?:\.\d{1,6})?)\s?%?|\b(?:IQR|CI|range (?:was|of)))"
    r"\s\[(?P<span>\s*(?P<low>\d{1,6})\s*[-–—,;]\s*(?P<high>\d{1,6})\s*)\](?=\s+[a-z(%])"
)
"""As papers write one: "5 [3-8] days", within a sentence."""
_UNIT = re.compile(
    r"\s+(?:days?|weeks?|months?|years?|hours?|min(?:ute)?s?|mg|g|kg|mm\w*|ml|points?)\b"
)
_EMPTY = re.compile(r"\[[\s,;–-]*\]|\(\s*\)")
_LOOSE = re.compile(r" ([.,;:!?])")


class Capped(NamedTuple):
    """The sentences that stand, as rows of SENTENCES, and counts of what was left out."""

    sentences: list[dict[str, Any]]
    invalid: int
    """Numbers cited that name no evidence; a range that runs backwards counts as one."""
    dropped: int
    """Sentences without a citation, and those behind the cap on words."""


def capped(
    paragraph: str,
    evidence_ids: Sequence[str],
    articles: Sequence[str],
    *,
    words: int = MAX_WORDS,
    citations: int = MAX_CITATIONS,
) -> Capped:
    """Read a paragraph whose markers, such as [1], [1, 3] and [2-4], number the evidence from 1.

    Numbers without evidence are dropped and counted. Of the pieces that belong to one article (in
    `articles`, parallel to the evidence) a sentence cites the first, and of all the first
    `citations`. A sentence without a citation is dropped; so are the last ones, until the text has
    at most `words` words, markers apart. An interval in such brackets is none: round ones hold it.
    """
    sentences: list[dict[str, Any]] = []
    invalid = dropped = length = 0
    full = False
    for read in _sentences(paragraph):
        sentence = _with_intervals(read, len(evidence_ids))
        numbers, wrong = read_numbers(sentence, len(evidence_ids))
        invalid += wrong
        by_article = {articles[n - 1]: n for n in reversed(numbers)}
        cited = [n for n in numbers if by_article[articles[n - 1]] == n][:citations]
        text = without_markers(sentence)
        length += len(text.split()) if cited and text else 0
        full |= length > words
        if not cited or not text or full:
            dropped += 1
            continue
        sentences.append(sentence_row(text, [evidence_ids[n - 1] for n in cited]))
    return Capped(sentences, min(invalid, _MAX_COUNT), dropped)


def read_numbers(text: str, count: int) -> tuple[list[int], int]:
    """The numbers from 1 to `count` that markers name, each once, and how many they name beside.

    A range is never written out beyond `count`.
    """
    found: dict[int, None] = {}
    outside = 0
    for marker in _MARKER.findall(text):
        for part in re.split(r"[,;]", marker.strip("[] ")):
            ends = [int(each) if len(each) <= _MAX_DIGITS else -1 for each in _digits(part)]
            first, last = ends[0], ends[-1]
            if first < 0 or last < first:
                outside += 1
                continue
            inside = range(max(first, 1), min(last, count) + 1)
            outside += last - first + 1 - len(inside)
            found |= dict.fromkeys(inside)
    return list(found), outside


def without_markers(text: str) -> str:
    """The text of a sentence as it is shown: no marker in it, nor what would read as one."""
    bare = " ".join(_EMPTY.sub("", _MARKER.sub("", text)).split())
    return plain(_LOOSE.sub(r"\1", bare)).strip()


def _with_intervals(sentence: str, count: int) -> str:
    """Put intervals into round brackets, in a sentence that cites at its end.

    Around a number that does not lie within them, brackets are read as a citation; so are those
    that name pieces of evidence, of which there are `count`, unless a unit stands behind a dash.
    """

    def told(found: re.Match[str]) -> str:
        low, high = float(found["low"]), float(found["high"])
        of_unit = _UNIT.match(sentence, found.end()) and not re.search("[,;]", found["span"])
        may_cite = found["value"] is not None and low >= 1 and high <= count
        if not low <= float(found["value"] or low) <= high or (may_cite and not of_unit):
            return found[0]
        return f"{found[1]} ({found['span'].strip()})"

    return _INTERVAL.sub(told, sentence) if _AT_END.search(sentence) else sentence


def _digits(part: str) -> list[str]:
    return re.findall(r"\d+", part)


def _sentences(paragraph: str) -> list[str]:
    """Sentences, of which a line may hold several and none goes over two lines.

    Markers behind a full stop belong to the sentence before it.
    """
    lines = (" ".join(line.split()) for line in paragraph.splitlines())
    return [each for line in lines for each in cut_sentences(_AFTER_STOP.sub(r"\2\1 ", line))]


UNCITED = "No sentence of the answer cites the evidence."
_ENDS = tuple(".!?…\"'”’)")


class _Read(Answer):
    state: Annotated[
        Literal["answered", "partly", "not"],
        Means("whether the evidence answers the question", {
            "answered": "it does, whichever way", "partly": "a part of it",
            "not": "no piece bears on it"}),
    ]  # fmt: skip


class _Chosen(Answer):
    choice: Annotated[
        int,
        Field(ge=0, le=MAX_OPTIONS),
        Means("the number of the option that the evidence supports, from 1; 0 for none"),
    ]


class _Told(Answer):
    paragraph: Annotated[
        str,
        Text(
            MAX_WORDS,
            "a single cohesive paragraph, no longer than the evidence asks for",
            'the state is "not"',
        ),
    ]


_EXAMPLE = {
    "state": "answered",
    "choice": 1,
    "paragraph": "Fluoride varnish lowered the caries increment of children of 2 to 5 years by "
    "0.7 surfaces (95% CI 0.2 to 1.2) in two years [2, 4]. A review of 12 trials found 37% fewer "
    "carious surfaces [1].",
}


class ParagraphAnswer(_Told, _Read):
    """A paragraph with markers such as [1, 3], or that the evidence does not answer."""

    example: ClassVar[dict[str, Any] | None] = {k: _EXAMPLE[k] for k in ("state", "paragraph")}


class ChosenParagraph(ParagraphAnswer, _Told, _Chosen, _Read):
    """A paragraph on a question with options."""

    example: ClassVar[dict[str, Any] | None] = _EXAMPLE


PATH = Path(__file__).parent / "prompts" / "answer_paragraph.md"


@dataclass(frozen=True, kw_only=True)
class ComposeParagraph(ComposeAnswer):
    """Answer `text` from `evidence` in one paragraph with at most `words` words.

    The model writes markers that number the evidence; they are read, mapped and capped by
    `caps`: at most `citations` articles a sentence, no sentence without one, none behind the cap on
    words. `invalid_citations` counts numbers without evidence, and
    `dropped_sentences` what fell. `versions` names the column of other wordings to show, "" for
    none. The gate and the columns are those of ComposeAnswer, of which `snippets` has no
    meaning here and is refused.

    The rules quote one sentence of each piece of evidence in its order: a bullet or summary as it
    is, of a document the sentence nearest to the question by TF-IDF. Equal quotes are one sentence
    with the citations of all.
    """

    version: ClassVar[int] = 11
    prompt_files: ClassVar[tuple[Path, ...]] = (PATH,)

    words: int = MAX_WORDS
    citations: int = MAX_CITATIONS
    versions: str = "reformulations"
    max_tokens: int = most_tokens(ChosenParagraph)
    max_unsaid: float = 1.0
    """Off: a bullet of 28 words is no paper, and cannot hold all that was asked."""

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question with its context, and the evidence."""
        context = ("topic", "narrative", *filter(None, (self.versions,)))
        return (*super().reads, *context)

    def __post_init__(self) -> None:
        """Raise ValueError for caps that do not work, and for a setting of ComposeAnswer alone."""
        if not 1 <= self.words <= MAX_WORDS or self.citations < 1:
            raise ValueError(f"words must be 1 to {MAX_WORDS}, and citations at least 1")
        if self.snippets:
            raise ValueError("snippets: a paragraph does not use it; leave it out")

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt for each question that has evidence and that the gate lets pass."""
        return [
            Prompt(
                number,
                "answer",
                file.system(
                    {f"{schema.__name__}.paragraph": self.words}, max_citations=self.citations
                ),
                file.user(
                    question=quoted(row["text"]),
                    options=f"\nOptions: {quoted(row['options'])}" if row["options"] else "",
                    context=context_of(row),
                    versions=f"\nOther wordings: {quoted(versions)}" if versions else "",
                    num_evidence=len(row["evidence"]),
                    evidence="\n".join(_lines(row["evidence"])),
                ),
                schema,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, self.reads)
            if row["evidence"] and not self._closed(row)
            for versions in (row[self.versions] if self.versions else [],)
            for schema in (ChosenParagraph if row["options"] else ParagraphAnswer,)
            for file in (PromptFile(PATH, schema),)
        ]

    def _most(self) -> tuple[int, int]:
        """A sentence a word."""
        return self.words, self.citations

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Quote the evidence, a line a sentence, as long as the caps allow."""
        rows = dict(live(batch, self.reads))
        answers = []
        for prompt in prompts:
            row = rows[prompt.row]
            paragraph = quotes(row, row[self.versions] if self.versions else [])
            answer = ParagraphAnswer(state="answered" if paragraph else "not", paragraph=paragraph)
            if row["options"]:
                passages = [passage_of(item) for item in row["evidence"]]
                chosen = choose(row["text"], row["options"], passages)
                answer = ChosenParagraph(**answer.model_dump(), choice=chosen.option + 1)
            answers.append(answer.model_dump_json())
        return answers

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Fault: no sentence that cites; what lies beyond the caps falls, as in the paper."""
        evidence = batch["evidence"][prompt.row].as_py()
        if value.state == "not" or self._capped(evidence, value.paragraph).sentences:
            return None
        detail = (
            f"No sentence stands: each ends with the numbers of its evidence in square brackets, "
            f"as [1], from 1 to {len(evidence)}, and all have at most {self.words} words together."
        )
        return Fault("uncited", detail)

    def _capped(self, evidence: Sequence[Row], paragraph: str) -> Capped:
        ids = [item["evidence_id"] for item in evidence]
        articles = [item["pmid"] or item["source_id"] for item in evidence]
        return capped(paragraph, ids, articles, words=self.words, citations=self.citations)

    def _cited(self, evidence: list[Row], cited: Answer) -> Row:
        """Hold the paragraph to the caps; nothing that stands is an abstention."""
        assert isinstance(cited, ParagraphAnswer)
        found = self._capped(evidence, cited.paragraph)
        lacks = cited.state != "answered"
        note = "" if found.sentences or cited.state == "not" else UNCITED
        answer = CitedAnswer(answer=[], evidence=[], limits=[], insufficient=lacks, missing=note)
        return self._shown(Shown(*found), answer, [item["evidence_id"] for item in evidence])


def quotes(row: Row, versions: Sequence[str]) -> str:
    """One quote a line for each piece of evidence in order, equal ones once with all citations."""
    found: dict[str, list[int]] = {}
    queries = [row["text"], *versions]
    for number, item in enumerate(row["evidence"], start=1):
        text = item["text"] if item["kind"] == "bullet" else nearest(item, queries)
        if len(terms(text)) >= MIN_TERMS:
            found.setdefault(" ".join(text.split()), []).append(number)
    return "\n".join(
        f"{text}{'' if text.endswith(_ENDS) else CUT} {''.join(f'[{n}]' for n in numbers)}"
        for text, numbers in found.items()
    )


def nearest(item: Row, queries: Sequence[str]) -> str:
    """The sentence of a piece of evidence with the highest mean cosine with the queries by TF-IDF.

    Of equal ones the first; "" for a text without a sentence.
    """
    said = [each.text for each in split_sentences(item["text"], item["section"])]
    if not said:
        return ""
    vectors = tfidf([terms(text) for text in (*said, *queries)])
    worth = cosines(vectors[: len(said)], vectors[len(said) :]).mean(axis=1)
    return said[int(np.argmax(np.round(worth, 9)))]


def _lines(evidence: Sequence[Row]) -> Iterator[str]:
    """Evidence as JSON lines; the content cannot break out of a JSON string."""
    for number, (item, title) in enumerate(zip(evidence, titles(evidence), strict=True), start=1):
        told = {"n": number, "pmid": item["pmid"], "year": item["year"] or None}
        yield quoted(told | title | {"text": item["text"]})
