"""Reads the answers of stored runs: lists runs, filters their rows and compares two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq

from srrag.answer.record import AnswerRecord
from srrag.answer.write.cited import UNGRADED, best_grade, without_lead
from srrag.core.schema import STATES as ANSWER_STATES
from srrag.core.spec import content_id
from srrag.core.units import Units

ROWS = "rows.json"
"""The file that finishes a folder of results."""
FILE = "answers.parquet"
"""The file that `srrag answer` writes; results (srrag.lab.report.results) hold one per system."""

STATES = (*ANSWER_STATES, "failed")
_LISTED = (
    "query_id", "text", "answer", "state", "sentences", "reject", "model",
    "evidence.list.element.evidence_id", "evidence.list.element.unit_id",
    "evidence.list.element.grade",
)  # fmt: skip
_NEEDED = ("query_id", "text", "answer", "state", "answer_note", "sentences", "evidence",
           "model", "trace", "reject")  # fmt: skip

Row = dict[str, Any]
State = Literal["answered", "partly", "not", "failed"]


@dataclass(frozen=True)
class StoredRun:
    """A file of answers; its name is its path below the folder that was searched."""

    id: str
    name: str
    path: Path

    def stamp(self) -> tuple[int, int]:
        """Modification time in ns and size in bytes, which change when the file is replaced."""
        state = self.path.stat()
        return state.st_mtime_ns, state.st_size


def find_runs(folders: Mapping[str, Path]) -> dict[str, StoredRun]:
    """Find runs below labelled folders, by id; ignores links that lead elsewhere.

    Requests name an id of this listing, so they can only reach files inside the folders.
    """
    runs = [
        StoredRun(content_id("run", label, name), "/".join(filter(None, (label, name))), path)
        for label, folder in folders.items()
        for name, path in _files(folder.resolve())
    ]
    return {run.id: run for run in runs}


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    found = [(path.parent, path) for path in folder.rglob(FILE)]
    for rows in folder.rglob(ROWS):
        found += [
            (rows.parent / path.stem, path) for path in (rows.parent / "answers").glob("*.parquet")
        ]
    for place, path in sorted(found):
        if path.is_file() and path.resolve() == path:
            yield place.relative_to(folder).as_posix(), path


def run_summary(run: StoredRun) -> Row:
    """Name, time and counts of a run, or `fault` if its file cannot be read."""
    told: Row = {"id": run.id, "name": run.name}
    try:
        modified, _ = run.stamp()
        rows = answers_of(run)
    except (OSError, ValueError) as error:
        return {**told, "fault": f"{type(error).__name__}: {error}".splitlines()[0]}
    counts = {state: sum(row["state"] == state for row in rows) for state in STATES}
    models = sorted({row["model"] for row in rows if row["model"]})
    return {**told, "modified": modified // 10**9, "questions": len(rows), **counts,
            "models": models}  # fmt: skip


def answers_of(run: StoredRun) -> tuple[Row, ...]:
    """One row per question of a run: state, best grade, sentences and citations.

    Raises ValueError if the file lacks a column.
    """
    return _answers(run.path, *run.stamp())


@lru_cache(maxsize=8)
def _answers(path: Path, modified: int, size: int) -> tuple[Row, ...]:
    with pq.ParquetFile(path) as file:
        if missing := set(_NEEDED) - set(file.schema_arrow.names):
            raise ValueError(f"{path.name} has no column {sorted(missing)[0]!r}")
        return tuple(map(_listed, file.read(columns=list(_LISTED)).to_pylist()))


def _listed(row: Row) -> Row:
    by_id = {item["evidence_id"]: item for item in row["evidence"]}
    cited = [by_id[key] for each in row["sentences"] for key in each["evidence_ids"]]
    reject = row["reject"]
    state = "failed" if reject else row["state"]
    best = best_grade(range(1, len(cited) + 1), [item["grade"] for item in cited])
    return {
        "query_id": row["query_id"],
        "question": row["text"],
        "state": state,
        "why": f"{reject['stage']}: {reject['reason']}" if reject else "",
        "grade": best if best != UNGRADED else "",
        "citations": len(cited),
        "model": row["model"] or "",
        "words": " ".join(without_lead(each["text"]) for each in row["sentences"]).split(),
        "cited": sorted({item["unit_id"] for item in cited}),
        "found": [item["unit_id"] for item in row["evidence"]],
    }


DIFFERENT = frozenset(["missing", "state", "answer"])
"""Changes by which two answers are different: with the same words they are not."""


_KINDS = {"state": "state", "grade": "grade", "answer": "words", "citations": "cited",
          "evidence": "found"}  # fmt: skip


def compared(rows: tuple[Row, ...], others: Sequence[tuple[Row, ...]]) -> Iterator[Row]:
    """Add to each row those of other runs as `others`, None where a run lacks it, and what differs.

    `changes` names what any two differ in; `answers` counts different outcomes and words;
    `distance` is the mean share of words that an answer does not share with the first, 0…1.
    """
    by_id = [{row["query_id"]: row for row in run} for run in others]
    for row in rows:
        beside = [run.get(row["query_id"]) for run in by_id]
        there = [row, *(other for other in beside if other)]
        changes = [k for k, key in _KINDS.items() if any(row[key] != each[key] for each in there)]
        told = {(each["state"], tuple(each["words"])) for each in there}
        apart = [1.0 if other is None else _apart(row, other) for other in beside]
        yield {
            **row,
            "others": beside,
            "changes": [*(["missing"] if None in beside else []), *changes],
            "answers": len(told),
            "distance": round(sum(apart) / max(1, len(apart)), 3),
        }


def _apart(row: Row, other: Row) -> float:
    """1 minus the words that two answers share of all that either holds; 1 for two outcomes."""
    if row["state"] != other["state"]:
        return 1.0
    mine, theirs = set(row["words"]), set(other["words"])
    return 1 - len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0


def chosen(
    rows: Iterator[Row] | tuple[Row, ...], *, text: str, grade: str, state: str, differs: bool
) -> list[Row]:
    """Filter rows; "" matches any. In a comparison, a row matches if the row of any run does."""
    wanted = text.casefold()

    def fits(row: Row) -> bool:
        sides = [row, *filter(None, row.get("others", ()))]
        return (
            (not wanted or wanted in f"{row['question']} {row['query_id']}".casefold())
            and (not grade or any((side["grade"] or "none") == grade for side in sides))
            and (not state or any(side["state"] == state for side in sides))
            and (not differs or bool(DIFFERENT & {*row.get("changes", ())}))
        )

    return [row for row in rows if fits(row)]


def brief(row: Row) -> Row:
    """Copy a row without the columns that only comparisons need."""
    kept = {k: v for k, v in row.items() if k not in ("words", "cited", "found", "others")}
    beside = [other and brief(other) for other in row.get("others", ())]
    return {**kept, **({"others": beside} if beside else {})}


def read_answer(run: StoredRun, query_id: str, units: Units | None = None) -> Row | None:
    """One answer of a run with its evidence and trace; None if the run has no such question.

    `units` tell the sources of what the current build still holds.
    """
    found = pq.read_table(run.path, filters=[("query_id", "==", query_id)], partitioning=None)
    if not found.num_rows:
        return None
    row = found.slice(0, 1).to_pylist()[0]
    if row["reject"]:
        return {"query_id": query_id, "question": row["text"], "state": "failed",
                "reject": row["reject"]}  # fmt: skip
    return {**AnswerRecord.of(row, units=units, explained=True).json, "query_id": query_id}
