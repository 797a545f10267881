"""Which part of a graph is shown, and the sentences of its mentions, quoted for readers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.units import Units
from srrag.export.graph import GRADES, Graph, Ints
from srrag.reading.prose import sentence_spans

_NEAREST = 3
_CANDIDATES = 300


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Entities by descending importance in the selection, and a description in words.

    `centres` are the entities that were asked for by name.
    """

    rows: Ints
    title: str
    note: str
    centres: Ints


def select_community(graph: Graph, wanted: str = "") -> Selection:
    """The members of a community, by its id or the beginning of it; the largest for "".

    Raises ValueError for an id that no community or more than one has.
    """
    sizes = np.bincount(graph.community[graph.community >= 0], minlength=len(graph.community_ids))
    if not len(sizes):
        raise ValueError("this build has no communities; name an entity (entity=NAME)")
    order = np.argsort(-sizes, kind="stable")
    found = [int(n) for n in order if graph.community_ids[n].startswith(wanted)]
    if not found or (wanted and len(found) > 1):
        some = ", ".join(
            f"{graph.community_ids[n]} ({sizes[n]})" for n in (found or order)[:_NEAREST]
        )
        fault = f"names {len(found)} communities" if found else "is no community"
        raise ValueError(f"community={wanted} {fault}; the largest (with size): {some}")
    rows = np.flatnonzero(graph.community == found[0]).astype(np.int64)
    ranked = _ranked(graph, rows)
    return Selection(
        rows=ranked,
        title=f"Community “{graph.topics.names[found[0]]}”",
        note=f"community {graph.community_ids[found[0]][:12]}",
        centres=np.zeros(0, np.int64),
    )


def select_entity(graph: Graph, name: str, hops: int = 1) -> Selection:
    """The entities of that name, of whatever type, and all within `hops` edges of them.

    Values of attributes are meant only if no entity has the name. Raises ValueError that gives
    the three nearest names if nothing has it.
    """
    if hops < 0:
        raise ValueError(f"hops={hops}: at least 0")
    names = pa.concat_tables([table for _, table in graph.entity_batches()])["name"]
    keys, key = folded(names), folded(pa.chunked_array([[name]]))[0]
    centres = np.flatnonzero(pc.equal(keys, key).to_numpy())
    entities = centres[~graph.attribute_nodes()[centres]]
    centres = entities if len(entities) else centres
    if not len(centres):
        held = names.filter(pc.match_substring(keys, key.as_py()))
        order = pc.sort_indices(pc.utf8_length(held))
        found = [*pc.unique(held.take(order)).to_pylist(), *nearest(names, keys, key.as_py())]
        near = ", ".join(map(repr, list(dict.fromkeys(found))[:_NEAREST])) or "none"
        raise ValueError(f"entity={name}: there is no entity of this name; nearest: {near}")
    return around(graph, centres, str(names[int(centres[0])]), hops)


def around(graph: Graph, centres: Ints, name: str, hops: int = 1) -> Selection:
    """All entities within `hops` edges of the centres, the nearest first."""
    distance = np.full(len(graph.ids), np.iinfo(np.int64).max)
    distance[centres] = 0
    for step in range(1, hops + 1):
        reached = distance < step
        ends = np.concatenate(
            [graph.tails[reached[graph.heads]], graph.heads[reached[graph.tails]]]
        )
        distance[ends] = np.minimum(distance[ends], step)
    rows = np.flatnonzero(distance <= hops).astype(np.int64)
    ranked = _ranked(graph, rows)
    ranked = ranked[np.argsort(distance[ranked], kind="stable")]
    return Selection(
        rows=ranked,
        title=f"Around “{name}”",
        note=f"within {hops} step{'' if hops == 1 else 's'}",
        centres=centres,
    )


def folded(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Names without differences of case, width and blanks, as entities are merged."""
    lower = pc.utf8_lower(pc.utf8_normalize(names, "NFKC"))
    return pc.utf8_trim(pc.replace_substring_regex(lower, r"\s+", " "), " .,;:")


def nearest(names: pa.ChunkedArray, keys: pa.ChunkedArray, key: str) -> list[str]:
    """The names most like a key: those that share most of its trigrams, then by difflib."""
    trigrams = sorted({key[n : n + 3] for n in range(max(1, len(key) - 2))})[:40]
    shared = np.zeros(len(keys), np.int64)
    for trigram in trigrams:
        shared += pc.match_substring(keys, trigram).to_numpy()
    rows = np.argsort(-shared, kind="stable")[:_CANDIDATES]
    by_key = {keys[int(r)].as_py(): names[int(r)].as_py() for r in rows[::-1] if shared[r]}
    close = difflib.get_close_matches(key, list(by_key), n=_NEAREST, cutoff=0.0)
    return [by_key[item] for item in close]


def _ranked(graph: Graph, rows: Ints) -> Ints:
    """Most edges inside the selection first; equals in the order of their ids."""
    chosen = graph.select(rows)
    edges = chosen.kept_edges
    ends = np.concatenate([graph.heads[edges], graph.tails[edges]])
    degrees = np.bincount(ends, minlength=len(graph.ids))
    order = np.lexsort((np.asarray(graph.ids.take(pa.array(rows))), -degrees[rows]))
    ranked: Ints = rows[order]
    return ranked


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
