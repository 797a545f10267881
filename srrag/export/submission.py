"""Runs and submissions of an evaluation as TREC takes them, checked before they are written.

A submission to BioGen's task B is that of the track's 2025 starter kit: a JSON list of entries, one
a topic, with `metadata` (team_id, run_id, topic_id) and `responses`, sentences with the PMIDs that
they cite. Its limits are 250 words an answer and three citations a sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.formats import write_run
from srrag.core.hits import unpack_hits
from srrag.core.units import Units
from srrag.storage.atomic_write import commit_json

MAX_WORDS = 250
MAX_CITATIONS = 3

_PMID = re.compile(r"[1-9]\d{0,8}")
_MARKER = re.compile(r"\[\d[\d ,;–-]*\]")


@dataclass(frozen=True)
class Submission:
    """The entries of a run, and counts of what was left out for lack of a PMID."""

    entries: list[dict[str, Any]]
    citations_without_pmid: int
    sentences_without_pmid: int


def submission(rows: Sequence[Mapping[str, Any]], team: str, run: str) -> Submission:
    """Make the entries of answered rows; an abstention is an entry without a response.

    The track takes PMIDs alone: citations of documents without one are left out, then sentences
    that have no other, and both are counted.
    """
    entries = []
    citations = sentences = 0
    for row in rows:
        pmids = {item["evidence_id"]: item["pmid"] for item in row["evidence"]}
        responses = []
        for sentence in row["sentences"]:
            cited = dict.fromkeys(pmids.get(name, "") for name in sentence["evidence_ids"])
            known = [name for name in cited if _PMID.fullmatch(name)]
            citations += len(cited) - len(known)
            if known:
                responses.append({"text": sentence["text"], "citations": known})
            else:
                sentences += 1
        metadata = {"team_id": team, "run_id": run, "topic_id": row["query_id"]}
        entries.append({"metadata": metadata, "responses": responses})
    return Submission(entries, citations, sentences)


def faults_of(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return why the track would refuse entries, each fault naming its topic; [] if it takes all.

    Task B takes a topic once, texts without citation markers, and bounded numbers of words and
    citations.
    """
    topics = [entry["metadata"]["topic_id"] for entry in entries]
    faults = [f"topic {name}: stands twice" for name, n in Counter(topics).items() if n > 1]
    for topic, entry in zip(topics, entries, strict=True):
        words = sum(len(response["text"].split()) for response in entry["responses"])
        found = [fault for response in entry["responses"] for fault in _faults(**response)]
        if words > MAX_WORDS:
            found.append(f"{words} words, of which {MAX_WORDS} are allowed")
        faults += [f"topic {topic}: {fault}" for fault in found]
    return faults


def _faults(text: str, citations: Sequence[str]) -> Iterator[str]:
    if not text.strip():
        yield "a sentence is empty"
    if _MARKER.search(text):
        yield f"{text[:40]!r} holds a citation marker"
    if len(citations) > MAX_CITATIONS:
        yield f"{text[:40]!r} has {len(citations)} citations, of which {MAX_CITATIONS} are allowed"


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
        if faults := faults_of(made.entries):
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
