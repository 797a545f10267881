"""Does a system know what it does not know? Questions near the topic that a corpus cannot answer.

A system answers, abstains, or answers and names the part of the question that the evidence lacks.
This module counts these three outcomes on questions that the corpus answers, on copies of them in
which one element (P, I, C or O) was replaced by one that no document holds, and on questions off
the topic altogether.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from srrag.algo.terms import terms
from srrag.core.spec import content_id
from srrag.lab.datasets import json_lines
from srrag.lab.measure.judgements import Metric
from srrag.lab.measure.scores import Scores

Floats = npt.NDArray[np.float64]

SIDES = ("develop", "blind")
OFF_TOPIC = "off_topic"
SWAPPED = ("P", "I", "C", "O", OFF_TOPIC)
CONFIDENCE = "answerable"
"""The column of a pipeline that says how sure it is that the evidence answers."""
COVERAGES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.93, 0.95, 1.0)
"""Shares of the answerable questions at which the curve is read."""

METRICS = (
    Metric("answered", "an answer in the corpus"),
    Metric("false_notice_rate", "an answer in the corpus", better="lower"),
    Metric("answered_unanswerable", "an element that the corpus lacks", better="lower"),
    Metric("wrong_answer_rate", "an element that the corpus lacks", better="lower"),
)
_LACK = re.compile(
    r"\b(?:no|not|nothing|nowhere|none|neither|nor|without|lacks?|lacking|missing|absent|while|"
    r"but|only|other)\b",
    re.IGNORECASE,
)
_LACKING = ("id", "text", "swapped", "absent_term", "from_id")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class NearTopic:
    """A question, the element that was replaced ("" if the corpus answers it), and the new words.

    `origin` is the id of the question that it was made from; both are on the same side.
    """

    query_id: str
    text: str
    swapped: str
    absent: str
    origin: str

    @property
    def side(self) -> str:
        """`develop` or `blind`."""
        return side_of(self.origin)

    @property
    def answerable(self) -> bool:
        """Whether the corpus holds the answer."""
        return not self.swapped


def side_of(query_id: str) -> str:
    """Return `develop` or `blind` by the hash of the id; each gets half of the questions."""
    return SIDES[int(content_id("near_topic", query_id)[:15], 16) % 2]


def read_near_topic(
    path: Path, answerable: Path | None, side: str | None = None
) -> list[NearTopic]:
    """Read the unanswerable questions of a folder, then the answerable ones of a BEIR folder.

    Both folders hold queries.jsonl. A `side` of None reads both sides. Raises ValueError that names
    file and line, and for an unknown side or a side without questions.
    """
    if side is not None and side not in SIDES:
        raise ValueError(f"bench.side={side}: one of {', '.join(SIDES)}, or null for all")
    found = list(_read(path / "queries.jsonl", unanswerable=True))
    if answerable is not None:
        found += _read(answerable / "queries.jsonl", unanswerable=False)
    first: set[str] = set()
    for row in found:
        if row.query_id in first:
            raise ValueError(f"{path}: question {row.query_id!r} is there twice")
        first.add(row.query_id)
    kept = [row for row in found if side in (None, row.side)]
    if not kept:
        raise ValueError(f"{path}: there is no question")
    return kept


def _read(path: Path, *, unanswerable: bool) -> Iterator[NearTopic]:
    kind = "an unanswerable question" if unanswerable else "a question"
    for place, row in json_lines.rows(path, kind, _LACKING if unanswerable else ("_id", "text")):
        query_id, text = str(row["id" if unanswerable else "_id"]), str(row["text"])
        if not unanswerable:
            yield NearTopic(query_id, text, "", "", query_id)
            continue
        swapped = row["swapped"] or row.get("kind")
        if swapped not in SWAPPED:
            raise ValueError(f"{place}: swapped is {swapped!r}: one of {SWAPPED}")
        origin = str(row["from_id"] or query_id)
        yield NearTopic(query_id, text, swapped, str(row["absent_term"] or ""), origin)


def has_answered(row: Mapping[str, Any]) -> bool:
    """Whether a pipeline answered: the answer has a sentence, and the evidence answers all."""
    return row["reject"] is None and row["state"] == "answered" and bool(row["sentences"])


def tells_lack(row: Mapping[str, Any], words: str) -> bool:
    """Whether an answer says that one of these words is missing from the evidence.

    It does if one sentence of the note or the answer (quotes included) holds one of the
    words and a word of lack. A system that always lists half of the question as missing pays for it
    in `false_notice_rate`.
    """
    asked = frozenset(terms(words))
    told = (row.get(name) or "" for name in ("missing", "answer_note", "answer"))
    sentences = (each for text in told for each in _SENTENCE.split(text))
    return any(_LACK.search(each) and asked & {*terms(each)} for each in sentences)


def notices(row: Mapping[str, Any], question: str) -> bool:
    """Whether the note says that a part of the question is missing."""
    return tells_lack({**row, "answer": ""}, question)


def near_topic_scores(
    questions: Sequence[NearTopic], rows: Mapping[str, Mapping[str, Any]]
) -> list[Scores]:
    """Score METRICS by question; a question without a row, or rejected, counts as not answered.

    On answerable questions: `answered`, and `false_notice_rate`, the share whose answer or
    abstention calls a word of the question missing. On unanswerable questions:
    `answered_unanswerable`, and `wrong_answer_rate`, the share answered without a word on what is
    missing.
    """
    values: dict[str, dict[str, float]] = {metric.name: {} for metric in METRICS}
    for each in questions:
        row = rows.get(each.query_id)
        answers = row is not None and has_answered(row)
        if each.answerable:
            noticed = row is not None and row["reject"] is None and notices(row, each.text)
            values["answered"][each.query_id] = float(answers)
            values["false_notice_rate"][each.query_id] = float(noticed)
            continue
        told = row is not None and answers and tells_lack(row, each.absent)
        values["answered_unanswerable"][each.query_id] = float(answers)
        values["wrong_answer_rate"][each.query_id] = float(answers and not told)
    return [
        Scores.by_question(metric, list(found), np.array(list(found.values())), len(questions))
        for metric, found in zip(METRICS, values.values(), strict=True)
    ]


def confidence(row: Mapping[str, Any] | None) -> float:
    """Return a pipeline's confidence: its own column, else the score of its best evidence."""
    if row is None or row["reject"] is not None:
        return -np.inf
    if row.get(CONFIDENCE) is not None:
        return float(row[CONFIDENCE])
    return max((float(each["score"]) for each in row["evidence"]), default=-np.inf)


