"""Reviewers' decisions: read from spreadsheets and JSON lines, and applied to questions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zipfile import BadZipFile

from openpyxl import load_workbook
from openpyxl.utils.exceptions import InvalidFileException

from srrag.core.rows import Row
from srrag.lab.benchmark.review import SHEET, cell_text
from srrag.lab.datasets import json_lines

ACCEPT, REJECT, REVISE = DECISIONS = ("accept", "reject", "revise")
REVISED = (
    "revised_question", "revised_exact_answer", "revised_nuggets", "revised_certainty",
    "wrong_gold",
)  # fmt: skip
CERTAINTIES = ("sufficient", "uncertain")


@dataclass(frozen=True)
class ReviewDecision:
    """A reviewer's decision on one question, its place in the file, and the replacement texts."""

    query_id: str
    decision: str
    where: str
    question: str = ""
    comment: str = ""
    revised: Mapping[str, str] | None = None


def read_decisions(paths: Sequence[Path]) -> tuple[list[ReviewDecision], int]:
    """Read the decisions of all files, and count the rows without one.

    Raises ValueError that names file and row for an unreadable file, a row without a question id,
    an unknown decision, a revision without text, and a second decision on a question.
    """
    found: dict[str, ReviewDecision] = {}
    undecided = 0
    for path in paths:
        for where, row in _rows(path):
            decision = _decision(where, row)
            if decision is None:
                undecided += 1
                continue
            if before := found.get(decision.query_id):
                raise ValueError(
                    f"{where}: {decision.query_id!r} was decided before, in {before.where}"
                )
            found[decision.query_id] = decision
    return list(found.values()), undecided


def _rows(path: Path) -> Iterator[tuple[str, Row]]:
    try:
        sheet = path.suffix.lower() == ".xlsx"
        yield from _sheet(path) if sheet else json_lines.rows(path, "a decision")
    except (OSError, BadZipFile, InvalidFileException, KeyError) as error:
        detail = " ".join(str(error).split())
        raise ValueError(f"decisions={path}: cannot be read ({detail})") from error


def _sheet(path: Path) -> Iterator[tuple[str, Row]]:
    book = load_workbook(path, read_only=True, data_only=True)
    try:
        if SHEET not in book.sheetnames:
            raise ValueError(f"decisions={path}: there is no sheet {SHEET!r}")
        lines = book[SHEET].iter_rows(values_only=True)
        names = [str(name or "").strip() for name in next(lines, ())]
        for number, values in enumerate(lines, start=2):
            if any(value is not None for value in values):
                yield f"{path}:{number}", dict(zip(names, values, strict=False))
    finally:
        book.close()


def _decision(where: str, row: Mapping[str, Any]) -> ReviewDecision | None:
    """Parse a row; None if it holds no decision."""
    given = {name: _text(row.get(name)) for name in ("query_id", "question", "comment", *REVISED)}
    if not given["query_id"]:
        raise ValueError(f"{where}: there is no query_id")
    if not (word := _text(row.get("decision")).casefold()):
        return None
    if word not in DECISIONS:
        raise ValueError(f"{where}: decision {word!r}: there are {', '.join(DECISIONS)}")
    revised = {name: given[name] for name in REVISED if given[name]}
    if (word == REVISE) != bool(revised):
        named = ", ".join(revised)
        what = "no revised text" if word == REVISE else f"a text in {named}"
        raise ValueError(f"{where}: decision {word!r} with {what}")
    if (certainty := revised.get("revised_certainty", "")) and certainty not in CERTAINTIES:
        raise ValueError(f"{where}: revised_certainty {certainty!r}: {' or '.join(CERTAINTIES)}")
    if not re.fullmatch(r"[\d\s,;]*", wrong := revised.get("wrong_gold", "")):
        raise ValueError(f"{where}: wrong_gold {wrong!r}: numbers of gold windows, such as 2 5")
    return ReviewDecision(
        given["query_id"], word, where, given["question"], given["comment"], revised
    )


def _text(value: Any) -> str:
    """Return a value as text: a list gives a line an item, a nugget its importance and text."""
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    if isinstance(value, dict):
        return f"{_text(value.get('importance')) or 'vital'}: {_text(value.get('text'))}"
    return "" if value is None else str(value).strip()


