"""A corpus drawn at random, part by part: documents, windows, vectors and facts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.schema import DOCUMENTS, TRIPLES, UNITS, VECTORS
from srrag.core.spec import content_id
from srrag.core.stage import Plan, Stage
from srrag.core.step import Function, Place, Step
from srrag.corpus.record import RawRecord

WINDOWS_PER_DOCUMENT, WORDS_PER_WINDOW, FACTS_PER_WINDOW = 4, 60, 2
DIMENSION, TOPICS, VOCABULARY = 384, 2000, 500_000
GRAPH = ("names", "communities", "tree", "graph")
LEFT_OUT = (
    "chunks",
    "extracts",
    "findings",
    "parsed",
    "titles",
    "notices",
    "standing",
    "schema_growth",
)


def words_of(ranks: np.ndarray) -> list[str]:
    """Texts (rows,) of words by their ranks (rows, words): a word is its rank in base 26."""
    flat = ranks.ravel().astype(np.int64)
    letters = np.empty((len(flat), 5), np.uint8)
    for place in range(5):
        letters[:, place] = 97 + flat % 26
        flat //= 26
    letters[:, 4] = 113  # no word is a stop word, or ends in what a stemmer cuts off
    spaced = np.concatenate([letters, np.full((len(letters), 1), 32, np.uint8)], axis=1)
    width = 6 * ranks.shape[1]
    text = spaced.tobytes().decode()
    return [text[start : start + width - 1] for start in range(0, len(text), width)]


def zipf(draw: np.random.Generator, shape: tuple[int, int], least: int = 1) -> np.ndarray:
    """Ranks with probability near 1 / rank, from `least` to the vocabulary's end."""
    found: np.ndarray = np.exp(draw.uniform(math.log(least), math.log(VOCABULARY), shape))
    return found.astype(np.int64)


def drawn(key: str) -> np.random.Generator:
    """The generator of a row: the same for the same key, in any batch."""
    return np.random.default_rng(int(content_id(key)[:16], 16))


def centres() -> np.ndarray:
    """The topics' centres, unit vectors (topics, dimension), the same in every process."""
    found = np.random.default_rng(0).standard_normal((TOPICS, DIMENSION), np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


def about(draw: np.random.Generator, middles: np.ndarray, rows: int) -> np.ndarray:
    """Unit vectors about random topics, float32 (rows, dimension)."""
    noise = draw.standard_normal((rows, DIMENSION), np.float32) / math.sqrt(DIMENSION)
    found = middles[draw.integers(0, TOPICS, rows)] + noise
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found, np.float32)


def packed(matrix: np.ndarray, kind: pa.DataType) -> pa.Array:
    """The rows of a matrix as binary values."""
    return pa.array([row.tobytes() for row in np.ascontiguousarray(matrix)], kind)


@dataclass(frozen=True, kw_only=True)
class DrawnDocuments(Step):
    """RAW → DOCUMENTS with titles."""

    reads: ClassVar[tuple[str, ...]] = ("raw_id", "source", "source_id")
    writes: ClassVar[pa.Schema] = DOCUMENTS

    def open(self, at: Place) -> Function:
        """Draw titles, grades and years."""

        def run(batch: pa.Table) -> pa.Table:
            rows = len(batch)
            draw = drawn(batch["raw_id"][0].as_py())
            same = {name: pa.repeat("", rows) for name in DOCUMENTS.names}
            columns = {
                **same,
                "doc_id": batch["raw_id"], "source": batch["source"],
                "source_id": batch["source_id"], "pmid": batch["source_id"],
                "title": pa.array(words_of(zipf(draw, (rows, 8)))),
                "grade": pa.array(draw.choice(list("ABCDE"), rows, p=[0.05, 0.1, 0.15, 0.1, 0.6])),
                "year": pa.array(draw.integers(1980, 2025, rows), pa.int32()),
                "metadata": pa.repeat("{}", rows), "reject": _none(DOCUMENTS, rows),
            }  # fmt: skip
            return pa.table([columns[name] for name in DOCUMENTS.names], schema=DOCUMENTS)

        return run


@dataclass(frozen=True, kw_only=True)
class DrawnWindows(Step):
    """DOCUMENTS → four windows each, of words as frequent as Zipf has them."""

    reads: ClassVar[tuple[str, ...]] = ("doc_id", "grade")
    writes: ClassVar[pa.Schema] = UNITS
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        """Draw texts."""

        def run(batch: pa.Table) -> pa.Table:
            owners = [d for d in batch["doc_id"].to_pylist() for _ in range(WINDOWS_PER_DOCUMENT)]
            rows, draw = len(owners), drawn(owners[0])
            texts = words_of(zipf(draw, (rows, WORDS_PER_WINDOW)))
            order = np.tile(np.arange(WINDOWS_PER_DOCUMENT, dtype=np.int32), len(batch))
            start = order * (6 * WORDS_PER_WINDOW)
            ids = [content_id(d, str(n)) for d, n in zip(owners, order, strict=True)]
            columns = {
                "unit_id": pa.array(ids), "doc_id": pa.array(owners),
                "view": pa.repeat("window", rows), "parent_id": pa.array(ids),
                "order": pa.array(order), "section": pa.repeat("", rows),
                "char_start": pa.array(start),
                "char_end": pa.array(start + np.int32(6 * WORDS_PER_WINDOW - 1)),
                "text": pa.array(texts),
                "num_tokens": pa.array(np.full(rows, 2 * WORDS_PER_WINDOW, np.int32)),
                "grade": pa.array(np.repeat(batch["grade"].to_numpy(), WINDOWS_PER_DOCUMENT)),
                "repairs": pa.array(np.zeros(rows, np.int32)), "reject": _none(UNITS, rows),
            }  # fmt: skip
            return pa.table([columns[name] for name in UNITS.names], schema=UNITS)

        return run


