"""Read and write the files of other tools: questions, TREC runs, JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError, reading
from srrag.storage.atomic_write import commit


def read_queries(path: Path) -> Iterator[dict[str, Any]]:
    """Read questions, one JSON object a line: `query_id`, `_id` or `id`, and `text` or `question`.

    Raises UsageError that names the file and line of a malformed or repeated question.
    """
    first: dict[str, int] = {}
    with reading(path), path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                query = _query(path, number, line)
                if (before := first.setdefault(query["query_id"], number)) != number:
                    detail = f"id {query['query_id']!r} was first seen in line {before}"
                    raise UsageError(f"{path}:{number}: {detail}")
                yield query


def row_id(row: Mapping[str, Any]) -> Any:
    """The id of a question in a file: its `query_id`, `_id` or `id`; None without one."""
    return next((row[key] for key in ("query_id", "_id", "id") if key in row), None)


def _query(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        query_id = row_id(row)
        text = row["text"] if "text" in row else row["question"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UsageError(f"{path}:{number}: not a question with an id and a text") from error
    if isinstance(query_id, bool) or not isinstance(query_id, (str, int)):
        raise UsageError(f"{path}:{number}: there is no id that is a string or a number")
    if not re.fullmatch(r"\S+", str(query_id)):
        raise UsageError(f"{path}:{number}: id {str(query_id)!r} is empty or holds a space")
    return {**row, "query_id": str(query_id), "text": text}


def write_run(path: Path, rows: list[dict[str, Any]], names: dict[str, str], run_name: str) -> None:
    """Write a six-column TREC run; each document takes the rank of its best window.

    Blanks in a document's name are written as "_", since columns are separated by them.
    """

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8") as file:
            for row in rows:
                seen: dict[str, float] = {}
                for hit in row["hits"]:
                    seen.setdefault(names[hit["unit_id"]], hit["score"])
                for rank, (doc, score) in enumerate(seen.items(), start=1):
                    name = "_".join(doc.split())
                    file.write(f"{row['query_id']} Q0 {name} {rank} {score:.6f} {run_name}\n")

    commit(path, write)


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """Write one JSON value a line; the file appears complete or not at all."""

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")

    commit(path, write)


def read_ids(value: Any, key: str) -> list[str]:
    """Parse ids: one id, a list, or @FILE with one id a line."""
    if value is None:
        return []
    given = value if isinstance(value, list) and value else [value]
    if not all(isinstance(item, str) for item in given):
        raise UsageError(f"{key}={value}: ids are texts; put quotes around them")
    if given[0].startswith("@"):
        try:
            given = Path(given[0][1:]).read_text("utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{key}={value}: {error}") from error
    return [item.strip() for item in given if item.strip()]
