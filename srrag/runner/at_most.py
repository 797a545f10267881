"""An upper bound on the calls of pipelines for a set of questions, before any call.

One row stands for a group of questions: each of its fields is as long as the longest in the group.
It goes through the steps in order. The prompts of a step that asks a model are rendered and counted
as they are; then its columns, and those of every step that later prompts show, become as large as
they can get (`Sized`). So no search runs, and the bound holds for any hits and answers.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from srrag.engine.base import Model
from srrag.engine.count_tokens import TokenCounter
from srrag.llm.delimit import quoted
from srrag.rows import Row
from srrag.runner.engines import engines_of
from srrag.runner.estimate import Estimate, counted, counter_of, priced
from srrag.schema import EVIDENCE, empty_value
from srrag.spec import canonical, spec
from srrag.step import LLMStep, Place, Sized, Step
from srrag.units import open_units

GROUPS = 8
"""Number of groups by size for questions of one shape; more are more accurate, and slower."""
_COUNTED_AT_ONCE = 4096
_ANSWER = ("answer", "sentences", "evidence")
"""Columns of an answer that judges read."""


class LongestTexts:
    """The longest texts of a root by a tokenizer, as prompts show them: the `Longest` of steps."""

    def __init__(self, at: Place, tokens: TokenCounter) -> None:
        """Bind a place with the artifacts of the pipelines; nothing is read yet."""
        self.at = at
        self._tokens = tokens
        self._windows: list[str] = []

    def windows(self, count: int, joined: int = 1) -> list[Row]:
        """Return EVIDENCE of the longest windows, each with the longest title and section."""
        if len(self._windows) < count * joined:
            self._windows = self.texts(self._units.units["text"], count * joined)
        found = self._windows
        return [
            self._item
            | {
                "evidence_id": f"longest {n}",
                "text": "\n".join(found[n * joined : (n + 1) * joined]),
            }
            for n in range(min(count, len(self._units)))
        ]

    def texts(self, texts: pa.ChunkedArray, count: int) -> list[str]:
        """Return the `count` longest of these texts, the longest first, escaped as in JSON.

        A token has a byte at least, so that texts with fewer bytes than the shortest of the
        `count` has tokens need no counting.
        """
        shown = sorted((escaped(text) for text in texts.to_pylist()), key=_num_bytes, reverse=True)
        best: list[tuple[int, str]] = []
        for start in range(0, len(shown), _COUNTED_AT_ONCE):
            some = shown[start : start + _COUNTED_AT_ONCE]
            if len(best) == count and _num_bytes(some[0]) <= best[-1][0]:
                break
            sizes = self._tokens.texts(some)
            best = heapq.nlargest(count, [*best, *zip(sizes, some, strict=True)])
        return [text for _, text in best]

    def written(self, tokens: int) -> str:
        """Return a text of at least so many tokens: four bytes and a number each."""
        return "777 " * tokens

    @cached_property
    def _units(self) -> Any:
        return open_units(self.at)

    @cached_property
    def _item(self) -> Row:
        """A piece of evidence without its text, with the longest values of each field."""
        documents = self._units.documents
        named = [self._units.units["section"]]
        if "section" in documents.column_names:
            named.append(documents["section"])
        sections = pa.chunked_array([chunk for column in named for chunk in column.chunks])
        blank = {item.name: empty_value(item.type) for item in EVIDENCE.value_type}
        return blank | {
            "kind": "window",
            "grade": "A",
            "year": 2000,
            "title": "".join(self.texts(documents["title"].unique(), 1)),
            "section": "".join(self.texts(sections.unique(), 1)),
        }


class AtMost(LongestTexts):
    """Walks pipelines with one row for a group of `times` questions, and counts their prompts.

    A step that follows the same steps as in another pipeline has the same prompts there, which are
    paid for once.
    """

    def __init__(self, at: Place, tokens: TokenCounter, paid: set[tuple[str, ...]]) -> None:
        """`paid` holds what other pipelines have counted."""
        super().__init__(at, tokens)
        self.found: dict[str, Estimate] = {}
        self.times = 1
        self._paid = paid
        self._before: tuple[str, ...] = ()
        self._why: dict[str, str] = {}

    def through(self, steps: Sequence[Step], row: Row, name: str = "") -> Row:
        """Count what the steps ask about a row; return it with the columns that they add."""
        kept, self._before = self._before, (*self._before, name)
        for step in steps:
            row = row | self._after(step, row)
            self._before = (*self._before, canonical(spec(step)))
        self._before = kept
        return row

    def _after(self, step: Step, row: Row) -> Row:
        """The columns of a step as large as they can get, once its prompts are counted."""
        if isinstance(step, LLMStep) and isinstance(step.engine, Model):
            self._count(step, step.engine, row)
        elif engines_of([step]) and not isinstance(step, Sized):
            raise ValueError(f"estimate: nothing bounds what {type(step).__name__} asks")
        if not isinstance(step, Sized):
            return {}
        try:
            return step.largest(row, self)
        except KeyError as missing:
            why = self._reason(missing.args[0])
        except ValueError as error:
            why = f"{type(step).__name__}: {error}"
        self._why |= dict.fromkeys(step.writes.names, why)  # reported if a prompt shows it
        return {}

    def _reason(self, column: str) -> str:
        return self._why.get(column, f"nothing bounds {column!r}")

    def _count(self, step: LLMStep, engine: Model, row: Row) -> None:
        name = type(step).__name__
        for column in step.reads:
            if column not in row:
                raise ValueError(f"estimate: {name} shows {column!r}; {self._reason(column)}")
        paid = (*self._before, canonical(spec(step)))
        if paid in self._paid:
            return
        self._paid.add(paid)
        prompts = step.prompts(pa.table({column: [row[column]] for column in step.reads}))
        found = counted(self._tokens, engine, prompts, [], step.again)
        self.found.setdefault(name, Estimate()).add(priced(found.times(self.times), engine))


def at_most(
    questions: Sequence[Row],
    pipelines: Mapping[str, tuple[Sequence[Step], Place]],
    judged: Mapping[str, tuple[Sequence[Step], Sequence[Row]]],
) -> dict[str, Any]:
    """Return the most calls and tokens of pipelines, with the judges of their answers.

    `judged` has the judges of each pipeline and the cases without answers. Raises ValueError where
    a prompt has no bound.
    """
    steps = [step for each, _ in pipelines.values() for step in each]
    steps += [step for each, _ in judged.values() for step in each]
    models = engines_of(steps)
    if not models:
        raise ValueError("estimate: the engine is 'rules', which calls nothing")
    if len({model.counts_by for model in models}) > 1:
        raise ValueError("estimate: its engines count tokens by different tokenizers")
    tokens = counter_of(models[0])
    paid: set[tuple[str, ...]] = set()
    total, rows = Estimate(), {}
    for name, (own, at) in pipelines.items():
        walk = AtMost(at, tokens, paid)
        for number, group in enumerate(groups(questions, tokens)):
            walk.times = len(group)
            walk.through(own, longest_of(group, tokens), f"group {number}")
        if name in judged:
            _judge(walk, name, own, *judged[name], tokens)
        each = Estimate()
        for found in walk.found.values():
            each.add(found)
        total.add(each)
        asked = {step: found.most() for step, found in walk.found.items()}
        rows[name] = {**each.most(), "steps": asked}
    known = all(model.priced for model in models)
    return {
        "estimate": True,
        "questions": len(questions),
        "engines": [model.name for model in models],
        **total.most(),
        "usd_max": round(total.usd_max, 4) if known else None,
        "pipelines": rows,
    }


def _judge(
    walk: AtMost, name: str, own: Sequence[Step], judges: Sequence[Step], cases: Sequence[Row],
    tokens: TokenCounter,
) -> None:  # fmt: skip
    """Count the judges' prompts on the largest answers of a pipeline."""
    for number, group in enumerate(groups(cases, tokens)):
        walk.times = 0  # the pipeline's own prompts were counted
        case = longest_of(group, tokens)
        answered = walk.through(own, case, f"judged {number}")
        case |= {column: answered[column] for column in _ANSWER}
        case["gold_option"] = next(iter(case["options"]), "")
        walk.times = len(group)
        walk.through(judges, case, f"judges {name} {number}")


