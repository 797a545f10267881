"""The forest of a textbook: a root for each chapter, its big text units, their small ones.

RASRAG, Eq. 1. Roots, big units and small units are numbered in reading order, whatever the order of
the parts, so an updated build equals one from nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.ontology import DOCUMENT
from srrag.core.step import IncrementalBuild, Place, PreviousVersion
from srrag.graph.communities import read_communities
from srrag.graph.entities import read_rows
from srrag.index.parts import unpack_vectors
from srrag.model.encoder import Encoder
from srrag.storage.manifest import read_live
from srrag.storage.mapped_table import Lookup, map_table, save_table, write_lookup
from srrag.storage.mirror import pull_build

Floats = npt.NDArray[np.float32]
Row = dict[str, Any]

ROOTS, BTUS, STUS = "roots.arrow", "btus.arrow", "stus.arrow"
FIGURES, DOCUMENTS = "figures.arrow", "documents.arrow"
BTU_VECTORS, TITLE_VECTORS = "btu_vectors.npy", "title_vectors.npy"
_DOCUMENT = ("doc_id", "source_id", "title", "metadata")
# A line that begins with a figure's name and holds its caption, with its image's name at the end.
_CAPTION = re.compile(
    r"^[ \t]*Figure (\d+(?:\.\d+)*)[.:] *(.*?)(?: *\[([^\[\]\n]+\.\w{2,5})\])?[ \t]*$", re.MULTILINE
)
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, kw_only=True)
class BuildTextbookTree(IncrementalBuild):
    """Writes the forest: roots with their titles' vectors, BTUs with vectors, STUs, figures.

    With `roots: chapter` the documents that share `book` and `chapter` in their metadata form a
    root; a document without a chapter is a root by itself. With `document` every document is one.
    With `community`, for corpora without chapters, the documents of one community of the evidence
    graph form a root (inputs `entities` and `communities`); one that names no entity is a root.

    The vector of a BTU is the normalised mean of its STUs' vectors. The paper instead scores the
    text, but an encoder of 256 or 512 tokens reads only a part of a BTU of about 2,200 tokens. A
    root's titles are the chapter's and those of its documents. An update reads the vectors of
    titles and BTUs that stand from the former version.
    """

    version: ClassVar[int] = 3

    roots: Literal["chapter", "document", "community"] = "chapter"
    encoder: Encoder
    documents: str = "documents"
    big: str = "chunks"
    small: str = "windows"
    vectors: str = "vectors"
    entities: str = "entities"
    communities: str = "communities"

    def __post_init__(self) -> None:
        """Raise ValueError for roots of an unknown kind."""
        if self.roots not in ("chapter", "document", "community"):
            raise ValueError(f"roots is {self.roots!r}: chapter, document or community")

    def write(
        self,
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        at: Place,
        former: PreviousVersion | None,
    ) -> dict[str, float | int | str]:
        """Write roots, BTUs, STUs and their vectors; only new BTUs and titles are encoded.

        Raises ValueError if there is no unit.
        """
        before = former.folder if former else None
        documents = _rows(inputs[self.documents], _DOCUMENT)
        big = _rows(inputs[self.big], ("unit_id", "doc_id", "char_start", "text"))
        small = _rows(inputs[self.small], ("unit_id", "parent_id", "char_start"))
        if not small:
            raise ValueError("there is no text unit to make a tree of")
        parents = {row["parent_id"] for row in small}
        community = self._communities(inputs)
        big = [row for row in big if row["unit_id"] in parents]
        roots = self._grouped(documents, big, community)
        order = {row["unit_id"]: n for n, row in enumerate(big_in_order(roots))}
        small = [row for row in small if row["parent_id"] in order]
        small.sort(key=lambda row: (order[row["parent_id"]], row["char_start"]))
        owner = np.array([order[row["parent_id"]] for row in small], np.int64)
        first = np.searchsorted(owner, np.arange(len(order) + 1))
        ids = [row["unit_id"] for row in small]
        save_table(pa.table({"unit_id": ids, "btu": pa.array(owner, pa.int32())}), out / STUS)
        write_lookup(ids, out, "stus")
        made = self._write_btus(roots, first, ids, inputs, out, before)
        titles = self._write_roots(roots, out, at, before)
        figures = _write_figures(roots, out)
        return {
            "roots": len(roots),
            "btus": len(order),
            "stus": len(ids),
            "btus_made": made,
            "titles_encoded": titles,
            "figures": figures,
        }

    def _communities(self, inputs: Mapping[str, Sequence[Path]]) -> dict[str, str]:
        """The community of each document that has one, where these are the roots."""
        if self.roots != "community":
            return {}
        if missing := {self.entities, self.communities} - inputs.keys():
            raise ValueError(f"roots=community: the stage lacks the input {min(missing)!r}")
        (entities,), (communities,) = inputs[self.entities], inputs[self.communities]
        named = read_rows(entities / "entities.parquet", ["entity_id", "name", "type"])
        named = named.filter(pc.equal(named["type"], DOCUMENT))
        found = read_communities(communities).to_pydict()
        of = dict(zip(found["entity_id"], found["community_id"], strict=True))
        pairs = zip(named["entity_id"].to_pylist(), named["name"].to_pylist(), strict=True)
        return {name: of[entity] for entity, name in pairs}

    def _key(self, document: Row, community: Mapping[str, str]) -> tuple[str, str]:
        """What the documents of one root share."""
        if self.roots == "chapter":
            return place_of(document).root
        alone = f"~{document['source_id']}"
        if self.roots == "community":
            return ("", community.get(document["doc_id"], alone))
        return ("", document["source_id"])

    def _grouped(
        self, documents: Sequence[Row], big: Sequence[Row], community: Mapping[str, str]
    ) -> list[Row]:
        """Roots in reading order, each with its documents' titles and its BTUs in order.

        A root without BTUs is dropped.
        """
        units: dict[str, list[Row]] = {}
        for unit in big:
            units.setdefault(unit["doc_id"], []).append(unit)
        roots: dict[tuple[str, str], Row] = {}
        for document in documents:
            if document["doc_id"] not in units:
                continue
            place = place_of(document)
            key = self._key(document, community)
            root = roots.setdefault(key, {"key": key, "documents": []})
            mine = sorted(units[document["doc_id"]], key=lambda unit: unit["char_start"])
            root["documents"].append({**document, "place": place, "btus": mine})
        for root in roots.values():
            root["documents"].sort(key=lambda each: (each["place"].order, each["source_id"]))
        return sorted(roots.values(), key=lambda each: tuple(map(natural, each["key"])))

    def _write_btus(
        self,
        roots: Sequence[Row],
        first: npt.NDArray[np.int64],
        stus: Sequence[str],
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        former: Path | None,
    ) -> int:
        """Write the BTUs and their vectors; returns the number of vectors that were made."""
        rows = [
            {"btu_id": unit["unit_id"], "root": n, "text": unit["text"]}
            for n, root in enumerate(roots)
            for document in root["documents"]
            for unit in document["btus"]
        ]
        columns = {
            "btu_id": [row["btu_id"] for row in rows],
            "root": pa.array([row["root"] for row in rows], pa.int32()),
            "end_stu": pa.array(first[1:], pa.int32()),
            "text": [row["text"] for row in rows],
        }
        save_table(pa.table(columns), out / BTUS)
        known = _former_vectors(former, BTUS, "btu_id", BTU_VECTORS)
        new = [n for n, row in enumerate(rows) if row["btu_id"] not in known]
        wanted = {stus[place] for n in new for place in range(first[n], first[n + 1])}
        vectors = _vectors(inputs[self.vectors], wanted)
        for n in new:
            mine = [vectors[stus[place]] for place in range(first[n], first[n + 1])]
            known[rows[n]["btu_id"]] = _mean(mine)
        width = len(next(iter(known.values())))
        matrix = [known[row["btu_id"]] for row in rows]
        np.save(out / BTU_VECTORS, np.array(matrix, np.float32).reshape(-1, width))
        return len(new)

    def _write_roots(self, roots: Sequence[Row], out: Path, at: Place, former: Path | None) -> int:
        """Write the roots and the vectors of their titles; returns the number encoded."""
        titles = [titles_of(root) for root in roots]
        known = _former_titles(former)
        new = sorted({title for each in titles for title in each} - known.keys())
        if new:
            from srrag.model.embed import load

            encoder = load(self.encoder, at.device, at.threads)
            # One by one: a batch could change the last bits of a vector.
            known |= {title: encoder.encode([title])[0] for title in new}
        save_table(pa.table({"titles": pa.array(titles, pa.list_(pa.string()))}), out / ROOTS)
        flat = [known[title] for each in titles for title in each]
        np.save(out / TITLE_VECTORS, np.array(flat, np.float32))
        return len(new)


def _write_figures(roots: Sequence[Row], out: Path) -> int:
    """Write the book of each document, and the figures by the captions in the BTUs.

    The first caption of a number counts. Returns the number of figures.
    """
    documents, figures, seen = [], [], set()
    for document in (each for root in roots for each in root["documents"]):
        book = document["place"].book
        documents.append({"doc_id": document["doc_id"], "book": book})
        for match in _CAPTION.finditer("\n".join(unit["text"] for unit in document["btus"])):
            number, caption, image = match[1], match[2].strip(), match[3] or ""
            if book and (book, number) not in seen:
                seen.add((book, number))
                row = {"book": book, "number": number, "caption": caption, "image": image}
                figures.append(row)
    names = ("book", "number", "caption", "image")
    schema = pa.schema([pa.field(name, pa.string()) for name in names])
    save_table(pa.Table.from_pylist(figures, schema=schema), out / FIGURES)
    save_table(
        pa.table({n: [row[n] for row in documents] for n in ("doc_id", "book")}), out / DOCUMENTS
    )
    return len(figures)


@dataclass(frozen=True)
class BookPlace:
    """Where a document stands in a book; `order` sorts the documents of a chapter."""

    book: str
    chapter: str
    chapter_title: str
    order: tuple[tuple[int, str], ...]
    source_id: str

    @property
    def root(self) -> tuple[str, str]:
        """Book and chapter; without a chapter the document itself."""
        return (self.book, self.chapter) if self.chapter else (self.book, f"~{self.source_id}")


def place_of(document: Mapping[str, Any]) -> BookPlace:
    """Read a document's place in a book from its metadata."""
    told = json.loads(document["metadata"] or "{}")
    said = {name: str(told.get(name) or "") for name in ("book", "chapter", "chapter_title")}
    return BookPlace(
        **said, order=natural(str(told.get("order") or "")), source_id=document["source_id"]
    )


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A sort key in which "2" comes before "10"."""
    pieces = re.findall(r"\d+|\D+", text)
    return tuple((int(each), "") if _NUMBER.fullmatch(each) else (-1, each) for each in pieces)


def titles_of(root: Mapping[str, Any]) -> list[str]:
    """The title of a root's chapter and those of its documents, each once, none empty."""
    documents = root["documents"]
    named = (each["place"].chapter_title for each in documents)
    found = [next((name for name in named if name), ""), *(each["title"] for each in documents)]
    titles = list(dict.fromkeys(title for title in found if title))
    return titles or [documents[0]["source_id"]]