def check_decisions(
    decisions: Sequence[ReviewDecision],
    rows: Sequence[Row],
    dropped: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raise ValueError for a decision on a question that is missing or has changed since review.

    `dropped` maps the id of a dropped question to the reason.
    """
    texts = {row["query_id"]: row["text"] for row in rows}
    for each in decisions:
        if each.query_id not in texts:
            why = f": {dropped[each.query_id]}" if each.query_id in dropped else ""
            raise ValueError(
                f"{each.where}: there is no question {each.query_id!r} to decide on{why}"
            )
        if each.question and each.question != cell_text(texts[each.query_id]):
            raise ValueError(
                f"{each.where}: {each.query_id!r} asks something else now than what was reviewed"
            )


def apply(decisions: Sequence[ReviewDecision], rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Apply the decisions; return the accepted rows with their revisions, and the rejected rows.

    `rows` are rows of REFERENCED. A revised exact answer is one statement that cites all windows of
    the former answer. Raises ValueError that names file and row if removing wrong gold windows
    leaves no gold, or an exact answer without a source.
    """
    decided = {each.query_id: each for each in decisions}
    kept, rejected = [], []
    for row in rows:
        decision = decided.get(row["query_id"])
        if decision and decision.decision == REJECT:
            rejected.append(row)
        else:
            kept.append(_revised(row, decision) if decision and decision.revised else row)
    return kept, rejected


def _revised(row: Row, decision: ReviewDecision) -> Row:
    revised = decision.revised or {}
    gold = _right_gold(row["gold"], decision)
    left = {each["unit_id"] for each in gold}
    changed: Row = {
        "gold": gold,
        "text": revised.get("revised_question", row["text"]),
        "certainty": revised.get("revised_certainty", row["certainty"]),
        **{part: _with_source(row[part], left) for part in ("exact", "ideal")},
    }
    if text := revised.get("revised_exact_answer"):
        units = dict.fromkeys(name for each in changed["exact"] for name in each["unit_ids"])
        changed["exact"] = [{"text": text, "unit_ids": list(units) or sorted(left)}]
    if not changed["exact"]:
        raise ValueError(
            f"{decision.where}: wrong_gold leaves the exact answer without a source; give "
            "revised_exact_answer too"
        )
    return {**row, **changed}


def _right_gold(gold: Sequence[Row], decision: ReviewDecision) -> list[Row]:
    """Return the gold windows without those that the reviewer called wrong (numbered from 1)."""
    wrong = {int(n) for n in re.findall(r"\d+", (decision.revised or {}).get("wrong_gold", ""))}
    if outside := sorted(wrong - {*range(1, len(gold) + 1)}):
        raise ValueError(f"{decision.where}: wrong_gold {outside[0]}: there are 1 to {len(gold)}")
    if len(wrong) == len(gold):
        raise ValueError(f"{decision.where}: wrong_gold leaves no gold window; reject the question")
    return [each for number, each in enumerate(gold, start=1) if number not in wrong]


def _with_source(statements: Sequence[Row], units: set[str]) -> list[Row]:
    """Return the statements that still cite a window, each with the windows that remain."""
    left = ({**s, "unit_ids": [n for n in s["unit_ids"] if n in units]} for s in statements)
    return [each for each in left if each["unit_ids"]]


def revised_nuggets(decision: ReviewDecision | None) -> list[dict[str, str]] | None:
    """Parse the nuggets that a reviewer wrote, one a line; None if there are none.

    A line that begins with "okay:" is an okay nugget, any other is vital.
    """
    text = ((decision and decision.revised) or {}).get("revised_nuggets", "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [_nugget(line) for line in lines] or None


def _nugget(line: str) -> dict[str, str]:
    importance, colon, rest = line.partition(":")
    if colon and rest.strip() and importance.strip().casefold() in ("vital", "okay"):
        return {"text": rest.strip(), "importance": importance.strip().casefold()}
    return {"text": line, "importance": "vital"}


def counted(decisions: Sequence[ReviewDecision], undecided: int) -> dict[str, int]:
    """Count the decisions of each kind."""
    counts = Counter(each.decision for each in decisions)
    return {**{name: counts[name] for name in DECISIONS}, "without_decision": undecided}
