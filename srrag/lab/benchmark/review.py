"""Review files, ordered by how much a question needs a look, and reviewers' decisions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zipfile import BadZipFile

from openpyxl import Workbook, load_workbook
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE, Cell
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.utils import get_column_letter
from openpyxl.utils.exceptions import InvalidFileException
from openpyxl.worksheet.datavalidation import DataValidation

from srrag.core.rows import Row
from srrag.core.standing import STANDINGS
from srrag.lab.datasets import json_lines
from srrag.storage import mirror

SHEET = "questions"
FILLED_IN = (
    "decision", "revised_question", "revised_exact_answer", "revised_ideal_answer",
    "revised_nuggets", "revised_certainty", "wrong_gold", "comment",
)  # fmt: skip
"""The columns that reviewers fill in."""
_WIDTHS = {
    "query_id": 12, "look_first": 18, "track": 10, "certainty": 11, "grade": 7, "condition": 10,
    "question": 45, "picot": 40, "seed": 24, "window": 70, "exact_answer": 50,
    "ideal_answer": 60, "nuggets": 45, "gold": 70, "certainty_reason": 25, "decision": 11,
    "revised_question": 40, "revised_exact_answer": 40, "revised_ideal_answer": 40,
    "revised_nuggets": 40, "revised_certainty": 12, "wrong_gold": 12, "comment": 30,
}  # fmt: skip
_MAX_CELL_CHARS = 32_000
_GUIDE = (
    ("What to do", "Read a row, then choose a decision. An empty decision leaves it open."),
    ("accept", "Question, answers, nuggets and gold windows are right as they stand."),
    ("revise", "Right but for what you write into the revised_… columns."),
    ("reject", "Not a question that this window answers, or of no clinical use: it is left out."),
    ("look_first", "Why a row stands at the top. Rows without a reason come last."),
    ("track", "challenge: the baseline did not find the seed window; accepted ones are taken in."),
    ("revised_exact_answer", "Without a revised_ideal_answer too, the ideal answer falls away."),
    ("revised_nuggets", "One fact a line; 'okay: …' for what is good to have, else it is vital."),
    ("revised_certainty", "sufficient or uncertain."),
    ("wrong_gold", "Numbers of gold windows that do not support an answer, such as 2 5."),
    ("window", "What the question was written from; it has to be answerable from this alone."),
    ("white columns", "Leave as they are: they tell that what you saw is what is decided on."),
)


def flags(row: Row) -> list[str]:
    """List why a question needs a look: challenge, uncertain, ungraded candidates, seed alone."""
    counts = row["counts"]
    seed_alone = {each["unit_id"] for each in row["gold"]} == {row["seed"]["unit_id"]}
    return [
        name
        for name, holds in (
            ("challenge", row["track"] == "challenge"),
            ("uncertain", row["certainty"] == "uncertain"),
            ("not_graded", counts["not_graded"] > 0),
            ("seed_alone", seed_alone),
        )
        if holds
    ]


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Sort questions: challenge and uncertain first, then challenge, uncertain, the rest."""

    def urgency(row: Row) -> tuple[Any, ...]:
        found = flags(row)
        return (
            -sum(name in found for name in ("challenge", "uncertain")),
            "challenge" not in found,
            -len(found),
            row["condition"],
            row["query_id"],
        )

    return sorted(rows, key=urgency)


def review_rows(
    rows: Sequence[Row],
    windows: Mapping[str, str],
    marks: Mapping[str, str] = MappingProxyType({}),
) -> list[Row]:
    """Return the rows for a reviewer, with empty columns to fill in.

    `windows` maps a question to the text of its seed window, `marks` a paper to its standing in
    words, which stands behind its name.
    """
    return [
        {
            "query_id": row["query_id"],
            "look_first": ", ".join(flags(row)),
            **{name: row[name] for name in ("track", "certainty", "grade", "condition")},
            "certainty_reason": row["certainty_reason"],
            **_shown(row, marks),
            "picot": "\n".join(f"{k}: {v}" for k, v in row["picot"].items() if v),
            "nuggets": "\n".join(f"{n['importance']}: {n['text']}" for n in row["nuggets"]),
            "seed": _marked(row["seed"]["doc"], marks),
            "window": windows[row["query_id"]],
            **dict.fromkeys(FILLED_IN, ""),
        }
        for row in in_order(rows)
    ]


