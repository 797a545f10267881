"""Results of the library: typed, printed well in a terminal and in a notebook."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.answer.answer_json import answer_json
from srrag.html import templates

WIDTH = 96
"""Characters in a line of a terminal."""


@dataclass(frozen=True, kw_only=True)
class AnswerSentence:
    """A sentence of an answer, with the numbers of the evidence that it cites."""

    text: str
    citations: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GradedEvidence:
    """A piece of evidence: `number` is what sentences cite, `grade` is A … E, or "" for none."""

    number: int
    grade: str
    study: str
    """What studies the grade holds."""
    title: str
    source_id: str
    pmid: str
    year: int
    section: str
    text: str
    quotes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CitedReply:
    """The answer to one question, with graded evidence.

    `text` is the whole answer. `state` says whether the
    evidence answers the question: answered, partly or not.
    `error` is the reason why a question has no answer at all, else "". `json` is the API's
    response.
    """

    question: str
    text: str
    sentences: tuple[AnswerSentence, ...] = ()
    evidence: tuple[GradedEvidence, ...] = ()
    state: str = "not"
    notes: tuple[str, ...] = ()
    """Remarks for the reader: what the evidence lacks, what a gate removed, which steps failed."""
    model: str = ""
    error: str = ""
    json: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    row: pa.Table = field(default_factory=lambda: pa.table({}), repr=False, compare=False)

    @property
    def cited(self) -> tuple[GradedEvidence, ...]:
        """The evidence that some sentence cites."""
        numbers = {number for each in self.sentences for number in each.citations}
        return tuple(item for item in self.evidence if item.number in numbers)

    def to_arrow(self) -> pa.Table:
        """The answer as a table of one row, with the columns that the pipeline wrote."""
        return self.row

    def to_pandas(self) -> Any:
        """The answer as a pandas frame of one row."""
        return self.row.to_pandas()

    def __str__(self) -> str:
        """The answer as text, its notes, then its evidence; a star marks what is cited."""
        lines = [textwrap.fill(self.question, WIDTH), ""]
        if self.error:
            return "\n".join([*lines, f"No answer: {self.error}"])
        lines += [textwrap.fill(each, WIDTH) for each in self.text.split("\n")]
        cited = {item.number for item in self.cited}
        for note in self.notes:
            lines += ["", textwrap.fill(f"Note: {note}", WIDTH)]
        lines.append("")
        for item in self.evidence:
            year = f", {item.year}" if item.year else ""
            head = f"[{item.number}] grade {item.grade or '–'}  {item.title}"
            head += f" ({item.pmid or item.source_id}{year})"
            mark = "*" if item.number in cited else " "
            lines.append(mark + textwrap.shorten(head, WIDTH - 1, placeholder=" …"))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The answer as HTML, with grades and quotes, for a notebook."""
        return _html("reply.html", reply=self, cited={item.number for item in self.cited})


@dataclass(frozen=True)
class CitedReplies(Sequence[CitedReply]):
    """The answers to several questions, in their order."""

    replies: tuple[CitedReply, ...]

    def __getitem__(self, index: Any) -> Any:
        """The answer at a position, or several."""
        found = self.replies[index]
        return CitedReplies(found) if isinstance(index, slice) else found

    def __len__(self) -> int:
        """The number of questions."""
        return len(self.replies)

    def to_arrow(self) -> pa.Table:
        """The answers as a table, a row a question."""
        return pa.concat_tables([each.row for each in self.replies])

    def to_pandas(self) -> Any:
        """The answers as a pandas frame, a row a question."""
        return self.to_arrow().to_pandas()

    def __str__(self) -> str:
        """All answers as text."""
        return f"\n\n{'─' * WIDTH}\n".join(map(str, self.replies))

    def _repr_html_(self) -> str:
        return "\n".join(each._repr_html_() for each in self.replies)


@dataclass(frozen=True, kw_only=True)
class FoundPassage:
    """A window that a search found; `rank` counts from 1."""

    rank: int
    score: float
    unit_id: str
    grade: str
    title: str
    source_id: str
    pmid: str
    year: int
    section: str
    text: str

    def cited_as(self) -> dict[str, Any]:
        """The fields for a citation of this window: all but its text and id."""
        return {name: value for name, value in vars(self).items() if name not in _SAID}


_SAID = ("text", "unit_id")


@dataclass(frozen=True)
class FoundPassages(Sequence[FoundPassage]):
    """The windows that a search found, best first."""

    question: str
    passages: tuple[FoundPassage, ...]

    def __getitem__(self, index: Any) -> Any:
        """The passage at a position, or several."""
        found = self.passages[index]
        return FoundPassages(self.question, found) if isinstance(index, slice) else found

    def __len__(self) -> int:
        """The number of passages."""
        return len(self.passages)

    def __iter__(self) -> Iterator[FoundPassage]:
        """The passages, best first."""
        return iter(self.passages)

    def to_arrow(self) -> pa.Table:
        """The passages as a table, with a column a field."""
        return pa.Table.from_pylist([vars(each) for each in self.passages])

    def to_pandas(self) -> Any:
        """The passages as a pandas frame."""
        return self.to_arrow().to_pandas()

    def __str__(self) -> str:
        """The passages as text, two lines each."""
        lines = [textwrap.fill(self.question, WIDTH), ""]
        for each in self.passages:
            head = f"{each.rank:>3}  {each.score:.4f}  grade {each.grade or '–'}  {each.title}"
            lines.append(textwrap.shorten(head, WIDTH, placeholder=" …"))
            lines.append("     " + textwrap.shorten(each.text, WIDTH - 5, placeholder=" …"))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return _html("passages.html", found=self)


def reply_of(row: pa.Table) -> CitedReply:
    """Make the reply of a pipeline's output of one row."""
    (values,) = row.to_pylist()
    if values["reject"] is not None:
        reject = values["reject"]
        error = f"{reject['stage']}: {reject['detail']}"
        return CitedReply(question=values["text"], text="", error=error, row=row)
    said = answer_json(values)
    lost = [f"{each['step']} gave nothing. {each['fault']}" for each in said["degraded"]]
    notes = (
        said.get("standing_note"),
        said.get("notice"),
        said.get("missing"),
        said.get("note"),
        said.get("support_note"),
        *lost,
    )
    names = ("number", "grade", "study", "title", "source_id", "pmid", "year", "section", "text")
    return CitedReply(
        question=values["text"],
        text=said["answer"],
        sentences=tuple(
            AnswerSentence(text=each["text"], citations=tuple(each["citations"]))
            for each in said["sentences"]
        ),
        evidence=tuple(
            GradedEvidence(
                **{name: item[name] for name in names},
                quotes=tuple(quote["text"] for quote in item["quotes"]),
            )
            for item in said["evidence"]
        ),
        state=said["state"],
        notes=tuple(filter(None, notes)),
        model=said["model"],
        json=said,
        row=row,
    )


def _html(name: str, **given: Any) -> str:
    return templates(Path(__file__).parent).get_template(name).render(given)
