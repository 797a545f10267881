"""Rows of the finished benchmark, and of the public one, which has no window text.

The same corpus restores the full one from it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from srrag.answer.write.cited import UNGRADED
from srrag.core.rows import Row
from srrag.core.standing import STUDIES
from srrag.lab.benchmark.grade_support import RELEVANCE
from srrag.lab.benchmark.split_nuggets import joined
from srrag.lab.datasets import json_lines

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
        "grade": _best(units, grades).replace(UNGRADED, ""),
        "sources": [{"doc": documents[name], "unit_id": name} for name in units],
    }


def ideal_text(statements: Iterable[Row], grades: Mapping[str, str]) -> str:
    """Write the ideal answer: one paragraph a grade, which names its evidence; ungraded last."""
    paragraphs: dict[str, list[str]] = {}
    for each in statements:
        paragraphs.setdefault(_best(each["unit_ids"], grades), []).append(each["text"])
    return "\n\n".join(
        f"{_named(grade)}: {' '.join(texts)}" for grade, texts in sorted(paragraphs.items())
    )


def _best(units: Iterable[str], grades: Mapping[str, str]) -> str:
    """The highest grade of some windows; UNGRADED, which sorts last, if none has one."""
    return min((grades[name] or UNGRADED for name in units if name in grades), default=UNGRADED)


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


_WORD = re.compile(r"\w+")
_KEPT = (
    "query_id", "condition", "task_kind", "grade", "certainty", "track", "seed_rank", "split",
    "seed", "counts", "model",
)  # fmt: skip
_SPAN = ("doc", "doc_id", "unit_id", "grade", "support", "relevance", "char_start", "char_end")
_NEEDED = ("query_id", "text", "gold", "nuggets", "statements")


def public_row(row: Row, windows: Sequence[str], most: int | None) -> tuple[Row | None, list[str]]:
    """Remove window text from a line of the benchmark; returns the line and the withheld fields.

    Gold windows become spans with the sha256 of their quote. A text that shares more than `most`
    consecutive words with one of `windows` is withheld (None: no limit); if that text is the
    question, the whole row is. Models write reasons from the window, so these are left out.
    """
    copied = _Copied(windows, most)
    if copied(row["text"]):
        return None, ["question"]
    withheld = [name for name in ("exact_answer", "ideal_answer") if copied(row[name])]
    parts = {
        name: [each for each in row[name] if not copied(each["text"])]
        for name in ("nuggets", "statements")
    }
    withheld += [name for name, kept in parts.items() for _ in range(len(row[name]) - len(kept))]
    picot = {part: None if text and copied(text) else text for part, text in row["picot"].items()}
    withheld += [f"picot.{part}" for part, text in row["picot"].items() if text != picot[part]]
    return {
        **{name: row[name] for name in _KEPT if name in row},
        "text": row["text"],
        "picot": picot,
        **{n: "" if n in withheld else row[n] for n in ("exact_answer", "ideal_answer")},
        **parts,
        "gold": [
            {**{name: gold[name] for name in _SPAN}, "sha256": quote_sha256(gold["quote"])}
            for gold in row["gold"]
        ],
        "withheld": withheld,
    }, withheld


class _Copied:
    """Tests if a text shares more than a number of consecutive words with a window."""

    def __init__(self, windows: Sequence[str], most: int | None) -> None:
        self.size = None if most is None else most + 1
        self.known = {run for text in windows for run in self._runs(text)}

    def __call__(self, text: str) -> bool:
        return any(run in self.known for run in self._runs(text))

    def _runs(self, text: str) -> Iterator[tuple[str, ...]]:
        words = _WORD.findall(text.casefold())
        if self.size is not None:
            yield from (
                tuple(words[start : start + self.size])
                for start in range(len(words) - self.size + 1)
            )


def quote_sha256(quote: str) -> str:
    """Return the sha256 of a quote, by which a restored span is checked."""
    return hashlib.sha256(quote.encode("utf-8", "surrogatepass")).hexdigest()


def read_public(path: Path) -> list[Row]:
    """Read a public benchmark; raises ValueError that names an invalid line."""
    rows = []
    for place, row in json_lines.rows(path, "a public question", _NEEDED):
        try:
            fault = _public_fault(row["gold"])
        except TypeError as error:
            raise ValueError(f"{place}: not a public question ({error})") from error
        if fault:
            raise ValueError(f"{place}: not a public question ({fault})")
        rows.append(row)
    return rows


def _public_fault(spans: Sequence[Mapping[str, Any]]) -> str:
    """Say what the gold of a line lacks, "" if it is complete."""
    for gold in spans:
        if missing := next((name for name in (*_SPAN, "sha256") if name not in gold), ""):
            return f"{missing!r} of gold is missing"
        if not all(type(gold[name]) is int and gold[name] >= 0 for name in _SPAN[-2:]):
            return "a span of gold is no pair of numbers"
    return ""


def rebuilt(rows: Sequence[Row], texts: Mapping[str, str]) -> tuple[list[Row], Counter[str]]:
    """Restore the quotes of a benchmark from the texts of documents, keyed by their corpus id.

    Gold without its document (`document_missing`) or with another text at its span
    (`text_differs`) is left out and counted; so is a question without gold (`without_gold`).
    """
    lost: Counter[str] = Counter()
    found = []
    for row in rows:
        gold = []
        for each in row["gold"]:
            text = texts.get(each["doc"])
            quote = "" if text is None else text[each["char_start"] : each["char_end"]]
            if text is None:
                lost["document_missing"] += 1
            elif quote_sha256(quote) != each["sha256"]:
                lost["text_differs"] += 1
            else:
                kept: dict[str, Any] = {k: v for k, v in each.items() if k != "sha256"}
                gold.append({**kept, "quote": quote})
        if gold:
            found.append({**row, "gold": gold})
        else:
            lost["without_gold"] += 1
    return found, lost
