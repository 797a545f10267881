"""Answers as TREC BioGen's task B takes them: an entry a topic, checked before it is written.

The format is that of the track's 2025 starter kit: a JSON list with `metadata` (team_id, run_id,
topic_id) and `responses`, sentences with the PMIDs that they cite. Its limits are 250 words an
answer and three citations a sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
