"""Answers as TREC BioGen's task B takes them: an entry a topic, checked before it is written.

The format is that of the track's 2025 starter kit: a JSON list with `metadata` (team_id, run_id,
topic_id) and `responses`, sentences with the PMIDs that they cite. Its limits are 250 words an
answer and three citations a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_WORDS = 250
MAX_CITATIONS = 3

_PMID = re.compile(r"[1-9]\d{0,8}")
_METADATA = ("team_id", "run_id", "topic_id")
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


def check_submission(entries: Any, topics: Sequence[str] = ()) -> list[str]:
    """Return every fault of a submission, each naming its topic; [] for one that the track takes.

    `topics` are those that it has to answer, each once; () leaves that unchecked.
    """
    if not isinstance(entries, list):
        return ["a submission is a list of entries"]
    faults: list[str] = []
    seen: list[str] = []
    for number, entry in enumerate(entries, start=1):
        name, found = _entry_faults(entry, number)
        faults += [f"{name}: {fault}" for fault in found]
        seen.append(name)
    faults += [f"{name}: stands twice" for name in sorted({n for n in seen if seen.count(n) > 1})]
    faults += [f"topic {name}: is missing" for name in topics if f"topic {name}" not in seen]
    if topics:
        wanted = {f"topic {name}" for name in topics}
        faults += [f"{name}: was not asked" for name in seen if name not in wanted]
    return faults


def _entry_faults(entry: Any, number: int) -> tuple[str, list[str]]:
    """The name of an entry, and its faults."""
    name = f"entry {number}"
    if not isinstance(entry, dict) or set(entry) != {"metadata", "responses"}:
        return name, ["an entry has metadata and responses, and nothing else"]
    metadata, responses = entry["metadata"], entry["responses"]
    if not isinstance(metadata, dict):
        return name, ["metadata is no object"]
    faults = [
        f"metadata.{key} is no text"
        for key in _METADATA
        if not isinstance(metadata.get(key), str) or not metadata[key].strip()
    ]
    if isinstance(metadata.get("topic_id"), str):
        name = f"topic {metadata['topic_id']}"
    if not isinstance(responses, list):
        return name, [*faults, "responses is no list"]
    words = 0
    for place, response in enumerate(responses, start=1):
        faults += [f"response {place}: {fault}" for fault in _response_faults(response)]
        if isinstance(response, dict) and isinstance(response.get("text"), str):
            words += len(response["text"].split())
    if words > MAX_WORDS:
        faults.append(f"{words} words, of which {MAX_WORDS} are allowed")
    return name, faults


def _response_faults(response: Any) -> list[str]:
    if not isinstance(response, dict) or set(response) != {"text", "citations"}:
        return ["a response has text and citations, and nothing else"]
    text, cited = response["text"], response["citations"]
    faults = []
    if not isinstance(text, str) or not text.strip():
        faults.append("its text is empty, or none")
    elif _MARKER.search(text):
        faults.append("its text holds a citation marker")
    if not isinstance(cited, list) or not cited:
        return [*faults, "it cites nothing"]
    if len(cited) > MAX_CITATIONS:
        faults.append(f"{len(cited)} citations, of which {MAX_CITATIONS} are allowed")
    if len(set(map(str, cited))) < len(cited):
        faults.append("a citation stands twice")
    wrong = [each for each in cited if not isinstance(each, str) or not _PMID.fullmatch(each)]
    return [*faults, *(f"{each!r} is no PMID" for each in wrong)]
