"""Join answers with gold by question into the table that judges read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from srrag.algo.entailment import sentences
from srrag.core.formats import row_id
from srrag.core.schema import EVIDENCE, NO_CHOICE, empty_value
from srrag.lab.datasets import json_lines
from srrag.lab.datasets.shape import FAULT, gold_rows
from srrag.lab.measure.judgements import CASES

ANSWER_COLUMNS = (
    "query_id", "text", "answer", "sentences", "evidence", "state", "reject",
)  # fmt: skip
IMPORTANCE = ("vital", "okay")
YES_NO, YES_NO_MAYBE = ["yes", "no"], ["yes", "no", "maybe"]
STRATA = ("condition", "topic", "task_kind", "certainty", "type", "decision", "subset")
"""Keys of a gold row by which questions fall into groups."""

_OWN = {"sentences", "state", "evidence"}
_EVIDENCE = {item.name: empty_value(item.type) for item in EVIDENCE.value_type} | {
    "kind": "window", "char_start": -1, "char_end": -1,
}  # fmt: skip
"""Fields that stored evidence of release 0.1 lacks."""
_GOLD = ("ideal_answer", "nuggets", "picot", "options")
_SHAPES = {"nuggets": list, "picot": dict, "options": list}


@dataclass(frozen=True)
class Cases:
    """The cases to judge, one row for each gold question, and the rows that found no partner."""

    table: pa.Table
    missing: Mapping[str, int]
    """Questions without an answer to judge, by the reason."""
    without_gold: int
    """Questions whose gold holds nothing to compare an answer with."""
    strangers: int
    """Answers to questions that the gold does not have: not judged."""


def read_gold_answers(
    path: Path, subset: str | None = None, faulty: list[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Read the gold of a benchmark in any format that `gold_rows` knows.

    A row has `query_id` (or `_id`, `id`) and some of these: `text` (`question`); `ideal_answer`
    (`exact_answer`, `long_answer`, `answer`; the first of several wordings); `nuggets`, texts or
    {text, importance: vital | okay}; `picot`; `options` with `gold_option`, or `decision` or
    `yesno`. A sentence or nugget that stands there twice counts once. `strata` keeps the keys that
    group questions (STRATA). Raises ValueError that names file and line. A multiple-choice question
    that is none is listed in `faulty`, if that is given,
    and costs itself alone. `given` is the row as it stands in the file.
    """
    first: dict[str, str] = {}
    for place, given in gold_rows(path, subset):
        if FAULT in given and faulty is not None:
            faulty.append(f"{place}: {given[FAULT]}")
            continue
        try:
            if FAULT in given:
                raise ValueError(given[FAULT])
            row = _gold(given)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{place}: not gold of a question ({error})") from error
        name = row["query_id"]
        if (before := first.setdefault(name, place)) != place:
            raise ValueError(f"{place}: id {name!r} was first seen in {before}")
        yield row | {"given": given}


def _gold(row: dict[str, Any]) -> dict[str, Any]:
    name = row_id(row)
    if not isinstance(name, (str, int)) or isinstance(name, bool) or not str(name).strip():
        raise ValueError("there is no query_id")
    if row.keys() >= _OWN:
        raise ValueError("an answer that `srrag answer` wrote")
    for key, kind in _SHAPES.items():
        if row.get(key) and not isinstance(row[key], kind):
            raise ValueError(f"{key!r} is no {'object' if kind is dict else 'list'}")
    picot = row.get("picot") or {}
    options, right = _options(row)
    return {
        "query_id": str(name),
        "text": str(row.get("text") or row.get("question") or ""),
        "ideal_answer": _ideal(row),
        "nuggets": _once([_nugget(nugget) for nugget in row.get("nuggets") or []]),
        "picot": {field: str(picot.get(field) or "").strip() for field in "PICOT"},
        "options": options,
        "gold_option": right,
        "strata": {key: row[key] for key in STRATA if isinstance(row.get(key), str)},
    }


def _ideal(row: Mapping[str, Any]) -> str:
    """Return the first ideal answer in prose; BioASQ keeps lists of names in `exact_answer`."""
    for key in ("ideal_answer", "exact_answer", "long_answer", "answer"):
        value = row.get(key)
        if isinstance(value, list) and key == "ideal_answer":
            value = value[0] if value else ""
        if isinstance(value, str) and value.strip():
            said = sentences(value.strip())
            return " ".join(dict.fromkeys(said)) if len(set(said)) < len(said) else value.strip()
    return ""


