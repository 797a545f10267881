"""The hypergraph of EbmKG: entities, topics over them, the evidence of each topic.

Everything is numbered by content, whatever the order of the parts, so an updated build equals one
from nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from srrag.algo.terms import STOPWORDS
from srrag.core.step import IncrementalBuild, Place, PreviousVersion
from srrag.index.graph import WindowSpans
from srrag.index.parts import unpack_vectors
from srrag.llm.completion import Engine, Rules
from srrag.llm.describe import DESCRIPTIONS, answers_of, write_descriptions
from srrag.model.encoder import Encoder
from srrag.reading.vocabulary import Vocabulary, key, tokens_of
from srrag.storage.manifest import read_live
from srrag.storage.mapped_table import map_table, save_table
from srrag.systems.ideprag.hypergraph import (
    ALIASES,
    ENTITIES,
    EVIDENCE,
    EVIDENCE_VECTORS,
    GRAM,
    MEMBERS,
    NAME_VECTORS,
    TOPIC_VECTORS,
    TOPICS,
    WEIGHTS,
    HyperTopics,
    topic_weights,
    topics_of,
)
from srrag.systems.ideprag.topic_summaries import PROMPT, known_descriptions, summarise

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

_FINDING = ("evidence_id", "doc_id", "unit_id", "keyword", "label", "text", "char_start",
            "char_end", "entities")  # fmt: skip
_BLOCK = 1 << 18


@dataclass(frozen=True, kw_only=True)
class BuildHypergraph(IncrementalBuild):
    """Writes entities, topics of at least `least` pieces, weights and vectors (Eq. 3 to 6).

    With `grams` (least, most), words and pairs of neighbouring words that occur in so many
    documents are entities, too: rules know no other name for what the vocabulary lacks. The paper
    does not have this.

    A topic's text is "entity: label" with its most central piece of evidence, or with a summary of
    all of it by the `engine` (Eq. 4), in portions of at most `max_chars`; without an answer, the
    former. Its vector is the normalised mean of its pieces' vectors. Names of the vocabulary or of
    a model are encoded one by one, because a batch could change the last bits of a vector. An
    update encodes new names and summarises topics of new evidence only. `aliases` are all names
    that the vocabulary has for an entity.
    """

    encoder: Encoder
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    grams: tuple[int, int] | None = (2, 250)
    least: int = 2
    findings: str = "keyword_findings"
    vectors: str = "finding_vectors"
    windows: str = "windows"
    units: str = "text_units"
    engine: Engine = field(default_factory=Rules)
    max_chars: int = 12_000
    again: int = 1
    version: ClassVar[int] = 4

    def __post_init__(self) -> None:
        """Raise ValueError for impossible bounds."""
        if self.least < 1:
            raise ValueError(f"least is {self.least}: a topic has one piece of evidence at least")
        if self.max_chars < 2_000:
            raise ValueError(f"max_chars is {self.max_chars}: it has to be 2000 or more")
        if self.grams is not None:
            object.__setattr__(self, "grams", tuple(self.grams))
            if len(self.grams) != 2 or not 1 <= self.grams[0] <= self.grams[1]:
                raise ValueError(f"grams is {self.grams}: the least and most documents, or null")

    def identity(self) -> dict[str, Any]:
        """The sha256 of the prompt file, if a model is asked."""
        if isinstance(self.engine, Rules):
            return {}
        return {PROMPT.path.name: hashlib.sha256(PROMPT.path.read_bytes()).hexdigest()}

    def write(
        self,
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        at: Place,
        former: PreviousVersion | None,
    ) -> dict[str, float | int | str]:
        """Write the files, calling models for new names and evidence only.

        Raises ValueError if there is no finding.
        """
        before = former.folder if former else None
        findings = _joined(inputs[self.findings], _FINDING)
        if not findings.num_rows:
            raise ValueError("there is no finding to make a hypergraph of")
        findings = _each_once(findings)
        names, pairs = self._entities(findings)
        labels, label = np.unique(np.asarray(findings["label"].to_pylist()), return_inverse=True)
        topics = topics_of(pairs[0], pairs[1], label.astype(np.int64), self.least)
        shape = (findings.num_rows, names.num_rows)
        weights = topic_weights(topics, *pairs, shape)
        vectors = _vectors(inputs[self.vectors], findings["evidence_id"].combine_chunks())
        centres, central = _centres(topics, vectors)
        save_graph(out, topics, weights)
        save_table(names, out / ENTITIES)
        table, asked = _topic_table(topics, names, labels, findings, central), {}
        if (client := at.client(self.engine)) is not None:
            heads = list(zip(*(table[each].to_pylist() for each in ("name", "label")), strict=True))
            told = summarise(
                topics, heads, findings, central, answers_of(client, self.again), self.max_chars,
                known_descriptions(before),
            )  # fmt: skip
            write_descriptions(out / DESCRIPTIONS, told.by_key)
            table, asked = told.instead(table), told.figures()
        save_table(table.drop_columns(["name"]), out / TOPICS)
        save_table(self._evidence(findings, inputs), out / EVIDENCE)
        np.save(out / EVIDENCE_VECTORS, vectors)
        np.save(out / TOPIC_VECTORS, centres)
        made = self._write_names(names, out, at, before)
        covered = len(np.unique(topics.members))
        return {
            "evidence": findings.num_rows,
            "entities": names.num_rows,
            "topics": len(topics),
            "weights": int(weights.nnz),
            "covered_share": round(covered / findings.num_rows, 4),
            "names_encoded": made,
            **asked,
        }

    def _entities(self, findings: pa.Table) -> tuple[pa.Table, tuple[Ints, Ints]]:
        """The entities by name, and the distinct pairs (evidence, entity), by evidence."""
        lists = findings["entities"].combine_chunks()
        owner = np.asarray(pc.list_parent_indices(lists)).astype(np.int64)
        flat = pc.list_flatten(lists)
        told = [pc.struct_field(flat, name).to_pylist() for name in ("name", "type", "mesh")]
        known: dict[str, tuple[str, str, str]] = {}
        keys = [key(name) or name for name in told[0]]
        for name, row in sorted(zip(keys, zip(*told, strict=True), strict=True)):
            known.setdefault(name, row)
        grams, pairs = self._grams(findings)
        for name in grams:
            known.setdefault(name, (name, GRAM, ""))
        order = {name: place for place, name in enumerate(sorted(known, key=lambda n: known[n]))}
        first = np.concatenate([owner, pairs[0]])
        second = [order[name] for name in keys] + [order[grams[n]] for n in pairs[1].tolist()]
        both = np.unique(np.stack([first, np.array(second, np.int64)]), axis=1)
        rows = sorted((known[name], name) for name in order)
        columns = {
            name: [row[n] for row, _ in rows] for n, name in enumerate(("name", "type", "mesh"))
        }
        table = pa.table({**columns, "key": [name for _, name in rows]})
        return table, (both[0], both[1])

    def _grams(self, findings: pa.Table) -> tuple[list[str], tuple[Ints, Ints]]:
        """Words and pairs of words of the corpus, and the distinct pairs (evidence, gram)."""
        none = np.zeros(0, np.int64)
        if self.grams is None:
            return [], (none, none)
        texts, documents = findings["text"].to_pylist(), findings["doc_id"].to_pylist()
        found = [grams_of(text) for text in texts]
        seen: dict[str, set[str]] = {}
        for grams, document in zip(found, documents, strict=True):
            seen.setdefault(document, set()).update(grams)
        counts = Counter(gram for grams in seen.values() for gram in grams)
        low, high = self.grams
        kept = sorted(gram for gram, n in counts.items() if low <= n <= high)
        number = {gram: n for n, gram in enumerate(kept)}
        rows = [[number[gram] for gram in grams if gram in number] for grams in found]
        owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        flat = np.array([n for row in rows for n in row], np.int64)
        return kept, (owner.astype(np.int64), flat)

    def _evidence(self, findings: pa.Table, inputs: Mapping[str, Sequence[Path]]) -> pa.Table:
        """The findings, each with the window that shows most of it."""
        columns = ("unit_id", "doc_id", "char_start", "char_end")
        windows, units = (
            _joined(inputs[self.windows], columns),
            _joined(inputs[self.units], columns),
        )
        whole = units.take(
            pc.index_in(findings["unit_id"], value_set=units["unit_id"].combine_chunks())
        )
        start = _ints(findings["char_start"])
        lacks = start < 0
        low = np.where(lacks, _ints(whole["char_start"]), start)
        high = np.where(lacks, _ints(whole["char_end"]), _ints(findings["char_end"]))
        spans = WindowSpans(
            windows["doc_id"].combine_chunks(),
            _ints(windows["char_start"]),
            _ints(windows["char_end"]),
        )
        piece, window = spans.overlapping(findings["doc_id"].combine_chunks(), low, high)
        first, last = _ints(windows["char_start"])[window], _ints(windows["char_end"])[window]
        shared = np.minimum(high[piece], last) - np.maximum(low[piece], first)
        order = np.lexsort((first, -shared, piece))
        owner, best = np.unique(piece[order], return_index=True)
        chosen = np.full(findings.num_rows, -1)
        chosen[owner] = window[order][best]
        taken = windows["unit_id"].take(pa.array(chosen, mask=chosen < 0))
        shown = findings.drop_columns(["entities"])
        return shown.append_column("window_id", pc.fill_null(taken, "").combine_chunks())

    def _write_names(self, names: pa.Table, out: Path, at: Place, former: Path | None) -> int:
        """Write the vectors of named entities, and the aliases; returns the number encoded."""
        rows = names.select(["name", "type"]).to_pylist()
        named = [row["name"] for row in rows if row["type"] != GRAM]
        known = _former_names(former)
        new = [name for name in named if name not in known]
        if new:
            from srrag.model.embed import load

            encoder = load(self.encoder, at.device, at.threads)
            known |= {name: encoder.encode([name])[0] for name in new}
        matrix = [known[name] for name in named]
        np.save(out / NAME_VECTORS, np.array(matrix or np.zeros((0, 1)), np.float32))
        place = {row["name"]: n for n, row in enumerate(rows) if row["type"] != GRAM}
        terms = self.vocabulary.open().names
        aliases = sorted((name, place[t.name]) for name, t in terms.items() if t.name in place)
        columns = {"key": [name for name, _ in aliases], "entity": [n for _, n in aliases]}
        schema = pa.schema([("key", pa.string()), ("entity", pa.int64())])
        save_table(pa.table(columns, schema=schema), out / ALIASES)
        return len(new)


def grams_of(text: str) -> list[str]:
    """The content words of a text, and pairs of neighbours, each once, normalised by `key`."""
    words = tokens_of(text)
    kept = [w if w not in STOPWORDS and len(w) > 2 and not w.isdigit() else "" for w in words]
    pairs = (sorted(pair) for pair in pairwise(kept) if all(pair))
    return list(dict.fromkeys([*filter(None, kept), *map(" ".join, pairs)]))


def save_graph(out: Path, topics: HyperTopics, weights: sparse.csr_array) -> None:
    """Write the arrays of the graph: members of topics, and weights by topic."""
    for name, array in zip(MEMBERS, (topics.members, topics.offsets), strict=True):
        np.save(out / name, array)
    parts = (weights.data, weights.indices.astype(np.int32), weights.indptr.astype(np.int64))
    for name, part in zip(WEIGHTS, parts, strict=True):
        np.save(out / name, part)


def _centres(topics: HyperTopics, vectors: Floats) -> tuple[npt.NDArray[np.float16], Ints]:
    """The normalised mean of each topic's vectors, and its most central piece of evidence."""
    centres = np.zeros((len(topics), vectors.shape[1]), np.float16)
    central = np.zeros(len(topics), np.int64)
    ends = np.searchsorted(topics.offsets, np.arange(_BLOCK, len(topics.members) + _BLOCK, _BLOCK))
    start = 0
    for end in np.unique(np.minimum(ends, len(topics))).tolist():
        first = topics.offsets[start : end + 1] - topics.offsets[start]
        members = topics.members[topics.offsets[start] : topics.offsets[end]]
        if len(members):
            mine = vectors[members]
            sums = np.add.reduceat(mine, first[:-1], axis=0)
            unit = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
            owner = np.repeat(np.arange(end - start), np.diff(first))
            near = np.round(np.einsum("ij,ij->i", mine, unit[owner]), 5)
            order = np.lexsort((members, -near, owner))
            centres[start:end] = unit
            central[start:end] = members[order][first[:-1]]
        start = end
    return centres, central


