"""The evidence of an answer as programs get it: pieces, papers, and papers that are left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar

from pydantic import Field

from srrag.core.schema import EVIDENCE, empty_value
from srrag.core.standing import STUDIES, grave_first, mark
from srrag.core.units import Units

Row = dict[str, Any]
Record = TypeVar("Record")
_ITEM = {field.name: empty_value(field.type) for field in EVIDENCE.value_type} | {
    "kind": "window", "char_start": -1, "char_end": -1,
}  # fmt: skip
"""What evidence of an older version lacks."""


def told(description: str) -> Any:
    """What a field is, for the schema of the API.

    Pydantic reads docstrings too, but parses a file's source once a class and schema: .3 CPU s of a
    server's start, and Python 3.11 fails at it while another thread parses (gh-106905).
    """
    return Field(description=description)


@dataclass(frozen=True, kw_only=True)
class EvidenceQuote:
    """A stretch of the evidence's text, verbatim, and the parts of the question that it states."""

    char_start: int
    char_end: int
    text: str
    reason: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TextbookFigure:
    """A figure of a textbook; the image is the name of its file, "" if the text gives none."""

    name: str
    caption: str
    image: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A window of a document, or what was made of one, by the number that citations use."""

    number: int
    kind: Annotated[str, told("window, document, bullet, summary or finding")] = "window"
    evidence_id: str = ""
    unit_id: str = ""
    doc_id: str = ""
    title: str = ""
    section: str = ""
    char_start: Annotated[int, told("where the text begins in its document, -1 if reworded")] = -1
    char_end: int = -1
    text: str = ""
    year: int = 0
    grade: Annotated[str, told('A (best) to E, "" for none')] = ""
    study: Annotated[str, told("the kind of study that the grade stands for")] = ""
    grade_source: Annotated[str, told("what the grade was read from")] = ""
    source: str = ""
    source_id: str = ""
    pmid: str = ""
    score: float = 0.0
    standing: Annotated[
        str, told('in the literature: ok, retracted, concern, …; "" if the build did not look')
    ] = ""
    standing_link: Annotated[str, told("the paper that says so, as pmid:… or doi:…")] = ""
    quotes: tuple[EvidenceQuote, ...] = ()
    figures: tuple[TextbookFigure, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper with the numbers of the evidence that is from it."""

    numbers: tuple[int, ...]
    cited: bool
    title: str
    year: int
    source_id: str
    pmid: str
    grade: str
    study: str
    status: Annotated[
        str,
        told('what a reader must know of its publication, as "retracted (PMID 1)"; "" for nothing'),
    ]


@dataclass(frozen=True, kw_only=True)
class LeftOutPaper:
    """A paper that was found but must not be cited: retracted, deleted, superseded."""

    doc_id: str
    source_id: str
    pmid: str
    title: str
    standing: str
    standing_link: str


def papers_of(evidence: Sequence[Evidence], cited: Iterable[int]) -> tuple[Paper, ...]:
    """The papers of some evidence, in the order of their first piece; an answer cites `cited`.

    Pieces of one document, or of documents with the same PMID, are one paper; its status is the
    gravest of theirs.
    """
    groups: dict[str, list[Evidence]] = {}
    for item in evidence:
        name = item.pmid or item.doc_id or item.source_id or item.evidence_id
        groups.setdefault(name, []).append(item)
    wanted = {*cited}
    return tuple(
        made(
            Paper, vars(items[0]), numbers=tuple(item.number for item in items),
            cited=any(item.number in wanted for item in items), status=_status(items),
        )
        for items in groups.values()
    )  # fmt: skip


def _status(items: Sequence[Evidence]) -> str:
    """Say the gravest standing of a paper's pieces; one that is not known is in order here."""
    return mark(vars(min(items, key=lambda item: grave_first(item.standing or "ok"))))


def evidence_of(
    row: Mapping[str, Any], numbers: Mapping[str, int], units: Units | None
) -> tuple[Evidence, ...]:
    """The evidence of an answered row, with what its other columns say of each piece.

    `units` tell the source of each document and of its grade.
    """
    items = [{**_ITEM, **item} for item in row["evidence"]]
    sources = _sources([item["doc_id"] for item in items], units)
    return tuple(
        Evidence(
            number=numbers[item["evidence_id"]],
            study=STUDIES.get(item["grade"], ""),
            **item,
            **source,
            quotes=_about(EvidenceQuote, item, row.get("snippets")),
            figures=_about(TextbookFigure, item, row.get("figures")),
        )
        for item, source in zip(items, sources, strict=True)
    )


def _sources(doc_ids: Sequence[str], units: Units | None) -> list[Row]:
    """Source and source of the grade of each document; {} for one that the build does not hold."""
    if units is None:
        return [{} for _ in doc_ids]
    try:
        table = units.take_documents(doc_ids)
    except ValueError:
        if len(doc_ids) == 1:
            return [{}]
        return [each for doc_id in doc_ids for each in _sources([doc_id], units)]
    found: list[Row] = table.select(["source", "grade_source"]).to_pylist()
    return found


def _about(kind: type[Any], item: Row, column: Sequence[Row] | None) -> tuple[Any, ...]:
    """The items of another column that are about this piece of evidence."""
    own = (each for each in column or () if each["evidence_id"] == item["evidence_id"])
    return tuple(made(kind, each) for each in own)


def made(kind: type[Record], row: Mapping[str, Any], /, **more: Any) -> Record:
    """Make a record of what a row has of its fields, lists as tuples, and of `more`."""
    values = {item.name: row[item.name] for item in fields(kind) if item.name in row} | more  # type: ignore[arg-type]
    return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})
