"""A folder of results: what an evaluation or a sweep found, and all that a report is made of.

    rows.json                   the systems: figures, differences, costs, where they come from
    questions.parquet           QUESTIONS: the value of each metric by system and question
    gold.parquet                GOLD: what each question is, what it was judged by
    answers/<row>.parquet       what a system made of each question, if it was kept
    judgements/<row>.parquet    what its judges said of that, if it was kept

`rows.json` is written last and names the other files with their hashes: a folder without it is
not finished, and one whose files are not those is cut.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pydantic

from srrag.core.schema import conform, non_null
from srrag.core.spec import content_id, file_sha256
from srrag.lab.report.row import Row, Stated
from srrag.storage import mirror
from srrag.storage.atomic_write import commit, commit_json, read_json, write_parquet

_SHOWN = 3


def stated(rows: Sequence[Row]) -> list[str]:
    """List failures, the worst first: whole rows, judges without a result, items, questions."""
    return [*_wholes(rows), *_judges(rows), *_items(rows), *_questions(rows)]


def _wholes(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row.state == "failed":
            yield f"{row.name} failed as a whole: {row.reason}"


def _judges(rows: Sequence[Row]) -> Iterator[str]:
    for judge in dict.fromkeys(name for row in rows for name in row.broken_judges):
        of = [row.name for row in rows if judge in row.broken_judges]
        all_ = "all systems" if len(of) == len(rows) > 1 else "; ".join(of)
        yield f"NO RESULT of the judge {judge}: it failed wherever it was asked, for {all_}"


def _items(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the partial failures of judges; a ranking has none, as its failures are questions."""
    for row in rows:
        lost = [
            f"{name} {figure.failed:,}" + (f" of {figure.items:,}" if figure.items else "")
            for name, figure in row.metrics.items()
            if row.judge and figure.failed and figure.value is not None
        ]
        if lost:
            more = f" and of {len(lost) - _SHOWN} more metrics" if len(lost) > _SHOWN else ""
            listed = ", ".join(lost[:_SHOWN])
            yield f"{row.name}: not judged, and counted as worst: items of {listed}{more}"


