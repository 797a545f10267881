"""The standing of every document, by records, publication types, titles and a user's list."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.standing import COPY, DELETED, grave_first, of_title, of_types
from srrag.core.step import Build, Place
from srrag.index.works import find_works, id_columns
from srrag.storage.atomic_write import read_json, write_parquet
from srrag.storage.mapped_table import write_lookup
from srrag.storage.read_live import read_live

SAYINGS = pa.schema(
    [
        pa.field(name, pa.string(), nullable=False)
        for name in ("doc_id", "source_id", "standing", "link", "said_by")
    ]
)
"""The result: a row for each document with a statement; all others are in order."""

_DOCUMENTS = ("doc_id", "source_id", "pmid", "title", "metadata")
_TELLING_TITLE = r"(?i)^\W*(retracted|withdrawn)"
_TELLING_METADATA = r"(?i)retract|concern|preprint|erratum"
_ARTICLE_TYPES = {
    "retraction": "retraction_notice",
    "partial-retraction": "retraction_notice",
    "expression-of-concern": "concern_notice",
    "correction": "correction_notice",
    "preprint": "preprint",
}

WITHOUT_ID = "without_id"
"""The figure that counts documents without PMID, PMCID and DOI, of which no notice can speak."""

Saying = tuple[str, str, str]
"""(standing, link, said_by)."""
Who = tuple[str, str]
"""(doc_id, source_id)."""


@dataclass(frozen=True, kw_only=True)
class BuildStanding(Build):
    """Writes `standing.parquet`: the gravest standing of each document, and the paper that says it.

    Of a work that several documents hold (`srrag.index.works`) the richest text stands for all: it
    has the statements about any of them, and the others are its copies.
    `statuses` is the hash of a user's list that the root keeps (`srrag.corpus.statuses`), "" for
    none. A changed list repeats this build alone.
    """

    version: ClassVar[int] = 2

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
        for about, standing, link in self._listed(at):
            abouts[about].append((standing, link, "list"))
        for table in read_live(inputs[self.documents], _DOCUMENTS):
            for doc_id, source_id, saying in _of_documents(table, abouts):
                said[doc_id, source_id].append(saying)
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
    for row in np.flatnonzero(pc.match_substring_regex(table["title"], _TELLING_TITLE)):
        if told := of_title(table["title"][row].as_py()):
            yield doc_ids[row].as_py(), source_ids[row].as_py(), (told, "", "title")
    for row in np.flatnonzero(pc.match_substring_regex(table["metadata"], _TELLING_METADATA)):
        for told in _of_metadata(table["metadata"][row].as_py()):
            yield doc_ids[row].as_py(), source_ids[row].as_py(), (told, "", "type")


def _of_metadata(text: str) -> list[str]:
    metadata = json.loads(text or "{}")
    kind = metadata.get("article_type")
    if isinstance(kind, str) and kind in _ARTICLE_TYPES:
        return [_ARTICLE_TYPES[kind]]  # JATS calls the notice itself "retraction"
    types = metadata.get("publication_types", [])
    return of_types(types if isinstance(types, list) else re.split(r"[;|]", str(types)))


def _ids(abouts: Mapping[str, object], kind: str) -> list[str]:
    return [name.removeprefix(f"{kind}:") for name in abouts if name.startswith(f"{kind}:")]


def _among(column: pa.ChunkedArray, wanted: Sequence[str]) -> list[tuple[int, str]]:
    """Return row and value of the rows with one of these values."""
    if not wanted:
        return []
    rows = np.flatnonzero(pc.is_in(column, value_set=pa.array(wanted, pa.string())))
    return list(zip(rows.tolist(), column.take(pa.array(rows)).to_pylist(), strict=True))
