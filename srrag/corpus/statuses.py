"""A user's list of papers with their standing: a CSV with the columns of Retraction Watch, or ids.

Retraction Watch's data are published by Crossref (https://gitlab.com/crossref/retraction-watch-data).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from srrag.core.errors import UsageError
from srrag.core.ids import content_id
from srrag.core.standing import COPY, STANDINGS
from srrag.corpus.notices import Notice
from srrag.corpus.paper_ids import doi_of, pmcid_of, pmid_of
from srrag.storage.atomic_write import commit_json
from srrag.storage.store import Store

FOLDER = "statuses"
"""Folder of a root that keeps the lists of its builds, by the hash of their content."""

_NATURES = {
    "retraction": "retracted",
    "expression of concern": "concern",
    "correction": "corrected",
    "reinstatement": "",
}
_WATCH = {"originalpaperpubmedid", "originalpaperdoi", "retractionnature"}
_IDS = ("pmid", "doi", "pmcid", "source_id")
_DATE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")


def read_statuses(path: Path) -> list[Notice]:
    """Read a CSV; raises UsageError that names the file, and the line of a wrong value.

    It has either Retraction Watch's columns (OriginalPaperPubMedID, OriginalPaperDOI,
    RetractionNature; a later Reinstatement takes a statement back), or `standing` and at least one
    of `pmid`, `doi`, `pmcid` and `source_id`, and maybe `link`.
    """
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.DictReader(file)
            names = {_key(name) for name in reader.fieldnames or ()}
            rows = [(reader.line_num, {_key(k): v or "" for k, v in row.items()}) for row in reader]
    except (OSError, csv.Error) as error:
        raise UsageError(f"statuses={path}: {error}") from error
    if names >= _WATCH:
        return _watched(path, rows)
    if "standing" not in names or not names & {*_IDS}:
        raise UsageError(
            f"statuses={path}: needs the columns of Retraction Watch, or `standing` and one of "
            f"{', '.join(_IDS)}"
        )
    return [notice for line, row in rows for notice in _plain(path, line, row)]


def keep_statuses(store: Store, notices: Iterable[Notice]) -> str:
    """Store a list in a root under the hash of its content; returns the hash."""
    notices = list(notices)
    kept, name = _sorted(notices), list_name(notices)
    store.create()
    commit_json(store.root / FOLDER / f"{name}.json", {"statuses": kept}, sealed=True)
    return name


def list_name(notices: Iterable[Notice]) -> str:
    """Return the hash of a list's content."""
    return content_id(*map("\n".join, _sorted(notices)))


def _sorted(notices: Iterable[Notice]) -> list[tuple[str, str, str]]:
    return sorted({(each.about, each.standing, each.link) for each in notices})


def _plain(path: Path, line: int, row: Mapping[str, str]) -> Iterator[Notice]:
    standing = row["standing"].strip().lower()
    known = [name for name in STANDINGS if name not in ("ok", COPY)]
    if standing not in known:
        detail = f"standing {standing!r} is none of {', '.join(known)}"
        raise UsageError(f"statuses={path}:{line}: {detail}")
    found = [name for name in _abouts(row, "pmid", "doi", "pmcid", "source_id") if name]
    if not found:
        raise UsageError(f"statuses={path}:{line}: the row names no paper")
    for about in found:
        yield Notice(about, standing, row.get("link", "").strip(), "list")


def _watched(path: Path, rows: list[tuple[int, dict[str, str]]]) -> list[Notice]:
    """Take the rows by date, so that a reinstatement cancels earlier statements."""
    standing: dict[str, list[Notice]] = {}
    for _, line, row in sorted(
        ((_date(row), line, row) for line, row in rows), key=lambda r: r[:2]
    ):
        nature = row["retractionnature"].strip().lower()
        if nature not in _NATURES:
            raise UsageError(f"statuses={path}:{line}: RetractionNature {nature!r} is not known")
        notice = next(_abouts(row, "retractionpubmedid", "retractiondoi"), "")
        for about in _abouts(row, "originalpaperpubmedid", "originalpaperdoi"):
            if not _NATURES[nature]:
                standing.pop(about, None)
                continue
            link = "" if notice == about else notice
            standing.setdefault(about, []).append(Notice(about, _NATURES[nature], link, "list"))
    return [notice for found in standing.values() for notice in found]


def _abouts(row: Mapping[str, str], *names: str) -> Iterator[str]:
    """Yield the ids in these columns; "0" and "unavailable" are Retraction Watch's empty values."""
    for name in names:
        told = row.get(name, "").strip()
        if name == "source_id":
            if told:
                yield f"source_id:{told}"
        elif name.endswith("doi"):
            if doi := doi_of(told):
                yield f"doi:{doi}"
        elif name == "pmcid":
            if pmcid := pmcid_of(told):
                yield f"pmcid:{pmcid}"
        elif pmid := pmid_of(told):
            yield f"pmid:{pmid}"


def _date(row: Mapping[str, str]) -> tuple[int, int, int]:
    """Return (year, month, day) of a date as Retraction Watch writes it, month first; 0 unknown."""
    found = _DATE.search(row.get("retractiondate", ""))
    return (int(found[3]), int(found[1]), int(found[2])) if found else (0, 0, 0)


def _key(name: str | None) -> str:
    return (name or "").strip().lower()
