"""What steps need that work row by row: live rows, new columns, rejects, and a base for those that
ask a model once about each row.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from srrag.core.errors import Halt
from srrag.core.schema import REJECT, empty_column
from srrag.core.step import LLMStep
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, fenced

Row = dict[str, Any]


def live(batch: pa.Table, names: Sequence[str]) -> Iterator[tuple[int, Row]]:
    """Yield the number and these columns of each row that no earlier step rejected."""
    rows = batch.select(list(names)).to_pylist()
    for number, (row, reject) in enumerate(zip(rows, _rejects(batch), strict=True)):
        if reject is None:
            yield number, row


def filled(batch: pa.Table, schema: pa.Schema, made: Mapping[int, Mapping[str, Any]]) -> pa.Table:
    """Add the columns of a schema to the batch; rows that `made` lacks get empty values.

    A row that was rejected earlier keeps its reject.
    """
    blank = {field.name: empty_column(field) for field in schema} | {"reject": None}
    rows = [
        {**blank, **made.get(number, {}), **({"reject": former} if former else {})}
        for number, former in enumerate(_rejects(batch))
    ]
    for field in schema:
        values = pa.array([row[field.name] for row in rows], field.type)
        if field.name in batch.column_names:
            batch = batch.set_column(batch.column_names.index(field.name), field, values)
        else:
            batch = batch.append_column(field, values)
    return batch


def with_columns(batch: pa.Table, columns: pa.Table) -> pa.Table:
    """Return the batch with these columns added; they replace columns of the same name."""
    new = {*columns.column_names}
    kept = batch.select([name for name in batch.column_names if name not in new])
    schema = pa.schema([*kept.schema, *columns.schema])
    return pa.table([*kept.columns, *columns.columns], schema=schema)


def with_rejects(batch: pa.Table, stage: str, faults: Mapping[int, Sequence[Fault]]) -> pa.Table:
    """Reject each live row that has faults, for the first of them."""
    rejects: list[dict[str, str] | None] = []
    for number, former in enumerate(_rejects(batch)):
        found = faults.get(number, ())
        lost = f"{len(found)} answers lost, the first: " if len(found) > 1 else ""
        fault = {
            "stage": stage, "reason": found[0].kind, "detail": lost + found[0].detail
        } if found else None  # fmt: skip
        rejects.append(former or fault)
    column = pa.table({"reject": pa.array(rejects, REJECT)})
    return with_columns(batch, column)


def rejected(stage: str, fault: Fault) -> dict[str, Any]:
    """Return the value that rejects a row in `filled`."""
    return {"reject": {"stage": stage, "reason": fault.kind, "detail": fault.detail}}


def _rejects(batch: pa.Table) -> list[dict[str, str] | None]:
    if "reject" not in batch.column_names:
        return [None] * batch.num_rows
    rejects: list[dict[str, str] | None] = batch["reject"].to_pylist()
    return rejects


T = TypeVar("T")


def isolated(
    run: Callable[[int, int], T], start: int, stop: int, fault: Callable[[int, Exception], T]
) -> list[T]:
    """Run items start … stop - 1 together; while that raises, run the halves by themselves.

    `run(start, stop)` returns one result for its items; `fault(item, error)` stands in for an item
    that fails alone. Returns the results in the order of the items. Raises a Halt as it comes, and
    any error of `run` for no items.
    """
    try:
        return [run(start, stop)]
    except Halt:
        raise
    except Exception as error:
        if start == stop:
            raise
        if stop - start == 1:
            return [fault(start, error)]
    middle = (start + stop) // 2
    return [*isolated(run, start, middle, fault), *isolated(run, middle, stop, fault)]


@dataclass(frozen=True, kw_only=True)
class RowStep(LLMStep):
    """An LLMStep with at most one prompt for each row; a faulty answer rejects its row."""

    max_tokens: int

    slot: ClassVar[str]
    """The name of its prompts."""
    stage: ClassVar[str] = ""
    """The stage of its rejects, "" for that of the slot."""
    file: ClassVar[PromptFile]
    temperature: ClassVar[float] = 0.0

    def __init_subclass__(cls) -> None:
        """Let the prompt's file be a part of the step's identity."""
        super().__init_subclass__()
        if "file" in vars(cls):
            cls.prompt_files = (cls.file.path, *vars(cls).get("prompt_files", ()))

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt for each live row that there is something to ask about."""
        shared = {"schema": self.file.schema, **self.asked()}
        return [
            Prompt(
                number, self.slot, user=self.file.user(**told), temperature=self.temperature,
                max_tokens=self.max_tokens, **{**shared, **self.own(row)},
            )
            for number, row in live(batch, self.reads)
            if (told := self.told(row)) is not None
        ]  # fmt: skip

    def asked(self) -> dict[str, Any]:
        """What all prompts share: the system text."""
        return {"system": self.file.system()}

    def own(self, row: Row) -> dict[str, Any]:
        """What else the prompt of a row has, such as its schema or the question that it is on."""
        return {}

    def told(self, row: Row) -> Mapping[str, object] | None:
        """What the user text tells of a row, such as its question; None asks nothing."""
        return {"question": fenced("question", row["text"])}

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The answer of the rules to each row."""
        rows = dict(live(batch, self.reads))
        answers = self.ruled([rows[prompt.row] for prompt in prompts])
        return [
            json.dumps(each) if isinstance(each, dict) else each.model_dump_json()
            for each in answers
        ]

    @abc.abstractmethod
    def ruled(self, rows: Sequence[Row]) -> Iterable[Answer | Row]:
        """Answer the prompts of these rows by rules, in their schema or what fits it."""

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """The fault of an answer, by its row."""
        (row,) = batch.select(list(self.reads)).slice(prompt.row, 1).to_pylist()
        return self.fault(value, row)

    def fault(self, value: Any, row: Row) -> Fault | None:
        """Why an answer that fits its schema cannot stand, None if it can."""
        return None

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Fill the columns of each row."""
        rows = dict(live(batch, self.reads))
        made = {
            prompt.row: rejected(self.stage or self.slot, answer.fault)
            if answer.fault is not None
            else self.columns(answer.value, rows[prompt.row])
            for prompt, answer in zip(prompts, completions, strict=True)
        }
        unasked = {number: self.unasked(row) for number, row in rows.items() if number not in made}
        return filled(batch, self.writes, made | unasked)

    def unasked(self, row: Row) -> Row:
        """The columns of a row that nothing is asked about; what it lacks is empty."""
        return {}

    @abc.abstractmethod
    def columns(self, value: Any, row: Row) -> Row:
        """The columns that an answer fills, or what `rejected` returns."""