def big_in_order(roots: Sequence[Row]) -> list[Row]:
    """All BTUs in reading order."""
    return [unit for root in roots for each in root["documents"] for unit in each["btus"]]


def _rows(paths: Sequence[Path], columns: Sequence[str]) -> list[Row]:
    return [row for table in read_live(paths, columns) for row in table.to_pylist()]


def _vectors(paths: Sequence[Path], wanted: set[str]) -> dict[str, Floats]:
    """The vectors of some units by id."""
    found: dict[str, Floats] = {}
    names = pa.array(sorted(wanted), pa.string())
    for table in read_live(paths, ("unit_id", "vector")):
        kept = table.filter(pc.is_in(table["unit_id"], value_set=names))
        if kept.num_rows:
            matrix = unpack_vectors(kept["vector"])
            found |= zip(kept["unit_id"].to_pylist(), matrix, strict=True)
    return found


def _mean(vectors: Sequence[Floats]) -> Floats:
    """The mean of unit vectors, of length 1 (0 if they cancel out)."""
    mean = np.mean(np.array(vectors, np.float64), axis=0)
    length = float(np.linalg.norm(mean))
    found: Floats = (mean / length if length else mean).astype(np.float32)
    return found


def _former_vectors(former: Path | None, file: str, column: str, matrix: str) -> dict[str, Floats]:
    if former is None or not (former / file).is_file():
        return {}
    names = map_table(former / file)[column].to_pylist()
    return dict(zip(names, np.load(former / matrix), strict=True))


