"""What experts are shown: a sample of questions, each with the answers of every system, blinded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any, Literal

import numpy as np

from srrag.core.spec import content_id

Row = Mapping[str, Any]
Shown = Literal["cited", "all"]

_FIRST_HEADING = re.compile(r"\A#{1,6}[ \t]+[^\n]*\n")
_HEADING_MARK = re.compile(r"^#{1,6}[ \t]+", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<![\w*])(\*\*|__|\*)(?=\S)([^\n*_]+?)(?<=\S)\1(?![\w*])")


@dataclass(frozen=True, kw_only=True)
class Item:
    """One answer to rate. `query_id`, `system` and `stratum` stand in the key alone."""

    item: str
    query_id: str
    system: str
    stratum: str
    question: str
    reference: str
    answer: str
    state: str
    evidence: tuple[Row, ...]
    """Rows of EVIDENCE with their `number` in the answer and whether they are `cited`."""
    hidden: int
    """How many pieces of evidence the answer had, but are not shown."""


@dataclass(frozen=True, kw_only=True)
class Kit:
    """The items of one review; `sample` tells sheets of this one from those of another."""

    items: tuple[Item, ...]

    @property
    def sample(self) -> str:
        """The hash of the items."""
        shown = (
            part
            for each in self.items
            for part in (each.item, each.query_id, each.system, each.reference, each.answer)
        )
        return content_id(*shown)[:16]

    @property
    def systems(self) -> tuple[str, ...]:
        """Names of the systems, in order."""
        return tuple(sorted({each.system for each in self.items}))

    def questions(self) -> list[list[Item]]:
        """The items of each question."""
        found: dict[str, list[Item]] = {}
        for each in self.items:
            found.setdefault(each.query_id, []).append(each)
        return list(found.values())

    def key(self) -> dict[str, Any]:
        """Return the key that resolves the codes; raters must not see it."""
        return {
            "sample": self.sample,
            "items": {
                each.item: {
                    "query_id": each.query_id, "system": each.system, "stratum": each.stratum
                }
                for each in self.items
            },
        }  # fmt: skip


def make_kit(
    systems: Mapping[str, Sequence[Row]],
    gold: Sequence[Row],
    *,
    questions: int = 20,
    strata: str | None = None,
    shown: Shown = "cited",
    seed: int = 0,
) -> Kit:
    """Draw questions that every system answered, and put their answers in random order.

    `systems` holds rows of ANSWERS by the system's name, `gold` rows with query_id, `text` and
    `ideal_answer`; both may carry the key `strata` that the sample is balanced by. Raises
    ValueError if fewer questions have answers, or none has the strata.
    """
    if shown not in ("cited", "all"):
        raise ValueError(f"evidence={shown}: there are cited and all")
    known = {row["query_id"]: row for row in gold}
    answers = {name: {row["query_id"]: row for row in rows} for name, rows in systems.items()}
    shared = [
        row["query_id"]
        for row in next(iter(systems.values()))
        if all(_answered(each.get(row["query_id"])) for each in answers.values())
        and (not gold or row["query_id"] in known)
    ]
    first = next(iter(answers.values()))
    grouped = {name: _stratum(strata, known.get(name), first[name]) for name in shared}
    if strata and not any(grouped.values()):
        raise ValueError(f"strata={strata}: neither answers nor gold have a value of it")
    generator = np.random.default_rng(seed)
    drawn = draw(grouped, questions, generator)
    items = []
    for number, name in enumerate(drawn, start=1):
        order = generator.permutation(len(systems))
        names = [list(systems)[place] for place in order]
        for letter, system in zip(ascii_uppercase, names, strict=False):
            code = f"Q{number:02d}" + (f"-{letter}" if len(systems) > 1 else "")
            row, reference = answers[system][name], known.get(name, {})
            items.append(_item(code, system, grouped[name], row, reference, shown))
    return Kit(items=tuple(items))


def draw(strata: Mapping[str, str], count: int, generator: np.random.Generator) -> list[str]:
    """Names in random order, from each stratum in proportion to its size.

    Places left over by rounding down go to the largest remainders. Raises ValueError if there
    are fewer names than `count`, or none is asked for.
    """
    if count < 1:
        raise ValueError(f"questions={count}: at least one is needed")
    if count > len(strata):
        raise ValueError(
            f"questions={count}: only {len(strata)} questions have an answer by every system"
        )
    members: dict[str, list[str]] = {}
    for name, stratum in strata.items():
        members.setdefault(stratum, []).append(name)
    shares = {name: count * len(each) / len(strata) for name, each in sorted(members.items())}
    places = {name: int(share) for name, share in shares.items()}
    left = count - sum(places.values())
    for name in sorted(shares, key=lambda name: (places[name] - shares[name], name))[:left]:
        places[name] += 1
    drawn = [
        members[name][place]
        for name, size in places.items()
        for place in generator.permutation(len(members[name]))[:size]
    ]
    return [drawn[place] for place in generator.permutation(len(drawn))]


def _answered(row: Row | None) -> bool:
    return row is not None and row["reject"] is None and bool(row["answer"].strip())


def _stratum(strata: str | None, gold: Row | None, answer: Row) -> str:
    if not strata:
        return ""
    return str((gold or {}).get("strata", {}).get(strata) or answer.get(strata) or "")


def _item(code: str, system: str, stratum: str, row: Row, gold: Row, shown: Shown) -> Item:
    cited = {name for sentence in row["sentences"] for name in sentence["evidence_ids"]}
    evidence = [
        {**piece, "number": number, "cited": piece["evidence_id"] in cited}
        for number, piece in enumerate(row["evidence"], start=1)
    ]
    kept = tuple(piece for piece in evidence if shown == "all" or piece["cited"])
    return Item(
        item=code,
        query_id=row["query_id"],
        system=system,
        stratum=stratum,
        question=row["text"] or gold.get("text", ""),
        reference=gold.get("ideal_answer", ""),
        answer=row["answer"].strip(),
        state=row["state"],
        evidence=kept,
        hidden=len(evidence) - len(kept),
    )


def passage(piece: Row) -> str:
    """The text of a row of EVIDENCE without Markdown; its first heading is shown as its section."""
    text = _HEADING_MARK.sub("", _FIRST_HEADING.sub("", piece["text"]))
    return _EMPHASIS.sub(r"\2", text).replace("`", "").strip()
