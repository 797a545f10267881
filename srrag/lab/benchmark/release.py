"""Rows of the finished benchmark, in the shape that `srrag evaluate` reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean, median
from typing import Any

from srrag.core.rows import Row
from srrag.core.standing import STUDIES
from srrag.lab.benchmark.grade_support import RELEVANCE
from srrag.lab.benchmark.split_nuggets import joined

GOLD_KEYS = ("unit_id", "doc_id", "grade", "support", "reason", "char_start", "char_end")


def question_row(row: Row, model: str) -> Row:
    """Turn a row of NUGGETED into one line of the benchmark: a question with its gold."""
    grades = {each["unit_id"]: each["grade"] for each in row["gold"]}
    documents = {each["unit_id"]: each["source_id"] for each in row["gold"]}
    return {
        "query_id": row["query_id"],
        "text": row["text"],
        "condition": row["condition"],
        "task_kind": "clinical",
        "grade": row["grade"],
        "certainty": row["certainty"],
        "certainty_reason": row["certainty_reason"],
        "track": row["track"],
        "seed_rank": row["seed_rank"],
        "picot": {name: row["picot"][name] or None for name in "PICOT"},
        "exact_answer": joined(row["exact"]),
        "ideal_answer": ideal_text(row["ideal"], grades),
        "statements": [
            {"part": part, **_sourced(each, documents, grades)}
            for part in ("exact", "ideal")
            for each in row[part]
        ],
        "nuggets": row["nuggets"],
        "gold": [_gold(each) for each in row["gold"]],
        "seed": {
            "doc": row["source_id"],
            "unit_id": row["unit_id"],
            "char_start": row["char_start"],
            "char_end": row["char_end"],
        },
        "counts": {name: row[name] for name in ("weak", "unrelated", "not_graded")},
        "model": model,
    }


def _gold(each: Row) -> Row:
    names = {name: each[name] for name in GOLD_KEYS}
    relevance = RELEVANCE[each["support"]]
    return {"doc": each["source_id"], "quote": each["quote"], "relevance": relevance, **names}


def _sourced(statement: Row, documents: Mapping[str, str], grades: Mapping[str, str]) -> Row:
    units = [name for name in statement["unit_ids"] if name in documents]
    return {
        "text": statement["text"],
        "grade": min((grades[name] for name in units), default=""),
        "sources": [{"doc": documents[name], "unit_id": name} for name in units],
    }


def ideal_text(statements: Iterable[Row], grades: Mapping[str, str]) -> str:
    """Write the ideal answer: one paragraph a grade, which names the kind of its evidence."""
    paragraphs: dict[str, list[str]] = {}
    for each in statements:
        best = min((grades[name] for name in each["unit_ids"] if name in grades), default="")
        paragraphs.setdefault(best, []).append(each["text"])
    return "\n\n".join(
        f"{_named(grade)}: {' '.join(texts)}" for grade, texts in sorted(paragraphs.items())
    )


def _named(grade: str) -> str:
    return f"Grade {grade}, {STUDIES[grade]}" if grade in STUDIES else "Without a grade"


def composition(rows: Sequence[Row]) -> dict[str, Any]:
    """Count questions by grade, condition, certainty and track, and gold windows a question."""
    by = {
        name: dict(sorted(Counter(row[name] for row in rows).items()))
        for name in ("grade", "condition", "certainty", "track")
    }
    sizes = [len(row["gold"]) for row in rows] or [0]
    return {
        **{f"by_{name}": counts for name, counts in by.items()},
        "gold_windows": {
            "all": sum(sizes),
            "mean": round(mean(sizes), 2),
            "median": median(sizes),
            "most": max(sizes),
            "strong": sum(g["relevance"] == 2 for row in rows for g in row["gold"]),
        },
        "nuggets": sum(len(row["nuggets"]) for row in rows),
    }
