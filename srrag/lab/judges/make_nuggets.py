"""Which statements an answer has to make, where the gold does not name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from srrag.algo.entailment import sentences
from srrag.lab.benchmark.split_nuggets import (
    PROMPT,
    STAGE,
    Nuggets,
    by_rules,
    fault,
    prompt,
    standing,
)
from srrag.lab.measure.judgements import Preparation
from srrag.llm.completion import Completion, Fault, Prompt
from srrag.llm.fields import most_tokens


@dataclass(frozen=True, kw_only=True)
class MakeNuggets(Preparation):
    """Takes ideal answers whose gold names no nuggets apart, as SplitNuggets does, in one call.

    Vital nuggets are the must-have statements of rethinking-rag (section 4.1.1), which it marks in
    a second call. Without them a case is rejected, and counts as failed everywhere.
    """

    reads: ClassVar[tuple[str, ...]] = ("text", "ideal_answer", "nuggets")
    fills: ClassVar[tuple[str, ...]] = ("nuggets",)
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    max_tokens: int = most_tokens(Nuggets)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """A prompt for each ideal answer without nuggets."""
        return [
            prompt(row, case["text"], case["ideal_answer"], self.max_tokens)
            for row, case in enumerate(self.rows(batch))
            if case["ideal_answer"] and not case["nuggets"]
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Make each sentence a vital nugget."""
        answers = batch["ideal_answer"].to_pylist()
        return [by_rules(sentences(answers[each.row])) for each in prompts]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Return a fault for nuggets with a number that question and answer lack."""
        return fault(value, _sources(batch, prompt.row))

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Make nuggets, or reject the case."""
        nuggets: list[Any] = batch["nuggets"].to_pylist()
        rejects: list[Any] = batch["reject"].to_pylist()
        for asked, completion in zip(prompts, completions, strict=True):
            row, value = asked.row, completion.value
            nuggets[row] = standing(value, _sources(batch, row)) if value else []
            if not nuggets[row]:
                lost = completion.fault or Fault("no_nuggets", "no fact of the ideal answer")
                reject = {"stage": STAGE, "reason": lost.kind, "detail": lost.detail}
                rejects[row] = rejects[row] or reject
        return self.fill(batch, nuggets=nuggets, reject=rejects)


def _sources(batch: pa.Table, row: int) -> list[str]:
    return [batch["ideal_answer"][row].as_py(), batch["text"][row].as_py()]
