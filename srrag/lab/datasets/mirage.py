"""Multiple choice as MIRAGE and medagents keep it: options by label, and the right label.

MIRAGE's benchmark.json is {subset: {id: {question, options, answer}}}. Files of JSON lines have a
row {id, set, question, options, answer}, where medagents calls the id `realidx` and the right label
`answer_idx`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from srrag.lab.datasets import json_lines

FAULT = "fault"
"""Key of a row that holds no question: why."""

Placed = tuple[str, dict[str, Any]]


def fits(content: object) -> bool:
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


def rows(
    path: Path, content: Mapping[str, Mapping[str, Any]], subset: str | None = None
) -> Iterator[Placed]:
    """The questions of one subset, or of all; ids are subset:id. ValueError for an unknown subset.

    A row without question, options, or the right one among them has the key FAULT.
    """
    _check(path, content, subset)
    for name, questions in content.items():
        if subset in (None, name):
            for number, row in questions.items():
                yield f"{path}: {name}, question {number!r}", question(name, number, row)


def lines(files: list[Path], subset: str | None = None) -> Iterator[Placed]:
    """The questions of files of JSON lines; a row's set is its `set`, else the file's name."""
    found = [
        (place, str(row.get("set") or path.stem), row)
        for path in files
        for place, row in json_lines.rows(path)
    ]
    _check(files[0].parent if len(files) > 1 else files[0], [name for _, name, _ in found], subset)
    for place, name, row in found:
        if subset in (None, name):
            number = next((row[key] for key in ("id", "realidx", "_id") if key in row), None)
            yield place, question(name, number if number is not None else place, row)


def question(subset: str, number: object, row: Any) -> dict[str, Any]:
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


def _check(path: Path, names: Any, subset: str | None) -> None:
    if subset is not None and subset not in names:
        known = ", ".join(dict.fromkeys(names))
        raise ValueError(f"bench.subset={subset}: {path} has {known}")
