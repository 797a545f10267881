"""The rows of results for the evaluation tools of TREC: a run file or a BioGen submission each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.formats import write_run
from srrag.core.hits import unpack_hits
from srrag.core.units import Units
from srrag.export.submission import check_submission, submission
from srrag.storage.atomic_write import commit_json

_SHOWN = 3


def tags(names: list[str]) -> dict[str, str]:
    """The run tag of each row: its name in letters that TREC allows.

    Raises ValueError if two rows would have one tag.
    """
    made = {name: re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-") or "run" for name in names}
    for name, tag in made.items():
        if twin := next((n for n, t in made.items() if t == tag and n != name), None):
            raise ValueError(f"rows {name!r} and {twin!r} have the same run tag {tag!r}")
    return made


def write_trec_runs(answers: Mapping[str, pa.Table], units: Units, folder: Path) -> dict[str, int]:
    """Write `TAG.trec` for each row: documents by PMID (their own id without one), best first.

    Raises ValueError that names a row without a ranking.
    """
    lines = 0
    for name, tag in tags(list(answers)).items():
        table = answers[name]
        if "hits" not in table.column_names:
            raise ValueError(f"row {name!r} holds no ranking: column 'hits' is missing")
        ids, _, _ = unpack_hits(table["hits"])
        listed = ids.to_pylist()
        articles = dict(zip(listed, units.article_keys(listed).to_pylist(), strict=True))
        rows = _alive(table, ["query_id", "hits"])
        write_run(folder / f"{tag}.trec", rows, articles, tag)
        lines += sum(len({articles[hit["unit_id"]] for hit in row["hits"]}) for row in rows)
    return {"runs": len(answers), "lines": lines}


def write_submissions(answers: Mapping[str, pa.Table], team: str, folder: Path) -> dict[str, int]:
    """Write `TAG.json` for each row, a checked submission to TREC BioGen.

    Raises ValueError that names row, topic and fault of an answer that the track would refuse.
    """
    counts = {"runs": len(answers), "topics": 0, "citations_without_pmid": 0}
    counts["sentences_without_pmid"] = 0
    for name, tag in tags(list(answers)).items():
        table = answers[name]
        missing = {"sentences", "evidence"} - set(table.column_names)
        if missing:
            raise ValueError(f"row {name!r} holds no answers: column {min(missing)!r} is missing")
        rows = _alive(table, ["query_id", "sentences", "evidence"])
        made = submission(rows, team, tag)
        if faults := check_submission(made.entries):
            more = f" (and {len(faults) - _SHOWN} more)" if len(faults) > _SHOWN else ""
            raise ValueError(f"row {name!r}: {'; '.join(faults[:_SHOWN])}{more}")
        commit_json(folder / f"{tag}.json", made.entries)
        counts["topics"] += len(made.entries)
        counts["citations_without_pmid"] += made.citations_without_pmid
        counts["sentences_without_pmid"] += made.sentences_without_pmid
    return counts


def _alive(table: pa.Table, names: list[str]) -> list[dict[str, Any]]:
    """These columns of the rows that did not fail."""
    alive = table.filter(table["reject"].is_null())
    rows: list[dict[str, Any]] = alive.select(names).to_pylist()
    return rows
