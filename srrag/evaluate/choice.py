"""Multiple-choice accuracy: which option an answer settles on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from srrag.completion import Answer, Completion, PromptFile
from srrag.evaluate.judgements import REASON, Case, Judge, Judgement, Metric
from srrag.fence import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "read_choice.md")
ACCURACY = Metric("choice_accuracy", "options in the gold, one of them right")


class Choice(Answer):
    """The number of the option, 0 for none."""

    reason: Annotated[str, REASON]
    choice: Annotated[int, Field(ge=0, le=64)]


@dataclass(frozen=True, kw_only=True)
class JudgeChoice(Judge):
    """One call an answer. By rules it is the option whose words come first in the answer."""

    reads: ClassVar[tuple[str, ...]] = (
        "query_id",
        "text",
        "answer",
        "missing",
        "options",
        "gold_option",
    )
    metrics: ClassVar[tuple[Metric, ...]] = (ACCURACY,)
    schema: ClassVar[type[Answer]] = Choice
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """One prompt, if there is an answer and an option that is right."""
        if case["missing"] or case["gold_option"] not in case["options"]:
            return []
        options = (quoted({"n": n, "option": o}) for n, o in enumerate(case["options"], 1))
        user = PROMPT.user(
            question=quoted(case["text"]),
            options="\n".join(options),
            answer=quoted(case["answer"]),
        )
        return [(PROMPT.system(), user)]

    def rule(self, case: Case, number: int) -> Choice:
        """The option that is named first; of two that begin there, the longer one."""
        places = []
        for n, option in enumerate(case["options"], start=1):
            named = re.search(rf"\b{re.escape(option.strip())}(?!\w)", case["answer"], re.I)
            if named and option.strip():
                places.append((named.start(), -len(option), n))
        if not places:
            return Choice(reason="no option is named", choice=0)
        return Choice(reason="this option is named first", choice=min(places)[2])

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """Whether the option is the right one."""
        if case["gold_option"] not in case["options"]:
            return
        if case["missing"]:
            yield ACCURACY.judged(case, case["gold_option"], 0.0, f"no answer: {case['missing']}")
        elif answers[0].fault:
            yield ACCURACY.failed(case, case["gold_option"], answers[0])
        else:
            chosen = answers[0].value.choice
            right = chosen == case["options"].index(case["gold_option"]) + 1
            yield ACCURACY.judged(case, case["gold_option"], right, answers[0].value.reason)
