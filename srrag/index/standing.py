"""The standing of every document, by records, publication types, titles and a user's list."""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import networkx
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.spec import content_id
from srrag.core.standing import (
    ARTICLE_TYPES,
    COPY,
    DELETED,
    OF_ALL_TEXTS,
    grave_first,
    of_title,
    of_types,
)
from srrag.core.step import Build, Place
from srrag.storage.atomic_write import read_json, write_parquet
from srrag.storage.manifest import read_live
from srrag.storage.mapped_table import id_keys, write_lookup

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
    starts, keys, rows, without_id = _parted_ids(paths)
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


def _parted_ids(paths: Sequence[Path]) -> tuple[list[int], np.ndarray, np.ndarray, int]:
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


SAYINGS = pa.schema(
    [
        pa.field(name, pa.string(), nullable=False)
        for name in ("doc_id", "source_id", "standing", "link", "said_by")
    ]
)
"""The result: a row for each document with a statement; all others are in order."""

_DOCUMENTS = ("doc_id", "source_id", "pmid", "title", "metadata")
_TELLING_TITLE = r"(?i)^\W*(retracted|withdrawn)|[(\[]retracted"
_TELLING_METADATA = r'(?i)retract|concern|preprint|erratum|"article_type": "correction"'

WITHOUT_ID = "without_id"
"""The figure that counts documents without PMID, PMCID and DOI, of which no notice can speak."""

Saying = tuple[str, str, str]
"""(standing, link, said_by)."""
Who = tuple[str, str]
"""(doc_id, source_id)."""


