"""How useful each piece of evidence is for the question, 0 to 10 (IdepRAG, Figure 15)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from srrag.algo.entailment import content_stems
from srrag.evaluate.judgements import REASON, Case, Judge, Judgement, Metric
from srrag.evaluate.judges.evidence_support import check_depth
from srrag.llm.completion import Answer, Completion, PromptFile
from srrag.llm.delimit import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_usefulness.md")
USEFULNESS = Metric("usefulness", "evidence")
MOST = 10


class UsefulnessVerdict(Answer):
    """How useful a piece of evidence is."""

    reason: Annotated[str, REASON]
    score: Annotated[int, Field(ge=0, le=MOST)]


@dataclass(frozen=True, kw_only=True)
class JudgeUsefulness(Judge):
    """One call for each of the first `depth` pieces of evidence: its score from 0 to 10.

    `usefulness` is the mean over questions of the mean over pieces; a question without evidence has
    0. No gold is needed, and no answer. By rules the score is ten times the share of the question's
      content words that the piece holds, which is how a lexical search ranks, so it cannot compare
      two searches.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "text", "evidence")
    metrics: ClassVar[tuple[Metric, ...]] = (USEFULNESS,)
    schema: ClassVar[type[Answer]] = UsefulnessVerdict
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    depth: int = 16

    def __post_init__(self) -> None:
        """Raise ValueError for a depth outside its range."""
        check_depth(self.depth)

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """A prompt a piece."""
        system, question = PROMPT.system(), quoted(case["text"])
        return [
            (
                system,
                PROMPT.user(
                    question=question, title=quoted(item["title"]), passage=quoted(item["text"])
                ),
            )
            for item in self._shown(case)
        ]

    def rule(self, case: Case, number: int) -> UsefulnessVerdict:
        """Count the words of the question that the piece holds."""
        item = self._shown(case)[number]
        asked = set(content_stems(case["text"]))
        held = asked & set(content_stems(f"{item['title']}\n{item['text']}"))
        reason = f"it holds {len(held)} of {len(asked)} words of the question"
        share = len(held) / len(asked) if asked else 0.0
        return UsefulnessVerdict(reason=reason, score=round(MOST * share))

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """A judgement a piece."""
        if not case["evidence"]:
            yield USEFULNESS.settled(case, "", 0.0, "there is no evidence")
        for item, said in zip(self._shown(case), answers, strict=True):
            if said.fault:
                yield USEFULNESS.failed(case, item["evidence_id"], said.fault)
                continue
            value, reason = said.value.score, said.value.reason
            yield USEFULNESS.judged(case, item["evidence_id"], value, reason)

    def _shown(self, case: Case) -> list[dict[str, Any]]:
        pieces: list[dict[str, Any]] = case["evidence"][: self.depth]
        return pieces
