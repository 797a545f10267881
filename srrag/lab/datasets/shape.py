"""Which benchmark a path holds: told by its files and keys, so that one key names them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from srrag.core.spec import content_id
from srrag.lab.datasets import evidence_inference, json_lines, mirage
from srrag.storage.atomic_write import read_json

Placed = tuple[str, dict[str, Any]]
"""A row with its place, such as file:line, for messages."""

_ONE_FILE = ("questions.jsonl", "answers.jsonl")
_BEIR_ANSWERS = ("queries.jsonl", "answers.jsonl")


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
        listed = content.values() if isinstance(content, dict) else ()
        if any(isinstance(row, dict) and "final_decision" in row for row in listed):
            return _pubmedqa(path, content)
        raise ValueError(f"{path}: neither MIRAGE's benchmark.json nor PubMedQA's ori_pqal.json")
    if files := _labelled(path):
        return mirage.lines(files, subset)
    refuse(path, subset)
    if path.is_dir():
        return _folder(path)
    return ((place, _kqa(row)) for place, row in json_lines.rows(path))


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
    if all((path / name).exists() for name in _BEIR_ANSWERS):
        return _beir_answers(path)
    for name in _ONE_FILE:
        if (path / name).exists():
            return gold_rows(path / name)
    raise ValueError(f"{path}: the folder holds neither questions.jsonl nor answers.jsonl")


def _beir_answers(folder: Path) -> Iterator[Placed]:
    """Each answer of BEIR's layout with the text of its query; ValueError names a line without."""
    texts = {
        str(row.get("_id", row.get("id"))): row.get("text")
        for _, row in json_lines.rows(folder / _BEIR_ANSWERS[0])
    }
    for place, row in json_lines.rows(folder / _BEIR_ANSWERS[1]):
        name = str(row.get("_id", row.get("id")))
        if name not in texts:
            raise ValueError(f"{place}: {name!r} is not in {_BEIR_ANSWERS[0]}")
        yield place, {**row, "text": texts[name]}


def _pubmedqa(path: Path, content: Mapping[str, Any]) -> Iterator[Placed]:
    """Questions of {PMID: {QUESTION, LONG_ANSWER, final_decision}}; ValueError names a PMID."""
    for pmid, row in content.items():
        place = f"{path}: PMID {pmid}"
        try:
            text, decision = row["QUESTION"], row["final_decision"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"{place}: no question with a decision") from error
        long_answer = row.get("LONG_ANSWER", "")
        yield place, {"id": pmid, "text": text, "decision": decision, "long_answer": long_answer}


def _kqa(row: dict[str, Any]) -> dict[str, Any]:
    """A line of K-QA in our names, with an id by its question; any other line as it is."""
    if not {"Question", "Must_have"} <= row.keys():
        return row
    levels = (("vital", row["Must_have"]), ("okay", row.get("Nice_to_have") or []))
    return {
        "id": content_id(str(row["Question"]))[:12],
        "text": row["Question"],
        "answer": row.get("Free_form_answer", ""),
        "nuggets": [{"text": t, "importance": level} for level, texts in levels for t in texts],
    }