def _questions(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row.state == "done" and (row.failed or row.missing):
            counted = Counter(row.missing) or Counter(each.reason for each in row.failures)
            why = ", ".join(f"{reason} {count:,}" for reason, count in counted.most_common())
            lost = max(row.failed, sum(row.missing.values()))
            of = f"{lost:,} of {row.questions:,} questions"
            yield f"{row.name}: {of} without an answer" + (f" ({why})" if why else "")


LAYOUT = 1
ROWS, SCORES, KNOWN = "rows.json", "questions.parquet", "gold.parquet"
STRATA = ("condition", "grade", "certainty", "subset")
"""What questions are told apart by."""

_STRING = pa.string()
_STRATA = [pa.field(name, _STRING) for name in STRATA]

QUESTIONS = pa.schema(
    [
        pa.field("row", _STRING, nullable=False),
        pa.field("query_id", _STRING, nullable=False),
        pa.field("metric", _STRING, nullable=False),
        pa.field("value", pa.float64()),
        pa.field("weight", pa.float64(), nullable=False),
        pa.field("reason", _STRING, nullable=False),
        *_STRATA,
    ]
)
"""A row a system, question and metric.

Without a `value` the `reason` says why there is none. A metric of several questions is the sum of
value times `weight` over that of the weights: 1 each, or the items of a question where a metric
is pooled over them.
"""

GOLD = non_null(
    "bench query_id text reference",
    ("nuggets", pa.list_(_STRING)),
    ("relevant", pa.list_(_STRING)),
    *_STRATA,
)
"""A row a question: its words, the answer and the statements expected, the ids that hold them."""

_JUDGED = ("query_id", "metric", "item", "value", "reason", "reject")


class _File(Stated):
    layout: int
    rows: tuple[Row, ...] = pydantic.Field(min_length=1)
    files: dict[str, str]


@dataclass(frozen=True)
class Results:
    """A folder of results, read and checked; answers and judgements are read when asked for."""

    folder: Path
    rows: tuple[Row, ...]
    questions: pa.Table
    gold: pa.Table

    def answers(self, row: str) -> pa.Table | None:
        """Read a system's output for each question; None if the results lack it."""
        return self._kept("answers", row)

    def judgements(self, row: str) -> pa.Table | None:
        """Read a system's JUDGEMENTS; None if the results lack them."""
        return self._kept("judgements", row)

    def _kept(self, kind: str, row: str) -> pa.Table | None:
        path = _path(self.folder, kind, row)
        return _read_parquet(path) if path.exists() else None


def scored(
    row: str,
    metric: str,
    questions: Sequence[str],
    parts: npt.NDArray[np.float64],
    wholes: npt.NDArray[np.float64] | None = None,
    left_out: Mapping[str, str] | None = None,
) -> pa.Table:
    """QUESTIONS of one system and metric, their strata null: `write_results` fills them in.

    `left_out` names the questions that do not count, each with the reason.
    """
    weights = np.ones(len(parts)) if wholes is None else np.asarray(wholes, np.float64)
    others = dict(left_out or {})
    size = len(questions) + len(others)
    columns = {
        "row": [row] * size,
        "query_id": [*questions, *others],
        "metric": [metric] * size,
        "value": [*(np.asarray(parts) / weights).tolist(), *[None] * len(others)],
        "weight": [*weights.tolist(), *[0.0] * len(others)],
        "reason": [*[""] * len(questions), *others.values()],
        **{name: [None] * size for name in STRATA},
    }
    return pa.table(columns, schema=QUESTIONS)


def gold_table(bench: str, questions: Iterable[Mapping[str, Any]]) -> pa.Table:
    """GOLD of a benchmark from questions as its reader yields them; what one lacks stays empty.

    It reads `query_id`, `text`, the strata, `ideal_answer` (`exact_answer`), `nuggets` (texts or
    {text}), `gold` ({doc, grade}) and `relevant` (ids of windows or documents). A question without
    a grade gets the best grade of its gold. Several answers stand in a row; a stratum that is no
    text is left out.
    """
    rows = [
        {
            "bench": bench,
            "query_id": row["query_id"],
            "text": row.get("text") or "",
            "reference": _text(row.get("ideal_answer")) or _text(row.get("exact_answer")),
            "nuggets": [n if isinstance(n, str) else n["text"] for n in row.get("nuggets") or []],
            "relevant": [
                *(str(g["doc"]) for g in row.get("gold") or []),
                *map(str, row.get("relevant") or []),
            ],
            **{name: _stratum(row, name) for name in STRATA},
            "grade": _stratum(row, "grade") or _best_grade(row),
        }
        for row in questions
    ]
    return pa.Table.from_pylist(rows, schema=GOLD)


def _best_grade(row: Mapping[str, Any]) -> str | None:
    return min(filter(None, (_stratum(g, "grade") for g in row.get("gold") or [])), default=None)


def _stratum(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    return value if isinstance(value, str) and value else None


def _text(value: Any) -> str:
    """A text, or several of a list, as BioASQ has them for `exact_answer`."""
    if isinstance(value, list):
        return "; ".join(filter(None, map(_text, value)))
    return value if isinstance(value, str) else ""


def remove_kept(folder: Path, row: str) -> None:
    """Remove what an earlier run kept of a system of this name: it is not of these results."""
    for kind in ("answers", "judgements"):
        mirror.remove(_path(folder, kind, row))


def write_answers(folder: Path, row: str, table: pa.Table) -> None:
    """Write a system's output for each question, without its vectors."""
    kept = [item.name for item in table.schema if not _is_binary(item.type)]
    commit(_path(folder, "answers", row), partial(write_parquet, table.select(kept)))


def write_judgements(folder: Path, row: str, table: pa.Table) -> None:
    """Keep what judges said, rows of JUDGEMENTS; raises ValueError for a column it lacks."""
    missing = [name for name in _JUDGED if name not in table.column_names]
    if missing:
        raise ValueError(f"judgements of {row}: column {missing[0]!r} is missing")
    commit(_path(folder, "judgements", row), partial(write_parquet, table))


def write_results(
    folder: Path, rows: Sequence[Row], questions: Sequence[pa.Table], gold: pa.Table
) -> None:
    """Write the folder, rows.json last; answers and judgements were written before.

    Raises ValueError for two rows of one name and for a baseline that is no row.
    """
    _check_names(rows)
    gold = conform(gold, GOLD)
    (folder / ROWS).unlink(missing_ok=True)
    scores = _with_strata(pa.concat_tables([QUESTIONS.empty_table(), *questions]), rows, gold)
    commit(folder / SCORES, partial(write_parquet, scores))
    commit(folder / KNOWN, partial(write_parquet, gold))
    kept = [_path(folder, kind, row.name) for kind in ("answers", "judgements") for row in rows]
    files = [folder / SCORES, folder / KNOWN, *(path for path in kept if path.exists())]
    stated = {
        "layout": LAYOUT,
        "rows": [row.model_dump(mode="json") for row in rows],
        "files": {str(path.relative_to(folder)): file_sha256(path) for path in files},
    }
    commit_json(folder / ROWS, stated, sealed=True)


def read_results(folder: Path) -> Results:
    """Read a folder of results.

    Raises ValueError that names the file, and the key of rows.json, for a folder that is missing,
    unfinished, truncated or of another layout.
    """
    path = folder / ROWS
    if not mirror.listing(folder):
        raise ValueError(f"results={folder}: there is no such folder, or it is empty")
    if not mirror.exists(path):
        raise ValueError(f"results={folder} holds no {ROWS}: not results, or not finished")
    stated = read_json(path)
    layout = stated.get("layout") if isinstance(stated, dict) else None
    if layout != LAYOUT:
        raise ValueError(f"{path}: layout {layout}; this version reads {LAYOUT}")
    try:
        file = _File.model_validate(stated)
        _check_names(file.rows)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{path}: {where}: {first['msg']}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    for name in dict.fromkeys((SCORES, KNOWN, *file.files)):
        _check_file(folder, name, file.files.get(name))
    tables = [_read_parquet(folder / name) for name in (SCORES, KNOWN)]
    try:
        return Results(folder, file.rows, conform(tables[0], QUESTIONS), conform(tables[1], GOLD))
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error


def _check_file(folder: Path, name: str, sha256: str | None) -> None:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{folder / ROWS}: files: {name!r} lies outside the folder")
    if not mirror.bring(path).exists():
        raise ValueError(f"{path} is missing; write the results again")
    if file_sha256(path) != sha256:
        raise ValueError(f"{path} is not what was written (sha256 differs)")


def _check_names(rows: Sequence[Row]) -> None:
    names = [row.name for row in rows]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"there are two rows named {twice[0]!r}")
    for row in rows:
        if row.baseline is not None and row.baseline not in names:
            raise ValueError(f"row {row.name!r}: its baseline {row.baseline!r} is no row")


def _with_strata(questions: pa.Table, rows: Sequence[Row], gold: pa.Table) -> pa.Table:
    benches = {row.name: row.bench for row in rows}
    known = {(row["bench"], row["query_id"]): row for row in gold.to_pylist()}
    columns = (questions[name].to_pylist() for name in ("row", "query_id"))
    found = [
        known.get((benches.get(row, ""), query), {}) for row, query in zip(*columns, strict=True)
    ]
    for name in STRATA:
        values = pa.array([row.get(name) for row in found], _STRING)
        questions = questions.set_column(
            questions.column_names.index(name), QUESTIONS.field(name), values
        )
    return conform(questions, QUESTIONS)


def _path(folder: Path, kind: str, row: str) -> Path:
    """Return the file of a row: its name if that is a valid file name, else one with a hash."""
    plain = re.sub(r"[^A-Za-z0-9_.+=-]+", "-", row).lstrip(".")
    return folder / kind / f"{plain if plain == row else f'{plain}-{content_id(row)[:8]}'}.parquet"


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _read_parquet(path: Path) -> pa.Table:
    try:
        return pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{path}: not a Parquet file ({error})") from error
