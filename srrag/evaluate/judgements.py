"""What is judged (CASES) and what comes of it (JUDGEMENTS); a Judge is a step between the two."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import StringConstraints

from srrag.completion import Answer, Completion, Prompt, Rules
from srrag.evaluate import entailment
from srrag.schema import EVIDENCE, PICOT, SENTENCES, relation
from srrag.step import LLMStep, Step

NUGGETS = pa.list_(pa.struct([pa.field("text", pa.string()), pa.field("importance", pa.string())]))
"""Statements that an answer has to make; `importance` is vital or okay."""

CASES = relation(
    ("query_id", pa.string()),
    ("text", pa.string()),
    ("answer", pa.string()),
    ("missing", pa.string()),
    ("abstained", pa.bool_()),
    ("sentences", SENTENCES),
    ("evidence", EVIDENCE),
    ("ideal_answer", pa.string()),
    ("nuggets", NUGGETS),
    ("picot", PICOT),
    ("options", pa.list_(pa.string())),
    ("gold_option", pa.string()),
)
"""A row a question: an answer with its evidence, and the gold.

`missing` says how the answer failed, "" if there is one; it then counts as worst everywhere.
`abstained` answers say that the evidence does not suffice, and claim nothing: their text is judged,
but they have no claims or citations that could be.
What the gold lacks is empty: "", [], and "" in a field of `picot`.
"""

JUDGEMENTS = relation(
    ("query_id", pa.string()),
    ("metric", pa.string()),
    ("item", pa.string()),
    ("value", pa.float64()),
    ("reason", pa.string()),
)
"""A row a judged item, 0…1. One with `reject` was not judged: it counts with its worst value."""

REASON = StringConstraints(max_length=400)
"""Bounds of the reason that a judge gives."""

Case = dict[str, Any]
Judgement = dict[str, Any]


@dataclass(frozen=True)
class Metric:
    """A figure that judgements add up to.

    The mean over questions of each question's mean, or, if `pooled`, that over all items.
    `needs` says what a question has to have for it to count.
    """

    name: str
    needs: str
    better: Literal["higher", "lower"] = "higher"
    pooled: bool = False

    @property
    def worst(self) -> float:
        """The value of what failed."""
        return 0.0 if self.better == "higher" else 1.0

    def judged(self, case: Case, item: str, value: float, reason: str) -> Judgement:
        """A judgement."""
        return {
            "query_id": case["query_id"],
            "metric": self.name,
            "item": item,
            "value": float(value),
            "reason": reason,
            "reject": None,
        }

    def failed(self, case: Case, item: str, completion: Completion) -> Judgement:
        """The judgement of an item whose judge gave no answer that can be used."""
        assert completion.fault is not None
        kind, detail = completion.fault.kind, completion.fault.detail
        reject = {"stage": self.name, "reason": kind, "detail": detail}
        return self.judged(case, item, self.worst, f"not judged: {kind}") | {"reject": reject}


@dataclass(frozen=True, kw_only=True)
class Judge(LLMStep):
    """Asks a model one or several things about each case, and makes judgements of the answers."""

    keeps_rows: ClassVar[bool] = False
    writes: ClassVar[pa.Schema] = JUDGEMENTS
    metrics: ClassVar[tuple[Metric, ...]]
    schema: ClassVar[type[Answer]]
    max_tokens: ClassVar[int] = 256

    @abc.abstractmethod
    def asks(self, case: Case) -> list[tuple[str, str]]:
        """System and user text of each thing asked about a case; none if nothing can be."""

    @abc.abstractmethod
    def rule(self, case: Case, number: int) -> Answer:
        """Answer the n-th thing asked by rules."""

    @abc.abstractmethod
    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """The judgements of a case, from an answer or a fault for each thing asked."""

    def identity(self) -> dict[str, Any]:
        """The prompt, and the rules where they answer."""
        rules = {"entailment": entailment.VERSION} if isinstance(self.engine, Rules) else {}
        return {**super().identity(), **rules}

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render everything that is asked about the cases of a batch."""
        return [
            Prompt(row, str(number), system, user, self.schema, max_tokens=self.max_tokens)
            for row, case in enumerate(self._cases(batch))
            for number, (system, user) in enumerate(self.asks(case))
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Answer by rules."""
        cases = self._cases(batch)
        return [self.rule(cases[p.row], int(p.slot)).model_dump_json() for p in prompts]

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """The judgements of all cases, in their order."""
        given: dict[int, list[Completion]] = {}
        for prompt, completion in zip(prompts, completions, strict=True):
            given.setdefault(prompt.row, []).append(completion)
        rows = [
            judgement
            for row, case in enumerate(self._cases(batch))
            for judgement in self.judge(case, given.get(row, []))
        ]
        return pa.Table.from_pylist(rows, schema=JUDGEMENTS)

    def _cases(self, batch: pa.Table) -> list[Case]:
        cases: list[Case] = batch.select(self.reads).to_pylist()
        return cases


def metrics_of(step: Step) -> tuple[Metric, ...]:
    """The metrics that a step judges by; none if it only prepares cases for others."""
    found: tuple[Metric, ...] = getattr(step, "metrics", ())
    return found


def evidence_by_id(case: Case) -> Mapping[str, dict[str, Any]]:
    """The evidence of a case."""
    return {item["evidence_id"]: item for item in case["evidence"]}
