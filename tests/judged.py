"""Made-up answers and what is known of them, for tests of the judges."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from srrag.core.schema import EVIDENCE, REJECT, SENTENCES, empty_value
from srrag.lab.measure.judgements import CASES

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