@dataclass(frozen=True, kw_only=True)
class BuildStanding(Build):
    """Writes `standing.parquet`: the gravest standing of each document, and the paper that says it.

    Of a work that several documents hold (`find_works`) the richest text stands for all: it
    has the statements about any of them, and the others are its copies. That a PubMed record calls
    itself retracted or under concern holds for all documents of its PMID, DOI or PMCID.
    `statuses` is the hash of a user's list that the root keeps (`srrag.corpus.notices`), "" for
    none. A changed list repeats this build, and those that read it.
    """

    version: ClassVar[int] = 5

    statuses: str = ""
    notices: str = "notices"
    documents: str = "documents"

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Join statements and documents by id; raises ValueError if the root lacks the list."""
        said: dict[Who, list[Saying]] = defaultdict(list)
        abouts: dict[str, list[Saying]] = defaultdict(list)
        for table in read_live(inputs[self.notices], ("doc_id", "source_id", "about", *_SAID)):
            for row in table.to_pylist():
                saying = tuple(row[name] for name in _SAID)
                if row["about"]:
                    link = row["link"] or _name(row["source_id"])
                    abouts[row["about"]].append((row["standing"], link, row["said_by"]))
                else:
                    said[row["doc_id"], row["source_id"]].append(saying)
                    if _is_of_the_paper(row):
                        abouts[_name(row["source_id"])].append(saying)
        for about, standing, link in self._listed(at):
            abouts[about].append((standing, link, "list"))
        for table in read_live(inputs[self.documents], _DOCUMENTS):
            for doc_id, source_id, (standing, link, by) in _of_documents(table, abouts):
                other = "" if link == _name(source_id) else link  # none is its own notice
                said[doc_id, source_id].append((standing, other, by))
        gone = {doc_id for (doc_id, _), told in said.items() if _gravest(told)[0] == DELETED}
        works, without_id = find_works(inputs[self.documents], gone)
        for work in works:
            _spread(said, work)
        rows = sorted((*who, *_gravest(sayings)) for who, sayings in said.items())
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        table = pa.table(columns, schema=SAYINGS) if rows else SAYINGS.empty_table()
        write_parquet(table, out / "standing.parquet")
        write_lookup(table["doc_id"].to_pylist(), out, "standing")
        return {**Counter(table["standing"].to_pylist()), WITHOUT_ID: without_id}

    def _listed(self, at: Place) -> list[list[str]]:
        if not self.statuses:
            return []
        assert at.root is not None
        path = at.root / "statuses" / f"{self.statuses}.json"
        try:
            kept: list[list[str]] = read_json(path)["statuses"]
        except OSError as error:
            raise ValueError(f"{path} is missing: give statuses=… again") from error
        return kept


_SAID = ("standing", "link", "said_by")


def _name(source_id: str) -> str:
    return f"pmid:{source_id}" if source_id.isdigit() else source_id


def _is_of_the_paper(row: Mapping[str, str]) -> bool:
    """Whether what a record says of itself holds for all texts of its PMID.

    Each text of a retracted paper is retracted, also one that shares no words with the record.
    """
    of_pubmed = row["source_id"].isdigit() and row["said_by"] != "jats"
    return of_pubmed and row["standing"] in OF_ALL_TEXTS


def _gravest(sayings: Sequence[Saying]) -> Saying:
    """Choose the gravest statement; among equal ones, one that names its source."""
    return min(sayings, key=lambda each: (grave_first(each[0]), not each[1], each))


def _spread(said: dict[Who, list[Saying]], work: Sequence[Who]) -> None:
    """Give the richest text what is said of its copies, but for what one version alone is."""
    names = {_name(source_id) for _, source_id in work}
    richest, *copies = work
    for copy in copies:
        told = said.pop(copy, [])
        said[richest] += [s for s in told if s[0] != "preprint" and s[1] not in names]
        said[copy] = [(COPY, _name(richest[1]), "text")]
    if not said[richest]:
        del said[richest]


def _of_documents(
    table: pa.Table, abouts: Mapping[str, Sequence[Saying]]
) -> Iterator[tuple[str, str, Saying]]:
    """Yield (doc_id, source_id, statement) of documents, by their ids, titles and types."""
    columns = [("source_id", table["source_id"]), *id_columns(table)]
    named = [
        (f"{kind}:{value}", row)
        for kind, column in columns
        for row, value in _among(column, _ids(abouts, kind))
    ]
    doc_ids, source_ids = table["doc_id"], table["source_id"]
    for about, row in named:
        for saying in abouts[about]:
            yield doc_ids[row].as_py(), source_ids[row].as_py(), saying
    for row in np.flatnonzero(pc.match_substring_regex(table["title"], _TELLING_TITLE)).tolist():
        if told := of_title(table["title"][row].as_py()):
            yield doc_ids[row].as_py(), source_ids[row].as_py(), (told, "", "title")
    typed = pc.match_substring_regex(table["metadata"], _TELLING_METADATA)
    for row in np.flatnonzero(typed).tolist():
        for told in _of_metadata(table["metadata"][row].as_py()):
            yield doc_ids[row].as_py(), source_ids[row].as_py(), (told, "", "type")


def _of_metadata(text: str) -> list[str]:
    metadata = json.loads(text or "{}")
    kind = metadata.get("article_type")
    own = ARTICLE_TYPES.get(kind, "") if isinstance(kind, str) else ""
    if own and own != "preprint":
        return [own]  # JATS calls the notice itself "retraction"
    types = metadata.get("publication_types", [])
    said = of_types(types if isinstance(types, list) else re.split(r"[;|]", str(types)))
    return [own, *said] if own else said


def _ids(abouts: Mapping[str, object], kind: str) -> list[str]:
    return [name.removeprefix(f"{kind}:") for name in abouts if name.startswith(f"{kind}:")]


def _among(column: pa.ChunkedArray, wanted: Sequence[str]) -> list[tuple[int, str]]:
    """Return row and value of the rows with one of these values."""
    if not wanted:
        return []
    rows = np.flatnonzero(pc.is_in(column, value_set=pa.array(wanted, pa.string())))
    return list(zip(rows.tolist(), column.take(pa.array(rows)).to_pylist(), strict=True))
