"""Merge synonyms into one entity each; an optional stage that leaves its inputs unchanged.

`synonyms.parquet` maps each merged entity to its canonical one. The paper merges none (§3 of
sr-rag), so a build includes this stage only on request.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.ids import content_id, file_sha256
from srrag.core.ontology import DOCUMENT
from srrag.core.schema import non_null
from srrag.core.spec import place_field
from srrag.core.step import Build, Place
from srrag.graph.facts import (
    ENDS,
    LINKS,
    LOCAL_TYPES,
    entity_id,
    hashed_ids,
    is_general,
    normalise,
)
from srrag.graph.grouping import group_ends, group_links, ungroup
from srrag.graph.partition import read_rows, write_rows
from srrag.model.encoder import Encoder
from srrag.reading.abbreviations import read_abbreviations
from srrag.reading.vocabulary import Matcher, Vocabulary, key, tokens_of

SYNONYMS = non_null(
    ("entity_id", pa.string()),
    ("canonical_id", pa.string()),
    ("canonical", pa.string()),
    ("score", pa.float32()),
)
_COLUMNS = ["type", "name", "canonical"]
_TELLING = re.compile(r"\d+(?:\.\d+)?|\b(?:no|non|not|without|never)\b")
_SHORT = re.compile(r"(?P<long>[^()]{4,200}) \((?P<short>[^()\s]{2,12})\)")
_ORDERED = frozenset((
    "high", "low", "more", "less", "left", "right", "upper", "lower", "pre", "post", "to", "versus",
))  # fmt: skip
"""Words whose position in a name distinguishes meanings."""
_BLOCK_ROWS = 1024
_SCORE_DECIMALS = 5


@dataclass(frozen=True, kw_only=True)
class MergeSynonyms(Build):
    """ENTITIES and EDGES → SYNONYMS, and both tables with canonical entities only.

    Synonyms come from one source: a CSV `file` (type, name, canonical); an `encoder`, for names of
    one type whose vectors have a cosine of at least `threshold`; or a `vocabulary`, for names of
    one type with the same heading, or with the same words in any order, number and spelling. With a
    vocabulary, the stage `abbreviations` writes short forms out first. Attribute values are never
    merged, and vectors never merge names that differ in a number or a negation.
    """

    file: str = place_field("")
    encoder: Encoder | None = None
    threshold: float = 0.95
    vocabulary: Vocabulary | None = None
    abbreviations: str = ""
    entities: str = "entities"

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one source of synonyms is given."""
        given = bool(self.file), self.encoder is not None, self.vocabulary is not None
        if sum(given) != 1:
            raise ValueError("synonyms: give one of file, encoder and vocabulary")
        if self.abbreviations and self.vocabulary is None:
            raise ValueError("synonyms: abbreviations need a vocabulary")

    def identity(self) -> dict[str, Any]:
        """Return the hash of the file's content."""
        return {"file": file_sha256(Path(self.file))} if self.file else {}

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `synonyms.parquet`, `entities.parquet` and `edges.parquet`."""
        (folder,) = inputs[self.entities]
        entities = read_rows(folder / "entities.parquet")
        edges = read_rows(folder / "edges.parquet")
        if self.file:
            synonyms = read_synonyms(Path(self.file))
            synonyms = synonyms.filter(
                pc.is_in(synonyms["entity_id"], _flat(entities["entity_id"]))
            )
        elif self.vocabulary is not None:
            short = inputs[self.abbreviations][0] if self.abbreviations else None
            synonyms = self._same(entities, edges, self.vocabulary.open(), short)
        else:
            synonyms = self._near(entities, edges, at)
        pq.write_table(synonyms, out / "synonyms.parquet")
        nodes = merge_nodes(entities, synonyms)
        links = merge_links(edges, synonyms)
        return {
            "synonyms": synonyms.num_rows,
            "entities": write_rows(out / "entities.parquet", [nodes], "entities"),
            "edges": write_rows(out / "edges.parquet", [links], "edges"),
        }

    def _same(
        self, entities: pa.Table, edges: pa.Table, matcher: Matcher, short: Path | None
    ) -> pa.Table:
        """Find synonyms by heading or words; the canonical name is the most mentioned."""
        long = read_abbreviations(short) if short else {}
        entities = _by_mentions(entities, edges)
        first: dict[tuple[str, str], int] = {}
        rows, heads = [], []
        names, kinds = entities["name"].to_pylist(), entities["type"].to_pylist()
        for row, (kind, name) in enumerate(zip(kinds, names, strict=True)):
            words = name_key(written_out(name, long))
            if kind == DOCUMENT or not words:
                continue
            term = matcher.names.get(words)
            leader = first.setdefault((kind, term.mesh if term else words), row)
            if leader != row:
                rows.append(row)
                heads.append(leader)
        leaders_of = entities.take(pa.array(heads, pa.int64()))
        ids = entities["entity_id"].take(pa.array(rows, pa.int64()))
        score = pa.repeat(pa.scalar(1.0, pa.float32()), len(rows))
        columns = [ids, leaders_of["entity_id"], leaders_of["name"], score]
        return pa.table(columns, schema=SYNONYMS).sort_by("entity_id")

    def _near(self, entities: pa.Table, edges: pa.Table, at: Place) -> pa.Table:
        """Find synonyms by the vectors of names; the canonical name is the most mentioned."""
        from srrag.model.embed import load

        assert self.encoder is not None
        model = load(self.encoder, at.device, at.threads)
        entities = _by_mentions(entities, edges)
        names = entities["name"].to_pylist()
        groups = defaultdict(list)
        for row, (kind, name) in enumerate(zip(entities["type"].to_pylist(), names, strict=True)):
            groups[kind, tells_apart(name)].append(row)
        vectors = np.asarray(model.encode(names), np.float32)
        found = [SYNONYMS.empty_table()]
        for rows in map(np.array, groups.values()):
            leader, score = leaders(vectors[rows], self.threshold)
            follows = np.flatnonzero(leader != np.arange(len(leader)))
            heads = entities.take(pa.array(rows[leader[follows]]))
            ids = entities["entity_id"].take(pa.array(rows[follows]))
            columns = [ids, heads["entity_id"], heads["name"], pa.array(score[follows])]
            found.append(pa.table(columns, schema=SYNONYMS))
        return pa.concat_tables(found).sort_by("entity_id")


def _by_mentions(entities: pa.Table, edges: pa.Table) -> pa.Table:
    """The entities that may be merged, the most mentioned first."""
    values = edges.filter(pc.equal(edges["kind"], "attribute"))["tail_id"]
    entities = entities.filter(pc.invert(pc.is_in(entities["entity_id"], _flat(values))))
    entities = entities.filter(pc.invert(pc.is_in(entities["type"], pa.array(LOCAL_TYPES))))
    general = [is_general(name) for name in entities["name"].to_pylist()]
    entities = entities.filter(pc.invert(pa.array(general, pa.bool_())))
    counts = pc.list_value_length(_flat(entities["mentions"]))
    order = [("mentioned", "descending"), ("entity_id", "ascending")]
    return entities.append_column("mentioned", counts).sort_by(order)


def written_out(name: str, long: Mapping[str, str]) -> str:
    """A name without its abbreviation: `long` for a short form alone, "long form (LF)" without it.

    The bracket has to hold a short form that the corpus defines.
    """
    if name in long:
        return long[name]
    found = _SHORT.fullmatch(name)
    return found["long"] if found and found["short"] in long else name


def name_key(name: str) -> str:
    """The words of a name, normalised; in any order, unless it tells high from low and the like."""
    words = key(name)
    return " ".join(tokens_of(name)) if _ORDERED & set(words.split(" ")) else words


def tells_apart(name: str) -> tuple[str, ...]:
    """Return the numbers and negations of a name; names that differ in them are never synonyms."""
    return tuple(sorted(_TELLING.findall(normalise(name))))


def leaders(
    vectors: npt.NDArray[np.float32], threshold: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Return the leader of each row, the row itself or an earlier one, and its cosine with it.

    `vectors` (rows, dim) have unit length and are in the order of precedence. A row follows the
    most similar leader with a cosine of at least `threshold`. Rows join leaders, never each other,
    so no chain of similar names connects dissimilar ones.
    """
    leader = np.arange(len(vectors))
    best = np.ones(len(vectors), np.float32)
    for first in range(0, len(vectors), _BLOCK_ROWS):
        block = vectors[first : first + _BLOCK_ROWS]
        scores = np.round(block @ vectors[: first + len(block)].T, _SCORE_DECIMALS)
        for row, near in enumerate(scores, start=first):
            close = np.flatnonzero(near[:row] >= threshold)
            close = close[leader[close] == close]
            if len(close):
                leader[row] = close[np.argmax(near[close])]
                best[row] = near[leader[row]]
    return leader, best


