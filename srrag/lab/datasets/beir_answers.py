"""BEIR's layout with answers beside it: queries.jsonl has the texts, answers.jsonl the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from srrag.lab.datasets import json_lines

FILES = ("queries.jsonl", "answers.jsonl")


def rows(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each answer with the text of its query; ValueError names the line that has none."""
    texts = {
        str(row.get("_id", row.get("id"))): row.get("text")
        for _, row in json_lines.rows(folder / FILES[0])
    }
    for place, row in json_lines.rows(folder / FILES[1]):
        name = str(row.get("_id", row.get("id")))
        if name not in texts:
            raise ValueError(f"{place}: {name!r} is not in {FILES[0]}")
        yield place, {**row, "text": texts[name]}