def _once(nuggets: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Each nugget once; vital if it is so anywhere."""
    found: dict[str, str] = {}
    for each in nuggets:
        if found.get(each["text"]) != "vital":
            found[each["text"]] = each["importance"]
    return [{"text": text, "importance": importance} for text, importance in found.items()]


def _nugget(nugget: Any) -> dict[str, str]:
    found = {"text": nugget} if isinstance(nugget, str) else nugget
    if not isinstance(found, dict):
        raise ValueError("a nugget is neither a text nor an object with one")
    importance = found.get("importance", "vital")
    if importance not in IMPORTANCE:
        raise ValueError(f"importance {importance!r} of a nugget: there are vital and okay")
    if not isinstance(found.get("text"), str) or not found["text"].strip():
        raise ValueError("a nugget has no text")
    return {"text": found["text"].strip(), "importance": importance}


def _options(row: Mapping[str, Any]) -> tuple[list[str], str]:
    if row.get("options"):
        options, right = [str(option) for option in row["options"]], str(row.get("gold_option"))
    elif row.get("decision"):
        options, right = YES_NO_MAYBE, str(row["decision"])
    elif row.get("yesno"):
        options, right = YES_NO, str(row["yesno"])
    else:
        return [], ""
    if right not in options:
        raise ValueError(f"gold_option {right!r} is not among the options")
    return options, right


def read_answers(path: Path, also: Sequence[str] = ()) -> pa.Table:
    """Read the ANSWERS that `srrag answer` wrote, with the columns of `also` that the file has.

    Raises ValueError that names file and column.
    """
    try:
        table = pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{path}: not a Parquet file of answers ({error})") from error
    missing = [name for name in ANSWER_COLUMNS if name not in table.column_names]
    if missing:
        raise ValueError(f"{path}: column {missing[0]!r} is missing; `srrag answer` writes it")
    also = ("choice", *also)
    return table.select([*ANSWER_COLUMNS, *(name for name in also if name in table.column_names)])


def read_ids(path: Path) -> set[str]:
    """The ids of the rows of a file of JSON lines, or of a folder's files: set:id where a row has
    a `set`. Raises ValueError that names a line without an id.
    """
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    found: set[str] = set()
    for file in files:
        for place, row in json_lines.rows(file):
            name = row_id(row)
            if name is None:
                raise ValueError(f"{place}: there is no id")
            found.add(f"{row['set']}:{name}" if "set" in row else str(name))
    return found


def make_cases(gold: list[dict[str, Any]], answers: pa.Table) -> Cases:
    """Pair each gold question with its answer; a question without an answer is a failure.

    Raises ValueError if no answer belongs to a gold question, or two belong to the same one.
    """
    given: dict[str, dict[str, Any]] = {}
    for row in answers.to_pylist():
        if row["query_id"] in given:
            raise ValueError(f"answers: there are two to question {row['query_id']!r}")
        given[row["query_id"]] = row
    asked = {row["query_id"] for row in gold}
    if not asked & given.keys():
        raise ValueError(f"answers: none of {len(given)} is to one of the gold's {len(asked)}")
    rows = [_case(row, given.get(row["query_id"])) for row in gold]
    return Cases(
        pa.Table.from_pylist(rows, schema=CASES),
        Counter(row["missing"] for row in rows if row["missing"]),
        sum(not _has_gold(row) for row in gold),
        len(given.keys() - asked),
    )


def _case(gold: dict[str, Any], answer: dict[str, Any] | None) -> dict[str, Any]:
    blank = {item.name: empty_value(item.type) for item in CASES if item.name != "reject"}
    case = {**blank, **gold, "choice": NO_CHOICE, "reject": None}
    if answer is None:
        return case | {"missing": "not answered"}
    case["text"] = case["text"] or answer["text"]
    case["evidence"] = [_EVIDENCE | piece for piece in answer["evidence"]]
    case |= {"chooses": "choice" in answer, "choice": answer.get("choice", NO_CHOICE)}
    if answer["reject"] is not None:
        return case | {"missing": f"failed: {answer['reject']['reason']}"}
    if not answer["answer"].strip():
        return case | {"missing": "empty"}
    return case | {
        "answer": answer["answer"],
        "sentences": answer["sentences"],
        "abstained": answer["state"] == "not",
    }


def _has_gold(row: Mapping[str, Any]) -> bool:
    return any(any(row[key].values()) if key == "picot" else row[key] for key in _GOLD)
