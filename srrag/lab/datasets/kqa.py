"""K-QA's own lines: Question, Free_form_answer, Must_have and Nice_to_have statements."""

from __future__ import annotations

from typing import Any

from srrag.core.ids import content_id


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A line in our names, with an id by its question; any other line as it is."""
    if not {"Question", "Must_have"} <= row.keys():
        return row
    levels = (("vital", row["Must_have"]), ("okay", row.get("Nice_to_have") or []))
    return {
        "id": content_id(str(row["Question"]))[:12],
        "text": row["Question"],
        "answer": row.get("Free_form_answer", ""),
        "nuggets": [{"text": t, "importance": level} for level, texts in levels for t in texts],
    }
