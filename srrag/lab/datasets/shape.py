"""Which benchmark a path holds: told by its files and keys, so that one key names them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from srrag.lab.datasets import (
    beir_answers,
    evidence_inference,
    json_lines,
    kqa,
    mirage,
    pubmedqa,
)
from srrag.storage.atomic_write import read_json

Placed = tuple[str, dict[str, Any]]
"""A row with its place, such as file:line, for messages."""

_ONE_FILE = ("questions.jsonl", "answers.jsonl")


def gold_rows(path: Path, subset: str | None = None) -> Iterator[Placed]:
    """The rows of a benchmark: questions with their gold, whatever its form.

    A folder with prompts.jsonl and articles.jsonl is Evidence Inference, one with queries.jsonl and
    answers.jsonl BEIR's layout with answers, one with questions.jsonl or answers.jsonl alone that
    file. A .json file is MIRAGE's benchmark.json, of which `subset` may name a part, or PubMedQA's
    ori_pqal.json. A file or folder of .jsonl files whose questions have options by label is
    MIRAGE's sets in lines. Anything else is JSON lines, including K-QA's own. Raises ValueError
    that names the path, and the line if there is one. An invalid question of MIRAGE becomes a row
    with the key `fault`.
    """
    if path.is_file() and path.suffix == ".json":
        content = read_json(path)
        if mirage.fits(content):
            return mirage.rows(path, content, subset)
        refuse(path, subset)
        if pubmedqa.fits(content):
            return pubmedqa.rows(path, content)
        raise ValueError(f"{path}: neither MIRAGE's benchmark.json nor PubMedQA's ori_pqal.json")
    if files := _labelled(path):
        return mirage.lines(files, subset)
    refuse(path, subset)
    if path.is_dir():
        return _folder(path)
    return ((place, kqa.plain(row)) for place, row in json_lines.rows(path))


def _labelled(path: Path) -> list[Path]:
    """The files of JSON lines at a path whose first question has options by label."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    return [file for file in files if file.is_file() and mirage.labelled(_first(file))]


def _first(path: Path) -> object:
    """The first row of a file of JSON lines, None where there is none."""
    try:
        return next((row for _, row in json_lines.rows(path)), None)
    except ValueError:
        return None  # the reader of the file will report the error


def refuse(path: Path, subset: str | None) -> None:
    """Raise ValueError if a part is asked for of what has none."""
    if subset is not None:
        raise ValueError(f"bench.subset={subset}: {path} has no subsets")


def _folder(path: Path) -> Iterator[Placed]:
    if all((path / name).exists() for name in evidence_inference.FILES):
        return evidence_inference.rows(path)
    if all((path / name).exists() for name in beir_answers.FILES):
        return beir_answers.rows(path)
    for name in _ONE_FILE:
        if (path / name).exists():
            return gold_rows(path / name)
    raise ValueError(f"{path}: the folder holds neither questions.jsonl nor answers.jsonl")
