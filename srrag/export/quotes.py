"""The sentences of a graph's mentions, quoted for readers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.units import Units
from srrag.export.graph import GRADES, Graph
from srrag.reading.sentences import sentence_spans

MAX_CHARS = 360
MAX_MENTIONS = 20
"""Mentions shown for one node or edge; how many more there are is said."""

Row = dict[str, Any]

_MARKS = re.compile(r"\*\*|__|`|\A\s*(?:[-*+•|]|\d{1,3}[.)])[ \t]+")


class ContextQuote(NamedTuple):
    """Text before, of and after a mention, on one line."""

    before: str
    text: str
    after: str


class QuotedPassage(NamedTuple):
    """A window of a document: its span in the document, its section and its text."""

    start: int
    end: int
    section: str
    text: str


class Passages:
    """The windows of some documents."""

    def __init__(self, units: Units, doc_ids: Sequence[str]) -> None:
        """Read the windows of these documents."""
        table = units.units
        mine = pc.is_in(table["doc_id"], value_set=pa.array(doc_ids, pa.string()))
        columns = ["doc_id", "char_start", "char_end", "section", "text"]
        self._windows: dict[str, list[QuotedPassage]] = {}
        for row in table.select(columns).filter(mine).to_pylist():
            passage = QuotedPassage(row["char_start"], row["char_end"], row["section"], row["text"])
            self._windows.setdefault(row["doc_id"], []).append(passage)

    def find(self, doc_id: str, start: int, end: int) -> tuple[ContextQuote, str] | None:
        """The sentence around a span of a document and its section; None if no window has it."""
        best = max(
            self._windows.get(doc_id, ()),
            key=lambda passage: min(end, passage.end) - max(start, passage.start),
            default=None,
        )
        if best is None or best.end <= start or end <= best.start:
            return None
        low, high = max(0, start - best.start), min(len(best.text), end - best.start)
        return quote(best.text, low, high), best.section


def quote(text: str, start: int, end: int) -> ContextQuote:
    """The sentence of `text` around the characters from `start` to `end`, cut where too long."""
    spans = [span for span in sentence_spans(text) if span[0] < end and start < span[1]]
    low, high = (spans[0][0], spans[-1][1]) if spans else (0, len(text))
    low, high = min(low, start), max(high, end)
    room = max(40, (MAX_CHARS - (end - start)) // 2)
    before, after = text[low:start], text[end:high]
    if len(before) > room:
        before = "… " + before[-room:].partition(" ")[2]
    if len(after) > room:
        after = after[:room].rpartition(" ")[0] + " …"
    return ContextQuote(_plain(before), _plain(text[start:end]), _plain(after))


def _plain(text: str) -> str:
    """Without marks of Markdown and on one line; a blank at either end stays one blank."""
    return re.sub(r"\s+", " ", _MARKS.sub("", text))


def with_quotes(graph: Graph, items: Sequence[Row], limit: int = MAX_MENTIONS) -> list[Row]:
    """Put the best-graded distinct sentences in place of the mentions; return the documents.

    An item keeps `limit` sentences; `more` counts the rest. Raises ValueError without units.
    """
    if graph.units is None:
        raise ValueError("stage 'units' is not in this build; a page shows its sentences")
    doc_ids = sorted({m["doc_id"] for item in items for m in item["mentions"]})
    columns = ["doc_id", "title", "source_id", "grade", "year", "pmid"]
    documents: list[Row] = graph.units.take_documents(doc_ids).select(columns).to_pylist()
    for document, standing in zip(documents, graph.standings.find(doc_ids)[0], strict=True):
        document["standing"] = standing
    number = {document["doc_id"]: n for n, document in enumerate(documents)}
    rank = {grade: n for n, grade in enumerate(GRADES)}
    passages = Passages(graph.units, doc_ids)
    for item in items:
        spans = {(m["doc_id"], m["char_start"], m["char_end"]) for m in item["mentions"]}
        sentences: dict[tuple[str, str], Row] = {}
        for doc_id, start, end in sorted(spans):
            found = passages.find(doc_id, start, end)
            if found:
                quoted, section = found
                sentence = {"document": number[doc_id], "quote": list(quoted), "section": section}
                sentences.setdefault((doc_id, "".join(quoted)), sentence)
        ordered = sorted(
            sentences.values(), key=lambda s: rank[documents[s["document"]]["grade"] or "none"]
        )
        item["mentions"] = ordered[:limit]
        item["more"] = max(0, len(ordered) - limit)
    return documents