def risk_coverage(
    questions: Sequence[NearTopic], rows: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Compute the risk-coverage curve over thresholds on the confidence.

    `points` holds, for each share of answerable questions answered, the threshold, the share of
    unanswerable questions that pass it too, and the risk: their share of all answered questions.
    `auroc` is the chance that an answerable question has more confidence than an unanswerable one.
    """
    sure = {
        answerable: np.array(
            [
                confidence(rows.get(each.query_id))
                for each in questions
                if each.answerable == answerable
            ]
        )
        for answerable in (True, False)
    }
    good, bad = sure[True], sure[False]
    if not len(good) or not len(bad):
        return {"points": [], "auroc": None}
    return {"points": [_point(good, bad, each) for each in COVERAGES], "auroc": _auroc(good, bad)}


def _point(good: Floats, bad: Floats, coverage: float) -> dict[str, float | None]:
    threshold = np.sort(good)[::-1][max(0, int(np.ceil(coverage * len(good))) - 1)]
    right, wrong = int((good >= threshold).sum()), int((bad >= threshold).sum())
    return {
        "coverage": round(right / len(good), 4),
        "unanswerable_answered": round(wrong / len(bad), 4),
        "risk": round(wrong / (right + wrong), 4),
        "threshold": float(threshold) if np.isfinite(threshold) else None,
    }


def _auroc(good: Floats, bad: Floats) -> float:
    above = (good[:, None] > bad[None]).mean() + 0.5 * (good[:, None] == bad[None]).mean()
    return round(float(above), 4)