def _former_titles(former: Path | None) -> dict[str, Floats]:
    if former is None or not (former / ROOTS).is_file():
        return {}
    titles = map_table(former / ROOTS)["titles"].combine_chunks().flatten().to_pylist()
    return dict(zip(titles, np.load(former / TITLE_VECTORS), strict=True))


Ints = npt.NDArray[np.int64]


class TreeForest:
    """Roots, BTUs and STUs by number, in reading order: those of a parent are a range.

    `first_btu` (roots + 1) and `first_stu` (BTUs + 1) delimit the children; `btu_vectors`
    (BTUs, dim) and `title_vectors` (titles, dim) have length 1; `title_root` is the root of each
    title.
    """

    def __init__(self, folder: Path) -> None:
        """Map the files."""
        pull_build(folder)
        self.roots = map_table(folder / ROOTS)
        self.btus = map_table(folder / BTUS)
        self.stu_ids: pa.Array = map_table(folder / STUS)["unit_id"].combine_chunks()
        self.btu_vectors: Floats = np.load(folder / BTU_VECTORS, mmap_mode="r")
        self.title_vectors: Floats = np.load(folder / TITLE_VECTORS, mmap_mode="r")
        self.btu_root: Ints = np.asarray(self.btus["root"], np.int64)
        self.first_btu: Ints = np.searchsorted(self.btu_root, np.arange(len(self.roots) + 1))
        ends = np.asarray(self.btus["end_stu"], np.int64)
        self.first_stu: Ints = np.concatenate([[0], ends])
        sizes = [len(titles) for titles in self.roots["titles"].to_pylist()]
        self.title_root: Ints = np.repeat(np.arange(len(sizes)), sizes)
        self._stus = Lookup(folder, "stus")

    def titles(self) -> list[str]:
        """The first title of each root."""
        return [titles[0] for titles in self.roots["titles"].to_pylist()]

    def btu_of(self, unit_ids: Sequence[str]) -> Ints:
        """The BTU of each STU; raises ValueError that names a unit of another build."""
        places = self._stus.find(unit_ids)
        found: Ints = np.searchsorted(self.first_stu, places, side="right") - 1
        return found