def _topic_table(
    topics: HyperTopics,
    names: pa.Table,
    labels: npt.NDArray[Any],
    findings: pa.Table,
    central: Ints,
) -> pa.Table:
    entity = names["name"].take(pa.array(topics.entity))
    label = pa.array(labels[topics.label].tolist(), pa.string())
    text = findings["text"].take(pa.array(central))
    told = pc.binary_join_element_wise(
        pc.binary_join_element_wise(entity.combine_chunks(), label, ": "),
        text.combine_chunks(),
        ". ",
    )
    columns = {"entity": topics.entity, "label": label, "text": told, "central": central}
    return pa.table({**columns, "name": entity})


def _joined(paths: Sequence[Path], columns: Sequence[str]) -> pa.Table:
    return pa.concat_tables(read_live(paths, columns))


def _each_once(findings: pa.Table) -> pa.Table:
    """The findings by id; units overlap, and what two of them tell is one piece of evidence."""
    order = [("evidence_id", "ascending"), ("unit_id", "ascending")]
    found = findings.take(pc.sort_indices(findings, sort_keys=order))
    ids = found["evidence_id"]
    another = np.asarray(pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1)))
    return found.filter(pa.array(np.concatenate([[True], another])))


def _ints(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column, np.int64)


def _vectors(paths: Sequence[Path], ids: pa.Array) -> Floats:
    """The vectors of the findings in their order; raises ValueError if one is missing."""
    found: Floats = np.zeros((0, 0), np.float32)
    seen = np.zeros(len(ids), np.bool_)
    for table in read_live(paths, ("evidence_id", "vector")):
        row = pc.index_in(table["evidence_id"], value_set=ids).combine_chunks()
        kept = table.filter(row.is_valid())
        if kept.num_rows:
            matrix = unpack_vectors(kept["vector"])
            if not len(found):
                found = np.zeros((len(ids), matrix.shape[1]), np.float32)
            place = np.asarray(row.drop_null())
            found[place], seen[place] = matrix, True
    if not seen.all():
        raise ValueError(f"{np.count_nonzero(~seen)} findings have no vector; run the build again")
    return found


def _former_names(former: Path | None) -> dict[str, Floats]:
    if former is None or not (former / ENTITIES).is_file():
        return {}
    rows = map_table(former / ENTITIES).select(["name", "type"]).to_pylist()
    named = [row["name"] for row in rows if row["type"] != GRAM]
    return dict(zip(named, np.load(former / NAME_VECTORS), strict=True))
