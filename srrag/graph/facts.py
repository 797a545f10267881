"""Assign entity and edge ids to facts: TRIPLES → ends and links.

An end is one mention of an entity, a link one mention of an edge. Ids are content hashes, so parts
can be processed separately, on any machine, and still agree.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.ontology import DOCUMENT
from srrag.core.schema import columns
from srrag.core.spec import content_id
from srrag.reading.concepts import GENERAL

_PLACE = columns("unit_id doc_id char_start:int char_end:int")
LOCAL_TYPES = ("Arm", "Timepoint")
"""Types whose entities belong to their document: "week 12" of two trials is not one thing."""
_WORD = re.compile(r"\w+")
KINDS = ("relation", "attribute", "entity")
ENDS = pa.schema(columns("entity_id name type", *_PLACE))
LINKS = pa.schema(columns("edge_id kind head_id relation tail_id confidence:float", *_PLACE))
FACT_COLUMNS = (
    "kind", "head", "head_type", "relation", "tail", "tail_type", "confidence",
    *(field.name for field in _PLACE),
)  # fmt: skip


def normalise(name: str) -> str:
    """Fold case, width and blanks: names of one type with the same result are one entity."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(folded.split()).strip(" .,;:")


def entity_id(kind: str, name: str) -> str:
    """Return the id of an entity, a hash of its type and normalised name."""
    return content_id(kind, normalise(name))


def is_general(name: str) -> bool:
    """Whether a name says nothing outside its document: "control group", "participants"."""
    words = _WORD.findall(normalise(name))
    return bool(words) and all(word in GENERAL or word.isdigit() for word in words)


def attribute_id(owner_id: str, kind: str, value: str) -> str:
    """Return the id of an attribute's value; it includes the entity, so values never merge."""
    return content_id(owner_id, kind, normalise(value))


def key_facts(facts: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the ends and the links of facts as tables, in no particular order.

    A fact of kind `relation` or `attribute` has two ends and a link, one of kind `entity` only a
    head. Entities of LOCAL_TYPES and general names belong to their document. Raises ValueError that
    names any other kind.
    """
    unknown = set(pc.unique(facts["kind"]).to_pylist()) - set(KINDS)
    if unknown:
        raise ValueError(f"column 'kind' holds {min(unknown)!r}; it may hold {', '.join(KINDS)}")
    between, owned, alone = (facts.filter(pc.equal(facts["kind"], kind)) for kind in KINDS)
    # All entities at once: several facts name most of them, and hashing is the slow part.
    named = [_named(between, "head"), _named(between, "tail")]
    entities = pa.concat_tables([*named, _named(owned, "head"), _named(alone, "head")])
    ids = hashed_ids(_id, entities["type"], entities["name"], _owners(entities))
    heads, tails = ids.slice(0, len(between)), ids.slice(len(between), len(between))
    owners = ids.slice(2 * len(between), len(owned))
    values = hashed_ids(attribute_id, owners, owned["tail_type"], owned["tail"])
    ends = pa.concat_tables([entities, _named(owned, "tail")])
    links = [_links(between, heads, tails), _links(owned, owners, values)]
    return (
        pa.table([pa.concat_arrays([ids, values]), *ends.columns], schema=ENDS),
        pa.concat_tables(links),
    )


def _id(kind: str, name: str, doc_id: str) -> str:
    return content_id(doc_id, kind, normalise(name)) if doc_id else entity_id(kind, name)


def _owners(entities: pa.Table) -> pa.Array:
    """The document that an entity belongs to, "" for what all documents share."""
    coded = pc.dictionary_encode(_flat(entities["name"]))
    general = pa.array([is_general(name) for name in coded.dictionary.to_pylist()], pa.bool_())
    own = pc.or_(
        pc.is_in(_flat(entities["type"]), pa.array(LOCAL_TYPES)), general.take(coded.indices)
    )
    shared = pc.equal(_flat(entities["type"]), DOCUMENT)
    return pc.if_else(pc.and_not(own, shared), _flat(entities["doc_id"]), "")


def _named(facts: pa.Table, side: str) -> pa.Table:
    """Return one end of each fact, without its id."""
    place = [facts[field.name] for field in _PLACE]
    return pa.table([facts[side], facts[f"{side}_type"], *place], names=ENDS.names[1:])


def _links(facts: pa.Table, heads: pa.Array, tails: pa.Array) -> pa.Table:
    edges = hashed_ids(content_id, heads, facts["relation"], tails)
    ends = [heads, facts["relation"], tails, facts["confidence"]]
    place = [facts[field.name] for field in _PLACE]
    return pa.table([edges, facts["kind"], *ends, *place], schema=LINKS)


def hashed_ids(make: Callable[..., str], *columns: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return one id for each row, made of its values; each distinct tuple is hashed once."""
    firsts, inverse = distinct(columns)
    tuples = zip(*(column.take(firsts).to_pylist() for column in columns), strict=True)
    return pa.array([make(*values) for values in tuples], pa.string()).take(pa.array(inverse))


def distinct(
    columns: Sequence[pa.Array | pa.ChunkedArray],
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the first row of each distinct tuple, and the number of its tuple for every row."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        coded = pc.dictionary_encode(_flat(column))
        codes = codes * max(1, len(coded.dictionary)) + coded.indices.to_numpy()
    _, firsts, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return pa.array(firsts), inverse.astype(np.int64)


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
