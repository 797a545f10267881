"""Which evidence bears out what an answer had to say, in one call a question.

Passages for each vital nugget are rethinking-rag's must-have statements that evidence supports
(section 2.1.3), RAGAS's context recall with the passages named. Both see all that was retrieved,
and neither sees the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from srrag.algo.entailment import THRESHOLD, entails
from srrag.lab.judges.support import Number, ids
from srrag.lab.measure.judgements import Case, in_order, incomplete, lines, must_have
from srrag.lab.measure.judging_steps import Preparation
from srrag.llm.completion import Answer, Fault, PromptFile, quoted
from srrag.llm.fields import Items, Means, Text

MAX_FACTS = 48


class StatementSupport(Answer):
    """The passages that bear a given statement out."""

    n: Annotated[Number, Means("the number of the statement")]
    reason: Annotated[str, Text(20, "what the passages say of it, in a few words", "it is plain")]
    passages: Annotated[
        list[Number], Items(24, "all passages that bear it out, in full or in part", "none does")
    ]


class Statements(Answer):
    """Given statements, with the passages that bear them out."""

    example: ClassVar[dict[str, Any] | None] = {
        "statements": [{"n": 1, "reason": "1 and 2 count fewer attacks.", "passages": [1, 2]}]
    }

    statements: Annotated[list[StatementSupport], Items(MAX_FACTS, "one a statement, in order")]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_statements.md", Statements)


@dataclass(frozen=True, kw_only=True)
class JudgeStatements(Preparation):
    """One call a question and its evidence: its vital nuggets, whatever was answered.

    Answers from the same evidence share it. Without evidence nothing bears them out, and no model
    is asked. By rules a passage bears out a nugget of which it holds `THRESHOLD` of the words.
    """

    reads: ClassVar[tuple[str, ...]] = ("text", "evidence", "nuggets")
    fills: ClassVar[tuple[str, ...]] = ("support",)
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    file: ClassVar[PromptFile] = PROMPT

    def user(self, case: Case) -> str | None:
        """Nuggets and passages, if there are both."""
        if not case["evidence"] or not must_have(case):
            return None
        return PROMPT.user(
            question=quoted(case["text"]),
            statements=lines({"statement": text} for text in must_have(case)),
            passages=lines({"title": e["title"], "text": e["text"]} for e in case["evidence"]),
        )

    def rule(self, case: Case) -> Statements:
        """Compare the words of each nugget with those of each passage."""
        reason = f"passages with {THRESHOLD:.0%} of the statement's words"
        return Statements(
            statements=[
                StatementSupport(
                    n=n,
                    reason=reason,
                    passages=[
                        place
                        for place, item in enumerate(case["evidence"], start=1)
                        if entails(item["text"], statement, case["text"], THRESHOLD).verdict
                        == "supported"
                    ],
                )
                for n, statement in enumerate(must_have(case), start=1)
            ]
        )

    def lacks(self, case: Case, answer: Any) -> Fault | None:
        """Statements without a verdict."""
        return incomplete(answer.statements, min(MAX_FACTS, len(must_have(case))), "statement")

    def take(self, case: Case, answer: Any, lost: str) -> dict[str, Any]:
        """Turn numbers of passages into ids; a number that was not shown is none."""
        listed = in_order(answer.statements if answer else (), len(must_have(case)))
        fault = lost or ("incomplete" if answer else "")
        return {
            "support": [
                _found(ids(case["evidence"], each.passages), each.reason)
                if each
                else _found(fault=fault)
                for each in listed
            ]
        }


def _found(evidence_ids: Sequence[str] = (), reason: str = "", fault: str = "") -> dict[str, Any]:
    return {"evidence_ids": list(evidence_ids), "reason": reason, "fault": fault}


def relevance(case: Case) -> Mapping[str, bool | None]:
    """Whether each piece of evidence supports a vital nugget.

    None where no verdict names it while one is lost.
    """
    named = {name for each in case["support"] for name in each["evidence_ids"]}
    lost = lost_support(case) is not None
    names = (item["evidence_id"] for item in case["evidence"])
    return {name: True if name in named else None if lost else False for name in names}


def lost_support(case: Case) -> Fault | None:
    """The fault of a vital nugget whose support is not known."""
    kind = next((each["fault"] for each in case["support"] if each["fault"]), "")
    return unknown(kind) if kind else None


def unknown(kind: str) -> Fault:
    """Why it is not known what supports a statement."""
    return Fault(kind, "it is not known which evidence supports what")
