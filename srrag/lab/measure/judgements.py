"""Relations of evaluation: CASES that judges read, and the JUDGEMENTS that they write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from srrag.core.schema import EVIDENCE, NUGGETS, PICOT, SENTENCES, relation
from srrag.llm.completion import Fault, quoted

IDS = pa.list_(pa.string())

CLAIMS = pa.list_(
    pa.struct(
        {
            "text": pa.string(), "sentence": pa.int32(), "states": IDS, "partly": IDS,
            "denies": IDS, "verdict": pa.string(), "reason": pa.string(),
        }
    )
)  # fmt: skip
"""Statements of an answer: the sentence that makes each (-1: not known), the evidence that states
it, states a part of it or denies it, and the verdict of all evidence together."""

SUPPORT = pa.list_(pa.struct({"evidence_ids": IDS, "reason": pa.string(), "fault": pa.string()}))
"""What supports each vital nugget, in their order; `fault` says why that is not known, or ""."""

VERDICTS = pa.list_(
    pa.struct(
        {
            "verdict": pa.string(), "reason": pa.string(), "fault": pa.string(),
            "facts": pa.list_(pa.int32()),
        }
    )
)  # fmt: skip
"""Verdicts on items, in their order; `facts` are the nuggets, from 0, that a claim makes."""

CASES = relation(
    "query_id text answer missing abstained:bool chooses:bool choice:int",
    ("sentences", SENTENCES),
    ("evidence", EVIDENCE),
    "ideal_answer",
    ("nuggets", NUGGETS),
    ("picot", PICOT),
    "options:strings gold_option",
    ("claims", CLAIMS),
    "claims_fault",
    ("support", SUPPORT),
    ("nugget_verdicts", VERDICTS),
    ("picot_verdicts", VERDICTS),
    ("claim_verdicts", VERDICTS),
)
"""A row a question: an answer with its evidence, and the gold.

`missing` says how the answer failed, "" if there is one; it then counts as worst everywhere.
`choice` is the index of the option that the answer chose, NO_CHOICE for none; it counts where the
system `chooses`, that is where its answers have such a column.
`abstained` answers say that the evidence does not suffice, and claim nothing: their text is judged,
but they have no claims or citations that could be.
What the gold lacks is empty: "", [], and "" in a field of `picot`. What follows the gold is empty
until a Preparation fills it: statements of the answer, the evidence that supports each vital
nugget, and verdicts on nuggets, on the parts of `picot` that the gold has, and on the statements; a
`_fault` says why they are not known.
"""

PREPARED = (
    "claims", "claims_fault", "support", "nugget_verdicts", "picot_verdicts", "claim_verdicts",
)  # fmt: skip
"""Columns that are empty until a Preparation fills them."""

JUDGEMENTS = relation("query_id metric item value:double reason asked:bool")
"""A row a judged item, 0…1. One with `reject` was not judged: it counts with its worst value.