def _shown(row: Row, marks: Mapping[str, str]) -> dict[str, str]:
    """The columns of SHOWN, of what a decision is on."""
    return {
        "question": cell_text(row["text"]),
        "exact_answer": row["exact_answer"],
        "ideal_answer": row["ideal_answer"],
        "gold": _listed(row["gold"], marks),
    }


def _listed(gold: Sequence[Row], marks: Mapping[str, str]) -> str:
    return "\n\n".join(
        f"{n}. [{g['grade'] or '–'}] {_marked(g['doc'], marks)} ({g['support']}): {g['quote']}"
        for n, g in enumerate(gold, start=1)
    )


def _marked(name: str, marks: Mapping[str, str]) -> str:
    return f"{name} – {marks[name]}" if marks.get(name) else name


def write_sheet(path: Path, rows: Sequence[Row]) -> None:
    """Write review rows as a spreadsheet: a guide, and a sheet with a list of decisions."""
    book = Workbook()
    guide = book.active
    guide.title = "guide"
    for line in _GUIDE:
        guide.append(line)
        guide.cell(guide.max_row, 1).font = Font(bold=True)
    guide.column_dimensions["A"].width, guide.column_dimensions["B"].width = 24, 100
    sheet = book.create_sheet(SHEET)
    sheet.append(list(_WIDTHS))
    for row in rows:
        _append(sheet, [cell_text(row[name]) for name in _WIDTHS])
    _style(sheet, len(rows))
    book.active = 1
    book.save(path)


def _append(sheet: Any, values: Sequence[str]) -> None:
    """Add a row of texts; a text that begins with "=" never becomes a formula."""
    number = sheet.max_row + 1
    for column, value in enumerate(values, start=1):
        cell: Cell = sheet.cell(number, column)
        cell.value, cell.data_type = value, "s"
        cell.alignment = Alignment(wrap_text=True, vertical="top")


def _style(sheet: Any, num_rows: int) -> None:
    sheet.freeze_panes = "B2"
    fill = PatternFill("solid", fgColor="FFF2CC")
    for column, (name, width) in enumerate(_WIDTHS.items(), start=1):
        letter = get_column_letter(column)
        sheet.column_dimensions[letter].width = width
        head = sheet.cell(1, column)
        head.font = Font(bold=True)
        for number in range(1, num_rows + 2) if name in FILLED_IN else ():
            sheet.cell(number, column).fill = fill
        lists = {"decision": "accept,revise,reject", "revised_certainty": "sufficient,uncertain"}
        if name in lists and num_rows:
            choice = DataValidation(type="list", formula1=f'"{lists[name]}"', allow_blank=True)
            choice.add(f"{letter}2:{letter}{num_rows + 1}")
            sheet.add_data_validation(choice)
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(_WIDTHS))}{num_rows + 1}"


def cell_text(text: str) -> str:
    """Make a text fit a cell: drop control characters and cut it to the longest length."""
    clean: str = ILLEGAL_CHARACTERS_RE.sub(" ", text)
    return clean.replace("\r\n", "\n").replace("\r", "\n").strip()[:_MAX_CELL_CHARS]


ACCEPT, REJECT, REVISE = DECISIONS = ("accept", "reject", "revise")
REVISED = (
    "revised_question", "revised_exact_answer", "revised_ideal_answer", "revised_nuggets",
    "revised_certainty", "wrong_gold",
)  # fmt: skip
SHOWN = ("question", "exact_answer", "ideal_answer", "gold")
"""The columns that a decision is on; if a file has one of them, it has to be as it is now."""
CERTAINTIES = ("sufficient", "uncertain")


