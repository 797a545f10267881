"""Results of the library: typed, printed well in a terminal and in a notebook."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.answer.record import AnswerRecord
from srrag.answer.text import beside, remarks
from srrag.core.html import templates
from srrag.retrieve.passages import FoundPassage

WIDTH = 96
"""Characters in a line of a terminal."""


@dataclass(frozen=True, kw_only=True)
class CitedReply(AnswerRecord):
    """The answer to one question, with the row that the pipeline wrote."""

    row: pa.Table = field(default_factory=lambda: pa.table({}), repr=False, compare=False)

    def to_arrow(self) -> pa.Table:
        """The answer as a table of one row, with the columns that the pipeline wrote."""
        return self.row

    def to_pandas(self) -> Any:
        """The answer as a pandas frame of one row."""
        return self.row.to_pandas()

    def __str__(self) -> str:
        """The answer as text, its remarks and its papers; a star marks what is cited."""
        lines = [textwrap.fill(self.question, WIDTH), ""]
        lines += [textwrap.fill(each, WIDTH) for each in self.answer.split("\n")]
        by = f"Written by: {self.model}." if self.model else ""
        return "\n".join([*lines, "", beside(self, WIDTH), by]).rstrip()

    def _repr_html_(self) -> str:
        """The answer as HTML, with grades and quotes, for a notebook."""
        return _html(
            "reply.html", reply=self, remarks=remarks(self), cited={e.number for e in self.cited},
            status={number: paper.status for paper in self.papers for number in paper.numbers},
        )  # fmt: skip


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
            status = f"{each.status.upper()}  " if each.status else ""
            head = f"{each.rank:>3}  {each.score:.4f}  {status}grade {each.grade or '–'}  "
            lines.append(textwrap.shorten(head + each.title, WIDTH, placeholder=" …"))
            lines.append("     " + textwrap.shorten(each.text, WIDTH - 5, placeholder=" …"))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return _html("passages.html", found=self)


def _html(name: str, **given: Any) -> str:
    return templates(Path(__file__).parent).get_template(name).render(given)
