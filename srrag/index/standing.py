"""The standing of every document, by records, publication types, titles and a user's list."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.standing import grave_first, of_title, of_types
from srrag.core.step import Build, Place
from srrag.storage.atomic_write import read_json, write_parquet
from srrag.storage.lookup import write_lookup
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
_OTHER_IDS = {"doi": r'"doi": "(?P<id>[^"]+)"', "pmcid": r'"pmcid": "(?P<id>[^"]+)"'}
_ARTICLE_TYPES = {
    "retraction": "retraction_notice",
    "partial-retraction": "retraction_notice",
    "expression-of-concern": "concern_notice",
    "correction": "correction_notice",
    "preprint": "preprint",
}

Saying = tuple[str, str, str]
"""(standing, link, said_by)."""


@dataclass(frozen=True, kw_only=True)
class BuildStanding(Build):
    """Writes `standing.parquet`: the gravest standing of each document, and the paper that says it.

    `statuses` is the hash of a user's list that the root keeps (`srrag.corpus.statuses`), "" for
    none. A changed list repeats this build alone.
    """

    statuses: str = ""
    notices: str = "notices"
    documents: str = "documents"

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Join statements and documents by id; raises ValueError if the root lacks the list."""
        said: dict[tuple[str, str], list[Saying]] = defaultdict(list)
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
        rows = sorted((*who, *_gravest(sayings)) for who, sayings in said.items())
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        table = pa.table(columns, schema=SAYINGS) if rows else SAYINGS.empty_table()
        write_parquet(table, out / "standing.parquet")
        write_lookup(table["doc_id"].to_pylist(), out, "standing")
        return dict(Counter(table["standing"].to_pylist()))

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


def _of_documents(
    table: pa.Table, abouts: Mapping[str, Sequence[Saying]]
) -> Iterator[tuple[str, str, Saying]]:
    """Yield (doc_id, source_id, statement) of documents, by their ids, titles and types."""
    named = [(f"pmid:{pmid}", row) for row, pmid in _among(table["pmid"], _ids(abouts, "pmid"))]
    listed = _among(table["source_id"], _ids(abouts, "source_id"))
    named += [(f"source_id:{source_id}", row) for row, source_id in listed]
    for kind, pattern in _OTHER_IDS.items():
        if wanted := _ids(abouts, kind):
            found = pc.struct_field(pc.extract_regex(table["metadata"], pattern), "id")
            cased = pc.utf8_lower(found) if kind == "doi" else pc.utf8_upper(found)
            named += [(f"{kind}:{value}", row) for row, value in _among(cased, wanted)]
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
