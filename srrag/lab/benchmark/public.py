"""The public benchmark has no window text; the same corpus restores the full one from it."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from srrag.core.rows import Row
from srrag.lab.datasets import json_lines

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
