"""Control systems, which test a metric: answers that nobody would want, and the ideal one.

A metric on which a control scores as well as a system does not measure how good an answer is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from srrag.algo.entailment import sentences
from srrag.core.ids import content_id
from srrag.core.schema import NO_CHOICE, sentence_row
from srrag.lab.measure.judgements import CASES, Case

TOP = 3
"""Pieces of evidence that the control `top3` quotes whole."""
ABSTAINS = "The evidence does not answer this question."
CEILING = "gold answer"
SHUFFLED = "shuffled citations"

Sentence = dict[str, Any]
Control = Callable[[Case, Case], Mapping[str, Any]]
"""Makes the changed columns of a case; the second case is another question's."""


def echo(case: Case, other: Case) -> Mapping[str, Any]:
    """Repeat the question, and cite the first piece of evidence."""
    first = [item["evidence_id"] for item in case["evidence"][:1]]
    return _said([sentence_row(case["text"], first)])


def dump(case: Case, other: Case) -> Mapping[str, Any]:
    """Quote all evidence, each sentence with its source."""
    return _said(_quoted(case["evidence"]))


def top3(case: Case, other: Case) -> Mapping[str, Any]:
    """Quote the first TOP pieces of evidence, each sentence with its source."""
    return _said(_quoted(case["evidence"][:TOP]))


def shuffled(case: Case, other: Case) -> Mapping[str, Any]:
    """Keep the answer, but let each sentence cite the evidence after the piece that it cited."""
    names = [item["evidence_id"] for item in case["evidence"]]
    after = dict(zip(names, [*names[1:], *names[:1]], strict=True))
    changed = [
        {**each, "evidence_ids": [after.get(name, name) for name in each["evidence_ids"]]}
        for each in case["sentences"]
    ]
    return {"sentences": changed}


def random_window(case: Case, other: Case) -> Mapping[str, Any]:
    """Quote the first piece of another question's evidence, which is shown as this one's."""
    return {**_said(_quoted(other["evidence"][:1])), "evidence": other["evidence"]}


def abstain(case: Case, other: Case) -> Mapping[str, Any]:
    """Always say that the evidence does not suffice, and choose nothing."""
    chosen = {"chooses": True, "choice": NO_CHOICE}
    return {"answer": ABSTAINS, "sentences": [], "abstained": True, "missing": "", **chosen}


def gold_answer(case: Case, other: Case) -> Mapping[str, Any]:
    """State the right option, the ideal answer and every nugget: the best that the gold allows."""
    texts = [case["ideal_answer"]] if case["ideal_answer"] else []
    texts += [nugget["text"] for nugget in case["nuggets"]]
    texts += [value for value in case["picot"].values() if value]
    option = [f"{case['gold_option'].capitalize()}."] if case["gold_option"] else []
    said = _said([sentence_row(text, []) for text in [*option, *texts]])
    if case["gold_option"] in case["options"]:
        said |= {"chooses": True, "choice": case["options"].index(case["gold_option"])}
    return said


CONTROLS: Mapping[str, Control] = {
    "echo": echo,
    "dump": dump,
    "top-3 verbatim": top3,
    SHUFFLED: shuffled,
    "random window": random_window,
    "always abstain": abstain,
    CEILING: gold_answer,
}


def control_cases(cases: pa.Table) -> dict[str, pa.Table]:
    """Return the CASES of each control, made of a system's: same questions, gold and evidence.

    The other question of a case is the next one by hash.
    """
    rows: list[Case] = cases.to_pylist()
    order = sorted(range(len(rows)), key=lambda n: content_id("control", rows[n]["query_id"]))
    others = dict(zip(order, [*order[1:], *order[:1]], strict=True))
    return {
        name: pa.Table.from_pylist(
            [{**row, **make(row, rows[others[n]])} for n, row in enumerate(rows)], schema=CASES
        )
        for name, make in CONTROLS.items()
    }


def _said(given: Sequence[Sentence]) -> dict[str, Any]:
    """Columns of an answer of these sentences; missing where there are none.

    It has no `choice` column: its choice is read from its text.
    """
    text = " ".join(each["text"] for each in given)
    return {
        "answer": text,
        "sentences": list(given),
        "abstained": False,
        "missing": "" if text.strip() else "empty",
        "chooses": False,
        "choice": NO_CHOICE,
    }


def _quoted(evidence: Sequence[Mapping[str, Any]]) -> list[Sentence]:
    return [
        sentence_row(text, [item["evidence_id"]])
        for item in evidence
        for text in sentences(item["text"])
    ]
