"""PubMedQA's own file: {PMID: {QUESTION, LONG_ANSWER, final_decision}}."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def fits(content: object) -> bool:
    """Whether this is such a file."""
    return (
        isinstance(content, dict)
        and bool(content)
        and any(isinstance(row, dict) and "final_decision" in row for row in content.values())
    )


def rows(path: Path, content: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Questions with decision and long answer; ValueError names the PMID without them."""
    for pmid, row in content.items():
        place = f"{path}: PMID {pmid}"
        try:
            text, decision = row["QUESTION"], row["final_decision"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"{place}: no question with a decision") from error
        long_answer = row.get("LONG_ANSWER", "")
        yield place, {"id": pmid, "text": text, "decision": decision, "long_answer": long_answer}