@dataclass(frozen=True)
class ReviewDecision:
    """A reviewer's decision on one question, its place in the file, and the replacement texts.

    `shown` is what the file holds of SHOWN: the question as the reviewer saw it.
    """

    query_id: str
    decision: str
    where: str
    comment: str = ""
    revised: Mapping[str, str] | None = None
    shown: Mapping[str, str] | None = None


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


def unfilled(path: Path) -> Path:
    """The path for a new review file: a number is added where reviewers have filled one in.

    A file that cannot be read counts as filled in.
    """
    free, number = path, 1
    while mirror.bring(free).exists() and _filled_in(free):
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free


def _filled_in(path: Path) -> bool:
    try:
        return any(_text(row.get(name)) for _, row in _rows(path) for name in FILLED_IN)
    except ValueError:
        return True


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
    given = {name: _text(row.get(name)) for name in ("query_id", "comment", *SHOWN, *REVISED)}
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
    shown = {name: given[name] for name in SHOWN if isinstance(row.get(name), str)}
    return ReviewDecision(given["query_id"], word, where, given["comment"], revised, shown)


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
    marks: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raise ValueError for a decision on a question that is missing or has changed since review.

    `rows` are those of the benchmark before review. `dropped` maps the id of a dropped question to
    the reason, `marks` a paper to its standing. Of a rejected one only the question has to be the
    same: what is left out needs no right answer.
    """
    found = {row["query_id"]: row for row in rows}
    # A sheet from before a lesser mark, such as "corrected", is as good.
    grave = {name: told for name, told in marks.items() if STANDINGS["concern"] in told}
    for each in decisions:
        if each.query_id not in found:
            why = f": {dropped[each.query_id]}" if each.query_id in dropped else ""
            raise ValueError(
                f"{each.where}: there is no question {each.query_id!r} to decide on{why}"
            )
        now, before = (_shown(found[each.query_id], told) for told in (marks, grave))
        for name in SHOWN[:1] if each.decision == REJECT else SHOWN:
            was = _blanks_apart((each.shown or {}).get(name, ""))
            if was and was not in (_blanks_apart(now[name]), _blanks_apart(before[name])):
                raise ValueError(
                    f"{each.where}: {name} of {each.query_id!r} is not what was reviewed; empty "
                    "its decision, and the next run writes a new sheet"
                )


def _blanks_apart(text: str) -> list[str]:
    """The words of a cell: programs of tables change its blanks and line ends."""
    return cell_text(text).split()


def apply(decisions: Sequence[ReviewDecision], rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Apply the decisions; return the accepted rows with their revisions, and the rejected rows.

    `rows` are rows of REFERENCED. A revised answer is one statement that cites all windows of the
    former answer. A revised exact answer takes the former ideal one along, which may say the
    opposite: readers then take the exact answer. Raises ValueError that names file and row if
    removing wrong gold windows leaves no gold, or an exact answer without a source.
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
    for part in ("exact", "ideal"):
        if text := revised.get(f"revised_{part}_answer"):
            units = dict.fromkeys(name for each in changed[part] for name in each["unit_ids"])
            changed[part] = [{"text": text, "unit_ids": list(units) or sorted(left)}]
        elif part == "ideal" and "revised_exact_answer" in revised:
            changed[part] = []
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


def revised_ideal(decision: ReviewDecision | None) -> str:
    """Return the ideal answer that a reviewer wrote, which stands as it is written; else ""."""
    return ((decision and decision.revised) or {}).get("revised_ideal_answer", "")


def _nugget(line: str) -> dict[str, str]:
    importance, colon, rest = line.partition(":")
    if colon and rest.strip() and importance.strip().casefold() in ("vital", "okay"):
        return {"text": rest.strip(), "importance": importance.strip().casefold()}
    return {"text": line, "importance": "vital"}


def counted(decisions: Sequence[ReviewDecision], undecided: int) -> dict[str, int]:
    """Count the decisions of each kind."""
    counts = Counter(each.decision for each in decisions)
    return {**{name: counts[name] for name in DECISIONS}, "without_decision": undecided}