`asked` is False where the value was clear without a judge: there was no answer to be judged.
"""

FIELDS = "PICOT"

Verdict = Literal["full", "partial", "none", "contradicted"]
"""The one scale of judges: how far something is stated."""


class Worth(NamedTuple):
    """What each verdict is worth."""

    full: float
    partial: float
    none: float = 0.0
    contradicted: float = 0.0


STRICT, GRADED, MADE = Worth(1, 0), Worth(1, 0.5), Worth(1, 1)
DENIED = Worth(0, 0, 0, 1)
OF_RULE: Mapping[str, Verdict] = {
    "supported": "full", "contradicted": "contradicted", "neutral": "none",
}  # fmt: skip
"""The verdicts of the rules, which tell no part from a whole."""

_WORD = re.compile(r"\S+")
_MARK = re.compile(r"(?:\[\d+\])+[.,;:]?")

Case = dict[str, Any]
Judgement = dict[str, Any]


@dataclass(frozen=True)
class Metric:
    """A metric aggregated from judgements.

    Its value is the mean over questions of each question's mean, or the mean over all items if
    `pooled`. `needs` says what a question must have to count, `worth` what verdicts are worth.
    Where `better` is "neither" it describes answers: it is not tested, and no control is held
    against it. `of` says what of an answer would have to differ for another value.
    """

    name: str
    needs: str
    better: Literal["higher", "lower", "neither"] = "higher"
    pooled: bool = False
    worth: Worth = STRICT
    of: Literal["answer", "citations", "evidence"] = "answer"

    @property
    def worst(self) -> float:
        """The value that a failed item gets."""
        return 1.0 if self.better == "lower" else 0.0

    def judged(self, case: Case, item: str, value: float, reason: str) -> Judgement:
        """Make the judgement of an item."""
        return {
            "query_id": case["query_id"],
            "metric": self.name,
            "item": item,
            "value": float(value),
            "reason": reason,
            "asked": True,
            "reject": None,
        }

    def settled(self, case: Case, item: str, value: float, reason: str) -> Judgement:
        """Make the judgement of an item whose value is known without a judge."""
        return self.judged(case, item, value, reason) | {"asked": False}

    def unanswered(self, case: Case, item: str) -> Judgement:
        """Make the judgement of an item without an answer: the worst value."""
        return self.settled(case, item, self.worst, f"no answer: {case['missing']}")

    def failed(self, case: Case, item: str, fault: Fault) -> Judgement:
        """Make the judgement of an item whose judge gave no usable answer."""
        reject = {"stage": self.name, "reason": fault.kind, "detail": fault.detail}
        return self.judged(case, item, self.worst, f"not judged: {fault.kind}") | {"reject": reject}

    def whole(self, case: Case, said: Sequence[Mapping[str, Any]], good: str) -> Judgement:
        """Make the judgement of whether all verdicts are good, that is worth 1 in this metric.

        It is not judged if only those are open that were lost.
        """
        known = [getattr(self.worth, each["verdict"]) == 1 for each in said if not each["fault"]]
        lost = next((each["fault"] for each in said if each["fault"]), "")
        if case["missing"]:
            return self.unanswered(case, "")
        if lost and all(known):
            return self.failed(case, "", Fault(lost, "one was not judged"))
        return self.judged(case, "", all(known), f"{sum(known)} of {len(said)} are {good}")

    def told(self, case: Case, item: str, said: Mapping[str, Any]) -> Judgement:
        """Make the judgement of an item from one of VERDICTS."""
        if case["missing"]:
            return self.unanswered(case, item)
        if said["fault"]:
            return self.failed(case, item, Fault(said["fault"], said["reason"]))
        value = getattr(self.worth, said["verdict"])
        return self.judged(case, item, value, f"{said['verdict']}: {said['reason']}")


def verdict(word: str, reason: str = "", fault: str = "", facts: Sequence[int] = ()) -> Judgement:
    """One of VERDICTS."""
    return {"verdict": word, "reason": reason, "fault": fault, "facts": list(facts)}


def in_order(items: Iterable[Any], count: int) -> list[Any]:
    """Return a judge's numbered items 1 to `count`, the first of two; None where one lacks."""
    found: dict[int, Any] = {}
    for item in items:
        found.setdefault(item.n, item)
    return [found.get(n) for n in range(1, count + 1)]


def incomplete(items: Sequence[Any], count: int, what: str) -> Fault | None:
    """Return the fault of a list that skips some of the numbers 1 to `count`, else None."""
    numbers = [n for n, item in enumerate(in_order(items, count), start=1) if item is None]
    return absent(items, numbers, what, f" of {count}")


def absent(items: Sequence[Any], names: Sequence[Any], what: str, of: str = "") -> Fault | None:
    """Return the fault of a list, named "`what`s", that ends without verdicts on these."""
    if not names:
        return None
    places = tuple((f"{what}s", len(items) + n) for n in range(len(names)))
    shown = ", ".join(map(str, names))
    return Fault("incomplete", f"There is no verdict on {what} {shown}{of}.", places)


def together(*faults: Fault | None) -> Fault | None:
    """Return one fault for what several lists lack, None if all are None."""
    found = [each for each in faults if each is not None]
    if not found:
        return None
    items = tuple(item for each in found for item in each.items)
    return Fault(found[0].kind, " ".join(each.detail for each in found), items)


def must_have(case: Case) -> list[str]:
    """The vital nuggets: statements without which an answer is incomplete."""
    return [nugget["text"] for nugget in case["nuggets"] if nugget["importance"] == "vital"]


def lines(items: Iterable[Mapping[str, Any]]) -> str:
    """Write the items to judge as JSON lines, numbered from 1."""
    return "\n".join(quoted({"n": n, **item}) for n, item in enumerate(items, start=1))


def first_words(text: str, words: int | None) -> str:
    """Return the first `words` words of a text, not counting citation marks; None: all."""
    if words is None:
        return text
    found = [match for match in _WORD.finditer(text) if not _MARK.fullmatch(match[0])]
    return text if len(found) <= words else text[: found[words - 1].end()]


def num_words(text: str) -> int:
    """Count the words of a text without citation marks."""
    return sum(not _MARK.fullmatch(match[0]) for match in _WORD.finditer(text))


def evidence_by_id(case: Case) -> Mapping[str, dict[str, Any]]:
    """Return the evidence of a case by id."""
    return {item["evidence_id"]: item for item in case["evidence"]}
