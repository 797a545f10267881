"""Benchmarks by the shape of their files and keys, so that one key names them all.

MIRAGE's benchmark.json is {subset: {id: {question, options, answer}}}. Files of JSON lines have a
row {id, set, question, options, answer}, where medagents calls the id `realidx` and the right label
`answer_idx`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from srrag.core.spec import content_id
from srrag.lab.datasets import json_lines
from srrag.storage.atomic_write import read_json

FAULT = "fault"
"""Key of a row that holds no question: why."""

Placed = tuple[str, dict[str, Any]]


def is_mirage(content: object) -> bool:
    """Whether this is such a file: subsets of questions that have options."""
    if not isinstance(content, dict) or not content:
        return False
    subsets = list(content.values())
    return all(isinstance(each, dict) for each in subsets) and any(
        isinstance(question, dict) and "options" in question
        for each in subsets
        for question in each.values()
    )


def labelled(row: object) -> bool:
    """Whether a row is a question with options by label."""
    return isinstance(row, dict) and isinstance(row.get("options"), dict)


def mirage_rows(
    path: Path, content: Mapping[str, Mapping[str, Any]], subset: str | None = None
) -> Iterator[Placed]:
    """The questions of one subset, or of all; ids are subset:id. ValueError for an unknown subset.

    A row without question, options, or the right one among them has the key FAULT.
    """
    _check_subset(path, content, subset)
    for name, questions in content.items():
        if subset in (None, name):
            for number, row in questions.items():
                yield f"{path}: {name}, question {number!r}", mirage_question(name, number, row)


def mirage_lines(files: list[Path], subset: str | None = None) -> Iterator[Placed]:
    """The questions of files of JSON lines; a row's set is its `set`, else the file's name."""
    found = [
        (place, str(row.get("set") or path.stem), row)
        for path in files
        for place, row in json_lines.rows(path)
    ]
    _check_subset(
        files[0].parent if len(files) > 1 else files[0], [name for _, name, _ in found], subset
    )
    for place, name, row in found:
        if subset in (None, name):
            number = next((row[key] for key in ("id", "realidx", "_id") if key in row), None)
            yield place, mirage_question(name, number if number is not None else place, row)


def mirage_question(subset: str, number: object, row: Any) -> dict[str, Any]:
    """A question with its options in order; equal options are allowed."""
    asked = {"query_id": f"{subset}:{number}", "subset": subset}
    try:
        text, given = row["question"], row["options"]
        label = str(row["answer_idx"] if row.get("answer_idx") is not None else row["answer"])
        options = {str(name): str(option) for name, option in given.items()}
    except (KeyError, TypeError, AttributeError):
        return asked | {FAULT: "no question with options and one of them right"}
    if not isinstance(text, str) or not text.strip():
        return asked | {FAULT: "the question has no text"}
    if len(options) < 2 or label not in options:
        return asked | {FAULT: f"answer {label[:40]!r} is not one of the labels of two or more"}
    return asked | {
        "text": text,
        "options": list(options.values()),
        "labels": list(options),
        "gold_option": options[label],
    }


def _check_subset(path: Path, names: Any, subset: str | None) -> None:
    if subset is not None and subset not in names:
        known = ", ".join(dict.fromkeys(names))
        raise ValueError(f"bench.subset={subset}: {path} has {known}")


PROMPT_FILES = ("prompts.jsonl", "articles.jsonl")
LABELS = ("significantly increased", "significantly decreased", "no significant difference")


def evidence_inference_rows(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The prompts that are labelled, as questions; ValueError names a line that is no prompt."""
    for place, row in json_lines.rows(folder / PROMPT_FILES[0]):
        try:
            label, evidence = row["label"], row.get("evidence") or []
            parts = {name: row[name] for name in ("intervention", "comparator", "outcome")}
            quote = evidence[0]["text"] if evidence else ""
            name = row["id"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"{place}: not a prompt of Evidence Inference") from error
        if label is not None:
            yield (
                place,
                {
                    "id": name,
                    "text": "What is the effect of {intervention}, compared with {comparator}, "
                    "on {outcome}?".format_map(parts),
                    "options": list(LABELS),
                    "gold_option": label,
                    "long_answer": quote,
                },
            )


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
        if is_mirage(content):
            return mirage_rows(path, content, subset)
        refuse(path, subset)
        listed = content.values() if isinstance(content, dict) else ()
        if any(isinstance(row, dict) and "final_decision" in row for row in listed):
            return _pubmedqa(path, content)
        raise ValueError(f"{path}: neither MIRAGE's benchmark.json nor PubMedQA's ori_pqal.json")
    if files := _labelled(path):
        return mirage_lines(files, subset)
    refuse(path, subset)
    if path.is_dir():
        return _folder(path)
    return ((place, _kqa(row)) for place, row in json_lines.rows(path))


def _labelled(path: Path) -> list[Path]:
    """The files of JSON lines at a path whose first question has options by label."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    return [file for file in files if file.is_file() and labelled(_first(file))]


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
    if all((path / name).exists() for name in PROMPT_FILES):
        return evidence_inference_rows(path)
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
