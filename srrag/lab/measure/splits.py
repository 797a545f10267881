"""Split question sets that come without a split: parameters are fitted on one side only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from srrag.core.ids import content_id

SPLITS = ("train", "test")
_TEST_IN = 3

Question = TypeVar("Question", bound=Mapping[str, Any])


def questions_of(questions: Iterable[Question], split: str | None) -> list[Question]:
    """Return the questions of `train` or `test`, or all for None; ValueError for another split.

    The hash of the id puts a third of the questions into `test`, so a question keeps its side when
    others are added.
    """
    if split is None:
        return list(questions)
    if split not in SPLITS:
        raise ValueError(f"bench.split={split}: one of {', '.join(SPLITS)}, or null for all")
    return [row for row in questions if split_of(row["query_id"]) == split]


def split_of(query_id: str) -> str:
    """`train` or `test`."""
    return "test" if int(content_id(query_id)[:15], 16) % _TEST_IN == 0 else "train"
