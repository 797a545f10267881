"""The documents behind pooled hits: each once, whole or with the windows that were found of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from srrag.answer.select.papers import EVIDENCE_TOKENS, joined, paper, read_windows, room_of
from srrag.core.rows import with_columns
from srrag.core.schema import EVIDENCE, LEFT_OUT, non_null
from srrag.core.spec import evidence_id
from srrag.core.standing import COPY, HIDDEN, Standings
from srrag.core.step import Function, Place, Step
from srrag.core.units import Units, open_units

_SEPARATOR = "\n"


@dataclass(frozen=True, kw_only=True)
class GatherDocuments(Step):
    """Make a piece of evidence of each document among the first `k` hits (0: all).

    With `windows` 0 its text is read as GatherPapers reads papers: an abstract whole; of a document
    of more than 1,500 tokens the hit, the windows in the column `found`, its abstract, conclusions
    and results, as many as 1,500 tokens hold, or 600 from the fourth document on. Else its text is
    the hit's, followed by those of other windows found of the same PubMed article (of the same
    document if it has no PMID), in the order in which they were found, at most `windows` in all.
    `found` is "" for the hits alone. A text of several windows is verbatim in parts only, so its
    span is −1.

    As in SelectEvidence, retracted and deleted papers are not taken (`status` "hide") but named in
    `left_out`; each document has its paper's `standing`, "" if the build has no such stage.
    """

    version: ClassVar[int] = 4

    hits: str = "hits"
    found: str = "found"
    into: str = "documents"
    k: int = 0
    windows: int = 0
    units: str = "units"
    standing: str = "standing"
    status: str = "hide"

    def __post_init__(self) -> None:
        """Raise ValueError for a negative `k`, no window, or an unknown status."""
        if self.status not in ("hide", "show"):
            raise ValueError(f"status is {self.status!r}: it can be 'hide' or 'show'")
        if self.k < 0 or self.windows < 0:
            raise ValueError("k is a number of documents, and windows one of windows; 0 for all")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The hits, and the finds."""
        return (self.hits, *filter(None, (self.found,)))

    @property
    def writes(self) -> pa.Schema:
        """What is left out, and the documents as evidence."""
        return non_null(("left_out", LEFT_OUT), (self.into, EVIDENCE))

    def needs(self) -> tuple[str, ...]:
        """The units index, and the standing of papers where it is built."""
        return (self.units, self.standing)

    def open(self, at: Place) -> Function:
        """Map the windows, and read the standing of their papers."""
        units, standings = open_units(at, self.units), Standings.of(at, self.standing)

        def run(batch: pa.Table) -> pa.Table:
            hits = batch[self.hits].to_pylist()
            finds = batch[self.found].to_pylist() if self.found else [[]] * batch.num_rows
            found = [[each["unit_id"] for each in row] for row in finds]
            known = _Known(
                units, standings, [*(h["unit_id"] for row in hits for h in row), *_flat(found)]
            )
            gone, rows = [], []
            for row, others in zip(hits, map(known.by_article, found), strict=True):
                left_out, kept = self._kept(row, known)
                gone.append(left_out)
                rows.append([self._document(n, hit, others, known) for n, hit in enumerate(kept)])
            columns = (pa.array(gone, LEFT_OUT), pa.array(rows, EVIDENCE))
            return with_columns(batch, pa.table(columns, schema=self.writes))

        return run

    def _kept(
        self, hits: Sequence[dict[str, Any]], known: _Known
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The papers that must not be cited, and the first `k` other hits."""
        gone: dict[str, dict[str, Any]] = {}
        kept: list[dict[str, Any]] = []
        for hit in hits:
            if self.k and len(kept) == self.k:
                break
            unit = known.units[hit["unit_id"]]
            if unit["standing"] == COPY:
                continue
            if self.status == "hide" and unit["standing"] in HIDDEN:
                told = {item.name: unit[item.name] for item in LEFT_OUT.value_type}
                gone.setdefault(unit["doc_id"], told)
            else:
                kept.append(hit)
        return list(gone.values()), kept

    def _document(
        self, place: int, hit: dict[str, Any], others: dict[str, list[str]], known: _Known
    ) -> dict[str, Any]:
        first = hit["unit_id"]
        names = dict.fromkeys([first, *others.get(known.articles[first], ())])
        if not self.windows:
            found = known.index.rows([*names])
            long, most = room_of(place, EVIDENCE_TOKENS)
            windows = read_windows(known.index, found, long, most, known.standings)
            return paper(known.units[first], windows, joined(windows), hit["score"])
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

    def __init__(self, units: Units, standings: Standings, ids: Sequence[str]) -> None:
        self.index, self.standings = units, standings
        distinct = list(dict.fromkeys(ids))
        rows = units.take_evidence(distinct).drop_columns(["parent_id"]).to_pylist()
        told = standings.find([row["doc_id"] for row in rows])
        for row, standing, link in zip(rows, *told, strict=True):
            row |= {"standing": standing, "standing_link": link}
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
