"""Papers that a corpus holds more than once: PDF and XML, abstract and full text, preprint."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import networkx
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.ids import content_id
from srrag.storage.mapped_table import id_keys
from srrag.storage.read_live import read_live

_RUN = 5
_WORD = re.compile(r"\w+")
_BASE, _MIX = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)
_SMALL = 1_000
_BITS = np.uint64(61)


class Shingles(NamedTuple):
    """The distinct runs of five words of a text: their number, and their sorted hashes.

    Of a text with over 1,000 an eighth is kept, chosen by hash (FracMinHash; Irber et al. 2022).
    """

    number: int
    hashes: npt.NDArray[np.uint64]


def shingles(text: str) -> Shingles:
    """Hash the runs of five words, whatever their case and the marks between them."""
    words = [zlib.crc32(word.encode()) for word in _WORD.findall(text.casefold())]
    codes = np.array(words, np.uint64)
    count = max(0, len(words) - _RUN + 1)
    runs = np.zeros(count, np.uint64)
    for offset in range(_RUN):
        runs = runs * _BASE + codes[offset : offset + count]
    hashes = np.unique(runs * _MIX)
    return Shingles(len(hashes), _sample(hashes) if len(hashes) > _SMALL else hashes)


def share_within(text: Shingles, other: Shingles) -> float:
    """Share, 0 to 1, of a text's runs that stand in another; 0 for a text too short to tell."""
    hashes = text.hashes if other.number <= _SMALL else _sample(text.hashes)
    return float(np.isin(hashes, other.hashes).mean()) if len(hashes) else 0.0


def _sample(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    kept: npt.NDArray[np.uint64] = hashes[(hashes >> _BITS) == 0]
    return kept


_IN_METADATA = {"doi": r'"doi": "(?P<id>[^"]+)"', "pmcid": r'"pmcid": "(?P<id>[^"]+)"'}
_MOST = 0.5
_LESSER = 0.8
"""Weight of the words of a PDF or preprint: a PDF has running heads, and tables without columns."""


class Document(NamedTuple):
    """A document that shares an id with another one."""

    doc_id: str
    source_id: str
    weight: float
    text: Shingles


def id_columns(table: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield PMIDs, DOIs and PMCIDs of documents, by the name of the id; "" or null for none."""
    yield "pmid", table["pmid"]
    for kind, pattern in _IN_METADATA.items():
        found = pc.struct_field(pc.extract_regex(table["metadata"], pattern), "id")
        yield kind, pc.utf8_lower(found) if kind == "doi" else pc.utf8_upper(found)


def find_works(
    paths: Sequence[Path], gone: Collection[str]
) -> tuple[list[list[tuple[str, str]]], int]:
    """The works that several documents hold, and the number of documents without an id.

    A work is a list of (doc_id, source_id), the richest text first; the others share PMID, PMCID or
    DOI with it, maybe through another one, and it holds most of their text. Documents in `gone`
    are passed over. Memory holds 16 bytes an id, and some hashes of each text that shares one.
    """
    starts, keys, rows, without_id = _ids(paths)
    _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    shared = counts[places] > 1
    graph = networkx.Graph()
    graph.add_edges_from(zip(rows[shared].tolist(), (-1 - places[shared]).tolist(), strict=True))
    texts = _read(paths, starts, np.unique(rows[shared]), gone)
    works = []
    for members in networkx.connected_components(graph):
        found = [texts[row] for row in members if row in texts]
        found.sort(key=lambda each: (-each.weight, each.doc_id))
        while found:
            first = found[0]
            same = [each for each in found if each is first or _is_copy(each, first)]
            found = [each for each in found if each not in same]
            if len(same) > 1:
                works.append([(each.doc_id, each.source_id) for each in same])
    return sorted(works), without_id


def _is_copy(document: Document, richest: Document) -> bool:
    """Whether most of the shorter text stands in the longer one."""
    texts = sorted((document.text, richest.text), key=lambda text: text.number)
    return share_within(*texts) >= _MOST


def _ids(paths: Sequence[Path]) -> tuple[list[int], np.ndarray, np.ndarray, int]:
    """First row of each part, the key and row of each id, and the number of rows without one."""
    starts, keys, rows, without_id = [0], [np.empty(0, np.uint64)], [np.empty(0, np.int64)], 0
    for table in read_live(paths, ("pmid", "metadata")):
        named = np.zeros(len(table), bool)
        for kind, column in id_columns(table):
            here = np.flatnonzero(pc.greater(pc.fill_null(pc.binary_length(column), 0), 0))
            values = column.take(pa.array(here)).to_pylist()
            keys.append(id_keys([content_id(kind, value) for value in values]))
            rows.append(starts[-1] + here)
            named[here] = True
        without_id += int((~named).sum())
        starts.append(starts[-1] + len(table))
    return starts, np.concatenate(keys), np.concatenate(rows), without_id


def _read(
    paths: Sequence[Path], starts: Sequence[int], rows: np.ndarray, gone: Collection[str]
) -> dict[int, Document]:
    """Read the texts of some rows, counted through all parts."""
    found = {}
    columns = ("doc_id", "source", "source_id", "text", "metadata")
    for part in np.unique(np.searchsorted(starts, rows, side="right") - 1).tolist():
        here = rows[(rows >= starts[part]) & (rows < starts[part + 1])]
        (table,) = read_live([paths[part]], columns)
        for row, each in zip(
            here.tolist(), table.take(pa.array(here - starts[part])).to_pylist(), strict=True
        ):
            if each["doc_id"] not in gone:
                text = shingles(each["text"])
                lesser = each["source"].lower().endswith(".pdf") or _is_preprint(each["metadata"])
                weight = text.number * (_LESSER if lesser else 1)
                found[row] = Document(each["doc_id"], each["source_id"], weight, text)
    return found


def _is_preprint(metadata: str) -> bool:
    told = json.loads(metadata or "{}")
    types = [told.get("article_type", ""), *told.get("publication_types", ())]
    return "preprint" in {str(each).lower() for each in types}