def read_synonyms(path: Path) -> pa.Table:
    """Read SYNONYMS from a CSV file; raises ValueError that names the file and the bad line."""
    parents: dict[str, str] = {}
    names: dict[str, str] = {}
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames is None or not set(_COLUMNS) <= set(reader.fieldnames):
            raise ValueError(f"{path}: the first line must name the columns {', '.join(_COLUMNS)}")
        for row in reader:
            kind, name, canonical = (row[column] for column in _COLUMNS)
            if not (kind and name and canonical):
                raise ValueError(f"{path}, line {reader.line_num}: a value is missing")
            child, parent = entity_id(kind, name), entity_id(kind, canonical)
            if parents.setdefault(child, parent) != parent:
                raise ValueError(
                    f"{path}, line {reader.line_num}: {name!r} has two canonical names"
                )
            names.setdefault(parent, canonical)
            if _root(parents, parent) is None:
                raise ValueError(f"{path}, line {reader.line_num}: {name!r} leads back to itself")
    roots = {child: str(_root(parents, child)) for child in sorted(parents)}
    kept = {child: root for child, root in roots.items() if child != root}
    columns = [list(kept), list(kept.values()), [names[root] for root in kept.values()]]
    return pa.table([*columns, pa.repeat(pa.scalar(1.0, pa.float32()), len(kept))], schema=SYNONYMS)


