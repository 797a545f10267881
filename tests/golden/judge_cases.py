"""The prompts of the judges with fixed inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from srrag.core.schema import EVIDENCE, empty_value
from srrag.lab.judges.accuracy import JudgeAccuracy, JudgeChoice, JudgePreference
from srrag.lab.judges.gold import JudgeByGold
from srrag.lab.judges.support import JudgeClaims, JudgeStatements
from srrag.lab.measure.judgements import CASES
from srrag.llm.completion import Prompt
from tests.judged import claim

Fill = Callable[[str], str]

QUESTION = "Does high-load strength training lower plantar heel pain more than stretching?"
SENTENCE = "Strength training lowered pain more than stretching at 3 months."
PASSAGE = "At 3 months the Foot Function Index was 29 points lower with strength training."


def case(fill: Fill, **gold: Any) -> pa.Table:
    """An answer of one sentence that cites one of two passages, with some gold."""
    blank = {item.name: empty_value(item.type) for item in CASES}
    item = {field.name: empty_value(field.type) for field in EVIDENCE.value_type}
    first = {"evidence_id": "e1", "title": fill("Heel pain trial"), "text": fill(PASSAGE)}
    second = {"evidence_id": "e2", "title": "Heel pain", "text": "Stretching is common."}
    given = {
        "text": fill(QUESTION),
        "answer": fill(f"{SENTENCE} [1]"),
        "sentences": [{"text": fill(SENTENCE), "evidence_ids": ["e1"]}],
        "evidence": [item | first, item | second],
        "reject": None,
    }
    return pa.Table.from_pylist([{**blank, **given, **gold}], schema=CASES)


def nuggets(fill: Fill) -> list[dict[str, str]]:
    """A vital nugget."""
    return [{"text": fill("Pain is lower after strength training"), "importance": "vital"}]


def picot(fill: Fill) -> dict[str, str]:
    """Parts of which the comparator is not known."""
    return {"P": fill("adults with heel pain"), "I": "strength training", "C": "", "O": "pain",
            "T": "3 months"}  # fmt: skip


def compared(fill: Fill) -> list[Prompt]:
    claims = [claim(fill(SENTENCE)), claim("Stretching is common.", verdict="none")]
    gold = {"ideal_answer": fill("Strength training helps more."), "nuggets": nuggets(fill)}
    return JudgeByGold().prompts(case(fill, claims=claims, picot=picot(fill), **gold))


def rated(fill: Fill) -> list[Prompt]:
    return JudgeAccuracy(trials=1).prompts(case(fill, ideal_answer=fill("Strength training.")))


def preferred(fill: Fill) -> list[Prompt]:
    cases = case(fill, ideal_answer=fill("Strength training."), nuggets=nuggets(fill))
    return JudgePreference().prompts(cases.append_column("other", [[[]]]))


def chosen(fill: Fill) -> list[Prompt]:
    options = [fill("Yes"), "No"]
    return JudgeChoice().prompts(case(fill, options=options, gold_option="No"))


JUDGE_CASES: dict[str, Callable[[Fill], list[Prompt]]] = {
    "judge_support": lambda fill: JudgeClaims().prompts(case(fill)),
    "judge_statements": lambda fill: JudgeStatements().prompts(case(fill, nuggets=nuggets(fill))),
    "judge_by_gold": compared,
    "judge_preference": preferred,
    "rate_accuracy": lambda fill: rated(fill)[:1],
    "rate_agreement": lambda fill: rated(fill)[1:],
    "read_choice": chosen,
}