def groups(rows: Sequence[Row], tokens: TokenCounter) -> Iterator[list[Row]]:
    """Yield rows of one shape and of about one size together.

    The shape says which fields are empty, and how many options there are: other prompts follow.
    """
    by_shape: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        shape = tuple(bool(value) for value in row.values())
        by_shape.setdefault((len(row["options"]), *shape), []).append(row)
    for some in by_shape.values():
        some.sort(key=lambda row: _num_bytes(str(row)))
        size = -(-len(some) // GROUPS)
        yield from (some[start : start + size] for start in range(0, len(some), size))


def longest_of(values: Sequence[Any], tokens: TokenCounter) -> Any:
    """Return a value of which every part is as long as in any of the values."""
    first = values[0]
    if isinstance(first, str):
        shown = sorted({escaped(each) for each in values})
        sizes = tokens.texts(shown)
        return max(zip(sizes, shown, strict=True))[1]
    if isinstance(first, Mapping):
        return {name: longest_of([each[name] for each in values], tokens) for name in first}
    if isinstance(first, (list, tuple)):
        most = max(map(len, values))
        items = [item for each in values for item in each]
        return [longest_of(items, tokens)] * most if most else []
    return first


def escaped(text: str) -> str:
    """Return a text as it stands in JSON: no rendering of the text itself is longer."""
    return quoted(text)[1:-1]


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def readable(summary: Mapping[str, Any]) -> str:
    """Format the estimate for a terminal: a line, and one a pipeline if there are several."""
    usd = summary["usd_max"]
    price = "no price known" if usd is None else f"{usd:,.2f} USD"
    lines = [f"at most {_told(summary)}, {price} for {summary['questions']:,} questions"]
    rows = summary["pipelines"]
    width = max(map(len, rows), default=0)
    if len(rows) > 1:
        lines += [f"  {name:<{width}}  {_told(row)}" for name, row in rows.items()]
    return "\n".join(lines)


def _told(row: Mapping[str, Any]) -> str:
    return (
        f"{row['calls_max']:,} calls, {row['tokens_in_max']:,} tokens in, "
        f"{row['tokens_out_max']:,} out"
    )