def _root(parents: Mapping[str, str], child: str) -> str | None:
    """Return the last ancestor of an entity; None for a cycle."""
    seen: set[str] = set()
    while (parent := parents.get(child, child)) != child:
        if child in seen:
            return None
        seen.add(child)
        child = parent
    return child


def merge_nodes(entities: pa.Table, synonyms: pa.Table) -> pa.Table:
    """Move the mentions of synonyms to their canonical entities, which keep their names."""
    ends = ungroup(entities, ENDS)
    ids = _mapped(ends["entity_id"], synonyms["entity_id"], synonyms["canonical_id"])
    merged = group_ends(ends.set_column(0, "entity_id", ids))
    # The file's name is used if the graph lacks the canonical entity.
    owners = pa.concat_arrays([_flat(entities["entity_id"]), _flat(synonyms["canonical_id"])])
    names = pa.concat_arrays([_flat(entities["name"]), _flat(synonyms["canonical"])])
    named = pc.take(names, pc.index_in(merged["entity_id"], owners))
    return merged.set_column(1, merged.schema.field("name"), named)


def merge_links(edges: pa.Table, synonyms: pa.Table) -> pa.Table:
    """Redirect EDGES to the canonical entities."""
    links = ungroup(edges, LINKS)
    for side in ("head_id", "tail_id"):
        ids = _mapped(links[side], synonyms["entity_id"], synonyms["canonical_id"])
        links = links.set_column(LINKS.get_field_index(side), side, ids)
    ends = (links[name] for name in ("head_id", "relation", "tail_id"))
    return group_links(links.set_column(0, "edge_id", hashed_ids(content_id, *ends)))


def _mapped(values: pa.ChunkedArray, keys: pa.ChunkedArray, targets: pa.ChunkedArray) -> pa.Array:
    """Replace each value that is a key by its target."""
    found = pc.take(_flat(targets), _flat(pc.index_in(values, _flat(keys))))
    return pc.coalesce(found, _flat(values))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
