"""Which evidence supports each statement that an answer has to make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field

from srrag.algo.entailment import THRESHOLD, entails
from srrag.lab.measure.judgements import REASON, Case, Preparation, lines, must_have
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.delimit import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_evidence.md")

MOST = 64
"""Largest number of pieces of evidence in one call."""

Number = Annotated[int, Field(ge=1, le=MOST)]


class Support(Answer):
    """The passages that support a statement."""

    reason: Annotated[str, REASON]
    supported_by: Annotated[list[Number], Field(max_length=MOST)]


@dataclass(frozen=True, kw_only=True)
class FindSupport(Preparation):
    """One call a vital nugget, which sees the `depth` best pieces of evidence; None: all, to MOST.

    A passage that states it in full or in part supports it, one that says the opposite does not
    (rethinking-rag, section 2.1.3). By rules it supports what it holds `threshold` of the words of.
    """

    reads: ClassVar[tuple[str, ...]] = ("text", "evidence", "nuggets")
    fills: ClassVar[tuple[str, ...]] = ("support",)
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    depth: int | None = None
    max_tokens: int = 384

    def __post_init__(self) -> None:
        """Raise ValueError for a depth that no answer can name."""
        check_depth(self.depth)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """A prompt a vital nugget, if there is evidence."""
        system = PROMPT.system()
        return [
            Prompt(row, str(number), system, user, Support, max_tokens=self.max_tokens)
            for row, case in enumerate(batch.select(self.reads).to_pylist())
            for number, user in enumerate(self._users(case))
        ]

    def _users(self, case: Case) -> list[str]:
        shown = best(case, self.depth)
        if not shown:
            return []
        passages = lines({"title": item["title"], "text": item["text"]} for item in shown)
        question = quoted(case["text"])
        return [
            PROMPT.user(question=question, passages=passages, statement=quoted(statement))
            for statement in must_have(case)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Compare the words of the statement with those of each piece of evidence."""
        cases = batch.select(self.reads).to_pylist()
        answers = []
        for prompt in prompts:
            case = cases[prompt.row]
            statement = must_have(case)[int(prompt.slot)]
            supported = [
                n
                for n, item in enumerate(best(case, self.depth), start=1)
                if self._states(item["text"], statement, case["text"])
            ]
            reason = f"passages with {THRESHOLD:.0%} of the statement's words"
            answers.append(Support(reason=reason, supported_by=supported).model_dump_json())
        return answers

    def _states(self, text: str, statement: str, question: str) -> bool:
        return entails(text, statement, question, THRESHOLD).verdict == "supported"

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Turn numbers into ids of evidence; a number that was not shown is none."""
        cases = batch.select(self.reads).to_pylist()
        found: list[list[dict[str, Any]]] = [
            [{"evidence_ids": [], "reason": "", "fault": ""} for _ in must_have(case)]
            for case in cases
        ]
        for prompt, completion in zip(prompts, completions, strict=True):
            entry = found[prompt.row][int(prompt.slot)]
            if completion.fault:
                entry["fault"] = completion.fault.kind
                continue
            ids = [item["evidence_id"] for item in best(cases[prompt.row], self.depth)]
            numbers = sorted(set(completion.value.supported_by))
            entry["evidence_ids"] = [ids[n - 1] for n in numbers if n <= len(ids)]
            entry["reason"] = completion.value.reason
        return self.fill(batch, support=found)


def check_depth(depth: int | None) -> None:
    """Raise ValueError for a number of passages that no answer can name."""
    if depth is not None and not 1 <= depth <= MOST:
        raise ValueError(f"depth is {depth}: 1 to {MOST} work")


def best(case: Case, depth: int | None) -> list[dict[str, Any]]:
    """The `depth` best pieces of evidence; None: all, to MOST."""
    found: list[dict[str, Any]] = case["evidence"][: depth or MOST]
    return found


def relevance(case: Case, depth: int | None) -> Mapping[str, bool | None]:
    """Whether each piece of evidence supports a vital nugget; None where that is not known.

    It is not known of evidence below `depth`, which nobody was asked about, nor of evidence that
    no verdict names while one is lost.
    """
    named = {name for each in case["support"] for name in each["evidence_ids"]}
    lost = lost_support(case) is not None
    asked = {item["evidence_id"] for item in best(case, depth)}
    found: dict[str, bool | None] = {}
    for name in (item["evidence_id"] for item in case["evidence"]):
        found[name] = True if name in named else None if lost or name not in asked else False
    return found


def lost_support(case: Case) -> Fault | None:
    """The fault of a vital nugget whose support is not known."""
    kind = next((each["fault"] for each in case["support"] if each["fault"]), "")
    return unknown(kind) if kind else None


def unknown(kind: str = "below_depth") -> Fault:
    """Why it is not known what supports a statement; by default because nobody was asked."""
    return Fault(kind, "it is not known which evidence supports what")


def cited(case: Case) -> list[str]:
    """What the sentences of an answer cite, each once, in their order."""
    return list(dict.fromkeys(n for each in case["sentences"] for n in each["evidence_ids"]))
