"""MIRAGE's benchmark.json: multiple choice, {subset: {id: {question, options, answer}}}."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


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


def rows(
    path: Path, content: Mapping[str, Mapping[str, Any]], subset: str | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The questions of one subset, or of all; ids are subset:id. Raises ValueError naming both."""
    if subset is not None and subset not in content:
        raise ValueError(f"bench.subset={subset}: {path} has {', '.join(content)}")
    for name, questions in content.items():
        if subset in (None, name):
            for number, row in questions.items():
                place = f"{path}: {name}, question {number!r}"
                yield place, _row(place, name, number, row)


def _row(place: str, subset: str, number: str, row: Any) -> dict[str, Any]:
    try:
        options = {str(label): str(text) for label, text in row["options"].items()}
        right = options[row["answer"]]
        text = str(row["question"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{place}: no question with options and one of them right") from error
    if len(set(options.values())) < len(options):
        raise ValueError(f"{place}: two options are the same")
    return {
        "query_id": f"{subset}:{number}",
        "text": text,
        "options": list(options.values()),
        "gold_option": right,
        "subset": subset,
    }
