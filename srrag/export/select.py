"""Which entities to show: a community, or what lies around an entity."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.export.graph import Graph, Ints

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
