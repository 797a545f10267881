"""What the library gives in Python: answers and passages for notebooks, and evaluations."""

from __future__ import annotations

import abc
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.answer.record import AnswerRecord, beside, remarks, written_by
from srrag.core.html import templates
from srrag.retrieve.passages import FoundPassage

WIDTH = 96
"""Characters in a line of a terminal."""


class Tabled(abc.ABC):
    """A result that is a table too; a notebook shows it as HTML."""

    @abc.abstractmethod
    def to_arrow(self) -> pa.Table:
        """The result as a table."""

    def to_pandas(self) -> Any:
        """The same as a pandas frame."""
        return self.to_arrow().to_pandas()

    @staticmethod
    def _html(name: str, **given: Any) -> str:
        return templates(Path(__file__).parent).get_template(name).render(given)


@dataclass(frozen=True, kw_only=True)
class CitedReply(AnswerRecord, Tabled):
    """The answer to one question, with the row that the pipeline wrote."""

    row: pa.Table = field(default_factory=lambda: pa.table({}), repr=False, compare=False)

    def to_arrow(self) -> pa.Table:
        """The answer as a table of one row, with the columns that the pipeline wrote."""
        return self.row

    def __str__(self) -> str:
        """The answer as text, its remarks and its papers; a star marks what is cited."""
        lines = [textwrap.fill(self.question, WIDTH), ""]
        lines += [textwrap.fill(each, WIDTH) for each in self.answer.split("\n")]
        return "\n".join([*lines, "", beside(self, WIDTH), written_by(self.model)]).rstrip()

    def _repr_html_(self) -> str:
        """The answer as HTML, with grades and quotes, for a notebook."""
        return self._html(
            "reply.html", reply=self, remarks=remarks(self), by=written_by(self.model),
            cited={e.number for e in self.cited},
            status={number: paper.status for paper in self.papers for number in paper.numbers},
        )  # fmt: skip


@dataclass(frozen=True)
class CitedReplies(Sequence[CitedReply], Tabled):
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

    def __str__(self) -> str:
        """All answers as text."""
        return f"\n\n{'─' * WIDTH}\n".join(map(str, self.replies))

    def _repr_html_(self) -> str:
        return "\n".join(each._repr_html_() for each in self.replies)


@dataclass(frozen=True)
class FoundPassages(Sequence[FoundPassage], Tabled):
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

    def to_arrow(self) -> pa.Table:
        """The passages as a table, with a column a field."""
        return pa.Table.from_pylist([vars(each) for each in self.passages])

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
        return self._html("passages.html", found=self)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A metric of a system, or of the difference of two: value and 95 % interval; p after Holm."""

    system: str
    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    p_holm: float | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation(Tabled):
    """The figures of a benchmark. `json` is what `srrag evaluate` prints."""

    system: str
    baseline: str
    measured: tuple[Measured, ...]
    json: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __getitem__(self, metric: str) -> Measured:
        """A metric of the system; raises KeyError for one that was not measured."""
        for each in self.measured:
            if each.metric == metric and each.system == self.system:
                return each
        raise KeyError(metric)

    def to_arrow(self) -> pa.Table:
        """The figures as a table, a row a system and metric."""
        return pa.Table.from_pylist([vars(each) for each in self.measured])

    def __str__(self) -> str:
        """A line a figure."""
        return "\n".join(
            f"{each.system:<28}{each.metric:<24}{_shown(each)}" for each in self.measured
        )

    def _repr_html_(self) -> str:
        rows = [(each, _shown(each)) for each in self.measured]
        return self._html("evaluation.html", rows=rows)


def _shown(each: Measured) -> str:
    if each.value is None:
        return "–"
    interval = "" if each.low is None else f"  [{each.low:.4f}, {each.high:.4f}]"
    return f"{each.value:.4f}{interval}" + ("" if each.p_holm is None else f"  p {each.p_holm:.4f}")


def evaluation_of(said: Mapping[str, Any]) -> Evaluation:
    """Make the typed result of what `srrag evaluate` prints."""
    system, baseline = str(said.get("system", "")), str(said.get("baseline", ""))
    named = {
        system: said.get("metrics"),
        baseline: said.get("rows", {}).get(baseline, {}).get("metrics"),
        f"{system} − {baseline}": said.get("difference"),
    }
    measured = (found for name, each in named.items() for found in _measured(name, each or {}))
    return Evaluation(system=system, baseline=baseline, measured=tuple(measured), json=said)


def _measured(system: str, metrics: Mapping[str, Any]) -> Iterator[Measured]:
    for metric, found in metrics.items():
        if isinstance(found, Mapping) and "value" in found:
            kept = {key: found.get(key) for key in ("value", "low", "high", "p_holm")}
            yield Measured(system=system, metric=metric, **kept)


def evaluate_here(
    root: object, name: str, bench: str, path: str | Path | None, overrides: list[str]
) -> Evaluation:
    """Evaluate on a build in this process; the arguments are as on the command line."""
    from srrag.config.compose import configure
    from srrag.config.words import JOBS

    job = import_module(f"{JOBS}.evaluate")
    given = [f"root={root}", f"build={name}", f"bench={bench}", *overrides]
    given += [] if path is None else [f"bench.path={path}"]
    return evaluation_of(job.run(configure("evaluate", given)))
