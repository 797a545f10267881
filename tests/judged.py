"""Made-up answers and what is known of them, for tests of the judges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from srrag.core.schema import EVIDENCE, REJECT, SENTENCES, empty_value
from srrag.core.step import LLMStep
from srrag.lab.measure.judgements import CASES
from srrag.llm.read_answer import read

BLANK = {item.name: empty_value(item.type) for item in CASES}
PASSAGE = {item.name: empty_value(item.type) for item in EVIDENCE.value_type}
STATED = "Eccentric training reduced tendon pain at 12 weeks."
OTHER = "Shock waves relieve calcific shoulder disease."


def case(**values: Any) -> dict[str, Any]:
    """A case with all kinds of gold: half of the nuggets and most of the rest are met."""
    evidence = [
        PASSAGE | {"evidence_id": "e1", "text": STATED},
        PASSAGE | {"evidence_id": "e2", "text": "Walking is healthy."},
    ]
    return BLANK | {
        "query_id": "q",
        "text": "What helps tendons?",
        "answer": f"{STATED} [1]",
        "sentences": [{"text": STATED, "evidence_ids": ["e1"]}],
        "evidence": evidence,
        "nuggets": [
            {"text": "Eccentric training reduces tendon pain", "importance": "vital"},
            {"text": OTHER, "importance": "okay"},
        ],
        "picot": {"P": "", "I": "eccentric training", "C": "shock waves", "O": "pain", "T": ""},
        "options": ["Yes", "No"],
        "gold_option": "No",
        "ideal_answer": STATED,
        "reject": None,
    } | values  # fmt: skip


ANSWERS = pa.schema(
    [
        ("query_id", pa.string()), ("text", pa.string()), ("answer", pa.string()),
        ("sentences", SENTENCES), ("evidence", EVIDENCE), ("state", pa.string()),
        ("reject", REJECT),
    ]
)  # fmt: skip


def answers(*rows: dict[str, Any]) -> pa.Table:
    """Answers as `srrag answer` writes them."""
    blank = {"text": "asked", "answer": "said", "sentences": [], "evidence": []}
    full = [{**blank, "state": "answered", "reject": None, **row} for row in rows]
    return pa.Table.from_pylist(full, schema=ANSWERS)


def table(*cases: dict[str, Any]) -> pa.Table:
    """Cases as a table."""
    return pa.Table.from_pylist(list(cases), schema=CASES)


def answered(step: LLMStep, cases: pa.Table, *given: Any) -> pa.Table:
    """What a step makes of these answers, one a prompt: a text, or an object."""
    prompts = step.prompts(cases)
    texts = [each if isinstance(each, str) else json.dumps(each) for each in given]
    said = [read(text, asked.schema) for text, asked in zip(texts, prompts, strict=True)]
    return step.parse(cases, prompts, said)


def values(judged: pa.Table | list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Values by metric; "lost" where an item was not judged."""
    rows = judged if isinstance(judged, list) else judged.to_pylist()
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row["metric"], []).append("lost" if row["reject"] else row["value"])
    return found


def claim(
    text: str, sentence: int = 0, verdict: str = "full", **names: list[str]
) -> dict[str, Any]:
    """A claim of a sentence, with what states, partly states and denies it."""
    empty: dict[str, list[str]] = {"states": [], "partly": [], "denies": []}
    told = {"text": text, "sentence": sentence, "verdict": verdict, "reason": ""}
    return {**told, **empty, **names}


def verdicts(*words: str, facts: Sequence[int] = ()) -> list[dict[str, Any]]:
    """Verdicts by their words; "lost" for one that was not given."""
    return [
        {"verdict": "none" if word == "lost" else word, "reason": "",
         "fault": "timeout" if word == "lost" else "", "facts": list(facts)}
        for word in words
    ]  # fmt: skip
