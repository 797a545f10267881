"""The documents behind pooled hits: each once, with the windows that the search found of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from srrag.ids import evidence_id
from srrag.schema import EVIDENCE
from srrag.step import Function, Longest, Place, Step
from srrag.units import Units, open_units

_SEPARATOR = "\n"


@dataclass(frozen=True, kw_only=True)
class GatherDocuments(Step):
    """Make a piece of evidence of each document among the first `k` hits (0: all).

    Its text is that of the hit and, behind it, of other windows that the column `found` has of the
    same PubMed article (or of the same document where there is no PMID), at most `windows` in all,
    in the order of their finding. `found` is "" for the hits alone. A text of several windows is
    verbatim in parts only, so its span is −1.
    """

    hits: str = "hits"
    found: str = "found"
    into: str = "documents"
    k: int = 0
    windows: int = 4
    units: str = "units"

    def __post_init__(self) -> None:
        """Raise ValueError for a negative `k`, or no window."""
        if self.k < 0 or self.windows < 1:
            raise ValueError("k is a number of documents, or 0 for all; windows is at least 1")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The hits, and the finds."""
        return (self.hits, *filter(None, (self.found,)))

    @property
    def writes(self) -> pa.Schema:
        """The documents as evidence."""
        return pa.schema([pa.field(self.into, EVIDENCE, nullable=False)])

    def needs(self) -> tuple[str, ...]:
        """The units index."""
        return (self.units,)

    def largest(self, row: dict[str, Any], longest: Longest) -> dict[str, Any]:
        """As many documents as there are hits, of the longest windows."""
        return {self.into: longest.windows(self.k or len(row[self.hits]), self.windows)}

    def open(self, at: Place) -> Function:
        """Map the windows."""
        units = open_units(at, self.units)

        def run(batch: pa.Table) -> pa.Table:
            hits = [row[: self.k] if self.k else row for row in batch[self.hits].to_pylist()]
            finds = batch[self.found].to_pylist() if self.found else [[]] * batch.num_rows
            found = [[each["unit_id"] for each in row] for row in finds]
            known = _Known(units, [*(h["unit_id"] for row in hits for h in row), *_flat(found)])
            rows = [
                [self._document(hit, others, known) for hit in row]
                for row, others in zip(hits, map(known.by_article, found), strict=True)
            ]
            return batch.append_column(self.writes.field(0), pa.array(rows, EVIDENCE))

        return run

    def _document(
        self, hit: dict[str, Any], others: dict[str, list[str]], known: _Known
    ) -> dict[str, Any]:
        first = hit["unit_id"]
        names = dict.fromkeys([first, *others.get(known.articles[first], ())])
        units = [known.units[name] for name in list(names)[: self.windows]]
        texts = list(dict.fromkeys(unit["text"] for unit in units))
        text = _SEPARATOR.join(texts)
        whole = {} if len(texts) == 1 else {"char_start": -1, "char_end": -1}
        return units[0] | whole | {
            "evidence_id": evidence_id("document", first, text),
            "kind": "document",
            "text": text,
            "score": hit["score"],
        }  # fmt: skip


class _Known:
    """What the index says of some windows: their evidence, and their articles."""

    def __init__(self, units: Units, ids: Sequence[str]) -> None:
        distinct = list(dict.fromkeys(ids))
        rows = units.take_evidence(distinct).drop_columns(["parent_id"]).to_pylist()
        self.units: dict[str, dict[str, Any]] = dict(zip(distinct, rows, strict=True))
        keys = units.article_keys(distinct).to_pylist()
        self.articles: dict[str, str] = dict(zip(distinct, keys, strict=True))

    def by_article(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """The windows of each article, each once, in their order."""
        found: dict[str, list[str]] = {}
        for name in dict.fromkeys(ids):
            found.setdefault(self.articles[name], []).append(name)
        return found


def _flat(lists: Sequence[Sequence[str]]) -> list[str]:
    return [item for items in lists for item in items]