@dataclass(frozen=True, kw_only=True)
class DrawnVectors(Step):
    """UNITS → VECTORS about the topics' centres, with a few token vectors each."""

    tokens: int = 4
    reads: ClassVar[tuple[str, ...]] = ("unit_id",)
    writes: ClassVar[pa.Schema] = VECTORS

    def open(self, at: Place) -> Function:
        """Draw vectors."""
        middles = centres()

        def run(batch: pa.Table) -> pa.Table:
            rows, draw = len(batch), drawn(batch["unit_id"][0].as_py())
            vectors = about(draw, middles, rows)
            values = draw.integers(-127, 128, (rows, self.tokens * DIMENSION), np.int8)
            scales = np.full((rows, self.tokens), 1 / 1500, np.float16)
            columns = [
                batch["unit_id"], pa.array(draw.integers(0, 2**63, rows).astype(np.uint64)),
                packed(vectors, pa.binary()), packed(values, pa.large_binary()),
                packed(scales, pa.binary()), pa.repeat(False, rows), _none(VECTORS, rows),
            ]  # fmt: skip
            return pa.table(columns, schema=VECTORS)

        return run


@dataclass(frozen=True, kw_only=True)
class DrawnFacts(Step):
    """UNITS → TRIPLES: facts of a topic's concepts, of which there are as many as `windows` / 4."""

    windows: int
    reads: ClassVar[tuple[str, ...]] = ("unit_id", "doc_id", "char_start", "grade")
    writes: ClassVar[pa.Schema] = TRIPLES
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        """Draw facts, the concepts of a topic about as often as each other."""

        def run(batch: pa.Table) -> pa.Table:
            rows = FACTS_PER_WINDOW * len(batch)
            draw = drawn("facts" + batch["unit_id"][0].as_py())
            head = draw.integers(0, max(40, self.windows // 4), rows)
            near = head - head % 40 + draw.integers(0, 40, rows)  # topics of 40
            far = draw.integers(0, max(40, self.windows // 4), rows)
            tail = np.where(draw.random(rows) < 0.8, near, far)
            owner = pa.array(np.repeat(np.arange(len(batch)), FACTS_PER_WINDOW))
            start = batch["char_start"].take(owner).combine_chunks()
            ids = [content_id(str(n)) for n in draw.integers(0, 2**63, rows)]
            columns = {
                "fact_id": pa.array(ids), "doc_id": batch["doc_id"].take(owner),
                "unit_id": batch["unit_id"].take(owner), "kind": pa.repeat("relation", rows),
                "head": pa.array(concepts(head)), "head_type": pa.repeat("intervention", rows),
                "relation": pa.repeat("improves", rows), "tail": pa.array(concepts(tail)),
                "tail_type": pa.repeat("outcome", rows), "char_start": start,
                "char_end": pa.array(start.to_numpy() + np.int32(5)),
                "quote": pa.repeat("", rows), "confidence": pa.array(np.ones(rows, np.float32)),
                "grade": batch["grade"].take(owner), "reject": _none(TRIPLES, rows),
            }  # fmt: skip
            return pa.table([columns[name] for name in TRIPLES.names], schema=TRIPLES)

        return run


def concepts(numbers: np.ndarray) -> list[str]:
    """A name of two words for each number: one of its topic, one of its own."""
    return words_of(np.stack([numbers // 40 + 1000, numbers + 30_000], axis=1))


def _none(schema: pa.Schema, rows: int) -> pa.Array:
    return pa.nulls(rows, schema.field("reject").type)


def plan_of(root: Path, windows: int, tokens: int, graph: bool) -> Plan:
    """The plan of a graph with its steps drawn, and without titles' vectors."""
    gone = LEFT_OUT if graph else (*LEFT_OUT, *GRAPH)
    overrides = [f"root={root}", "plan=graph", "corpus.title=none"]
    overrides += [f"stages.{name}=null" for name in gone]
    overrides += ["stages.documents.inputs=[raw]", "stages.windows.inputs=[documents]"]
    overrides += ["stages.triples.inputs=[windows]"]
    config = configure("build", overrides)
    plan = factory.plan(config, factory.make(config["corpus"], "corpus"))
    steps = {
        "documents": DrawnDocuments(), "windows": DrawnWindows(),
        "vectors": DrawnVectors(tokens=tokens), "triples": DrawnFacts(windows=windows),
    }  # fmt: skip
    stages = [Stage(s.name, steps[s.name], s.inputs) if s.name in steps else s for s in plan.stages]
    return Plan("raw", "drawn", stages)


def records(first: int, last: int) -> Iterator[RawRecord]:
    """Records by number."""
    for number in range(first, last):
        yield RawRecord(f"drawn:{number}", str(number), "json", str(number).encode())
