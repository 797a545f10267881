"""Which statements an answer has to make, where the gold does not name them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from srrag.algo.entailment import sentences
from srrag.lab.benchmark.split_nuggets import PROMPT, STAGE, Nuggets, by_rules, fault, standing
from srrag.lab.measure.judgements import Case
from srrag.lab.measure.judging_steps import Preparation
from srrag.llm.completion import Fault, PromptFile, quoted


@dataclass(frozen=True, kw_only=True)
class MakeNuggets(Preparation):
    """Takes ideal answers whose gold names no nuggets apart, as SplitNuggets does, in one call.

    At most 16 nuggets are kept; sentences beyond that are left out by rules, and counted.
    Vital nuggets are the must-have statements of rethinking-rag (section 4.1.1), which it marks in
    a second call. Without them a case is rejected, and counts as failed everywhere.
    """

    reads: ClassVar[tuple[str, ...]] = ("text", "ideal_answer", "nuggets", "reject")
    fills: ClassVar[tuple[str, ...]] = ("nuggets", "reject")
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    file: ClassVar[PromptFile] = PROMPT

    def user(self, case: Case) -> str | None:
        """Question and ideal answer, if there are no nuggets."""
        if not case["ideal_answer"] or case["nuggets"]:
            return None
        return PROMPT.user(question=quoted(case["text"]), answer=quoted(case["ideal_answer"]))

    def rule(self, case: Case) -> Nuggets:
        """Make each sentence a vital nugget."""
        return by_rules(sentences(case["ideal_answer"]))

    def lacks(self, case: Case, said: Any) -> Fault | None:
        """Return a fault for nuggets with a number that question and answer lack."""
        return fault(said, [case["ideal_answer"], case["text"]])

    def take(self, case: Case, said: Any, lost: str) -> dict[str, Any]:
        """Make nuggets, or reject the case."""
        if said is None and not lost:
            return {name: case[name] for name in self.fills}
        nuggets = standing(said, [case["ideal_answer"], case["text"]]) if said else []
        reject = {"stage": STAGE, "reason": lost or "no_nuggets", "detail": "no fact to judge by"}
        return {"nuggets": nuggets, "reject": case["reject"] or (None if nuggets else reject)}
