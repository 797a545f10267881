"""Evidence Inference as multiple choice: did an outcome rise, fall, or stay the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from srrag.lab.datasets import json_lines

FILES = ("prompts.jsonl", "articles.jsonl")
LABELS = ("significantly increased", "significantly decreased", "no significant difference")


def rows(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The prompts that are labelled, as questions; ValueError names a line that is no prompt."""
    for place, row in json_lines.rows(folder / FILES[0]):
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
