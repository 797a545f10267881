"""The evidence block as papers: whole abstracts, and of full texts what answers are read from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.core.hits import unpack_hits
from srrag.core.rows import Row
from srrag.core.schema import EVIDENCE, LEFT_OUT, non_null
from srrag.core.spec import evidence_id
from srrag.core.standing import COPY, HIDDEN, Standings
from srrag.core.step import Function, Place, Step
from srrag.core.units import Units, open_units
from srrag.reading.prose import section_role, sentence_spans

Ints = npt.NDArray[np.int64]

EVIDENCE_TOKENS = 6000
BEST_PAPERS, BEST_SHARE, OTHER_SHARE = 3, 4, 10
"""The best papers may take a quarter of the block each, the others a tenth: an abstract."""
FOUND_FIRST = 3
"""Windows of a full text that come before its results and conclusions."""
_READ_FIRST = ("abstract", "conclusion", "result")
_RESUMES = re.compile(r"[a-z,;:)\]%]|[-–−]\d")
"""A text begins within a sentence: in lower case, or with the upper end of an interval."""
SENTENCE_TOKENS = 6
"""What the number of a sentence costs in a prompt."""


@dataclass(frozen=True, kw_only=True)
class GatherPapers(Step):
    """Make the evidence block of the papers in `hits`, best first, each of them once.

    A paper is all documents of one PMID, or of one title and year. Abstracts are shown whole. Of a
    paper that takes more than a quarter of `evidence_tokens` come its best windows, its abstract,
    conclusions and results, in that order, as far as that quarter goes, or a tenth from the fourth
    paper on; its text is in the order of the document, with a heading where the section changes.
    Papers are taken until the next does not fit into `evidence_tokens` (of the encoder's
    tokenizer), at most `k`, and none that scores below `floor` times the best (0 takes all): most
    of those are on something else.

    As in SelectEvidence, retracted and deleted papers are not taken (`status` "hide"), nor one
    whose later version was found too; `left_out` names those that would have been. What a paper is
    cited under is the document of its best window that is no copy; of its other documents none is
    read that is a copy, or that must not be cited.

    Papers of a `conversation` that its message speaks of come first, found or not.
    """

    version: ClassVar[int] = 4
    reads: ClassVar[tuple[str, ...]] = ("hits", "conversation")
    writes: ClassVar[pa.Schema] = non_null(("left_out", LEFT_OUT), ("evidence", EVIDENCE))

    evidence_tokens: int = EVIDENCE_TOKENS
    k: int = 8
    floor: float = 0.0
    units: str = "units"
    standing: str = "standing"
    status: str = "hide"

    def __post_init__(self) -> None:
        """Raise ValueError for a block that holds nothing."""
        if self.evidence_tokens < 400 or self.k < 1:
            raise ValueError("evidence_tokens is at least 400, and k at least 1")
        if not 0 <= self.floor < 1:
            raise ValueError(f"floor is {self.floor}: it is at least 0 and below 1")
        if self.status not in ("hide", "show"):
            raise ValueError(f"status is {self.status!r}: it can be 'hide' or 'show'")

    def needs(self) -> tuple[str, ...]:
        """The units index, and the standing of papers where it is built."""
        return (self.units, self.standing)

    def open(self, at: Place) -> Function:
        """Map the windows of the build, and read the standing of its papers."""
        units, standings = open_units(at, self.units), Standings.of(at, self.standing)

        def run(batch: pa.Table) -> pa.Table:
            ids, scores, offsets = unpack_hits(batch["hits"])
            found = units.rows(ids.to_pylist())
            blocks = [
                self._block(found[low:high], scores[low:high], recalled(said), units, standings)
                for (low, high), said in zip(
                    pairwise(offsets), batch["conversation"].to_pylist(), strict=True
                )
            ]
            for place, item in enumerate(self.writes):
                column = pa.array([block[place] for block in blocks], item.type)
                batch = batch.append_column(item, column)
            return batch

        return run

    def _block(
        self,
        found: Ints,
        scores: npt.NDArray[np.float32],
        again: Sequence[str],
        units: Units,
        standings: Standings,
    ) -> tuple[list[Row], list[Row]]:
        """The papers that must not be cited, and the evidence of one question."""
        left_out: list[Row] = []
        block: list[Row] = []
        works: set[tuple[str, int]] = set()
        room = self.evidence_tokens
        least = self.floor * max(scores[0], 0.0) if len(scores) else 0.0
        speaks = _speak(found, units, standings)
        found, scores = found[speaks], scores[speaks]
        if again:
            named = _first_that_speak(units.first_windows(again), units, standings)
            found, scores = _recalled_first(found, scores, named, units)
        firsts = np.sort(np.unique(units.window_studies[found], return_index=True)[1])
        heads = units.take_evidence(units.ids(found[firsts]).to_pylist()).to_pylist()
        told = list(zip(*standings.find([head["doc_id"] for head in heads]), strict=True))
        later = {f"pmid:{head['pmid']}" for head in heads if head["pmid"]}
        for first, head, (standing, link) in zip(firsts, heads, told, strict=True):
            if len(block) == self.k:
                break
            if scores[first] < least:
                continue
            work = (" ".join(head["title"].lower().split()), head["year"])
            if work[0] and work in works:
                continue
            head |= {"standing": standing, "standing_link": link}
            if self.status == "hide" and (
                standing in HIDDEN or (standing == "superseded" and link in later)
            ):
                left_out.append({item.name: head[item.name] for item in LEFT_OUT.value_type})
                continue
            study = units.window_studies[found[first]]
            mine = found[units.window_studies[found] == study]
            long, most = room_of(len(block), self.evidence_tokens)
            windows = read_windows(units, mine, long, most, standings)
            text = joined(windows)
            size = tokens_of(windows, text)
            if size > room and block:
                break
            room -= size
            works.add(work)
            block.append(paper(head, windows, text, float(scores[first])))
        return left_out, block


def recalled(conversation: Row) -> list[str]:
    """The keys of the papers that the message of a conversation speaks of."""
    return [paper["key"] for paper in conversation["papers"] if paper["recalled"]]


def _speak(windows: Ints, units: Units, standings: Standings) -> npt.NDArray[np.bool_]:
    """Whether each window is of a document that is no copy of another one."""
    doc_ids = units.take(units.ids(windows).to_pylist(), ("doc_id",))["doc_id"].to_pylist()
    return np.array([standing != COPY for standing in standings.find(doc_ids)[0]], np.bool_)


def _first_that_speak(again: Ints, units: Units, standings: Standings) -> Ints:
    """Each window `again`; for one of a copy, the first of its paper that is of none, if any."""
    windows, bounds = units.study_windows
    first = [np.empty(0, np.int64)]
    for window in again:
        study = units.window_studies[window]
        mine = np.append(window, windows[bounds[study] : bounds[study + 1]]).astype(np.int64)
        first.append(mine[_speak(mine, units, standings)][:1])
    return np.concatenate(first)


def _recalled_first(
    found: Ints, scores: npt.NDArray[np.float32], again: Ints, units: Units
) -> tuple[Ints, npt.NDArray[np.float32]]:
    """The windows found and their scores, first those of the same papers as the windows `again`.

    These score as high as the best; a paper of which none was found has the one of `again`.
    """
    best = np.float32(scores.max(initial=0.0))
    first = []
    for window in again:
        mine = found[units.window_studies[found] == units.window_studies[window]]
        first.append(mine if len(mine) else np.asarray([window], np.int64))
    windows = np.concatenate([*first, np.empty(0, np.int64)])
    rest = ~np.isin(found, windows)
    return (
        np.concatenate([windows, found[rest]]),
        np.concatenate([np.full(len(windows), best, np.float32), scores[rest]]),
    )


def room_of(place: int, evidence_tokens: int) -> tuple[int, int]:
    """Tokens up to which the paper at a place, from 0, is shown whole, and at most if it is not."""
    long = evidence_tokens // BEST_SHARE
    return long, long if place < BEST_PAPERS else evidence_tokens // OTHER_SHARE


def read_windows(
    units: Units, found: Ints, long: int, most_tokens: int, standings: Standings
) -> list[Row]:
    """Return the windows of a paper to be read, in its order; `found` are its hits, best first.

    All of them if they take at most `long` tokens. Else, up to `most_tokens`, the best hits, then
    its abstract, conclusions and results, then the other hits, as many as fit; at least one.
    `standings` tell which documents are not read beside that of the best hit.
    """
    windows, bounds = units.study_windows
    study = units.window_studies[found[0]]
    rows = windows[bounds[study] : bounds[study + 1]].astype(np.int64)
    ids = units.ids(rows).to_pylist()
    columns = ("doc_id", "section", "char_start", "char_end", "text", "num_tokens")
    every: list[Row] = units.take(ids, columns).to_pylist()
    head = every[int(np.flatnonzero(rows == found[0])[0])]["doc_id"]
    silent = _silent_beside(head, [window["doc_id"] for window in every], standings)
    rows = rows[[window["doc_id"] not in silent for window in every]]
    every = [window for window in every if window["doc_id"] not in silent]
    if sum(window["num_tokens"] for window in every) <= long:
        return every
    ranks = {row: rank for rank, row in enumerate(found.tolist())}

    def wanted(place: int) -> tuple[int, int]:
        rank = ranks.get(int(rows[place]), len(rows))
        return (0 if rank < FOUND_FIRST else 1 + _worth(every[place]["section"])), rank

    kept: list[int] = []
    room = most_tokens
    for place in sorted(range(len(rows)), key=wanted):
        if every[place]["num_tokens"] <= room or not kept:
            kept.append(place)
            room -= every[place]["num_tokens"]
    return [every[place] for place in sorted(kept)]


def _silent_beside(head: str, doc_ids: Sequence[str], standings: Standings) -> set[str]:
    """The documents that are a copy or must not be cited, but for the one that is cited."""
    others = list(dict.fromkeys(doc_ids))
    told = zip(others, standings.find(others)[0], strict=True)
    return {each for each, standing in told if standing in (COPY, *HIDDEN)} - {head}


def _worth(section: str) -> int:
    """The place of a section in the order in which a paper is read, from 0."""
    names = section.split(">")
    roles = ["abstract" if "abstract" in name.lower() else section_role(name) for name in names]
    places = [_READ_FIRST.index(role) for role in roles if role in _READ_FIRST]
    return min(places, default=len(_READ_FIRST))


def joined(windows: Sequence[Row]) -> str:
    """The text of windows in order: overlaps once, and a heading where the section changes."""
    return "".join(_pieces(windows))


def _pieces(windows: Sequence[Row]) -> Iterator[str]:
    several = len({window["section"] for window in windows}) > 1
    place, end = ("", ""), -1
    for window in windows:
        text, here = window["text"], (window["doc_id"], window["section"])
        goes_on = here == place and window["char_start"] <= end
        if goes_on:
            text = text[end - window["char_start"] :]
        elif end >= 0:
            yield "\n\n"
        if not goes_on:
            text = _from_a_sentence(text)
        if several and here != place and window["section"] and not text.startswith("#"):
            yield f"## {window['section']}\n\n"
        yield text
        place, end = here, window["char_end"]


def _from_a_sentence(text: str) -> str:
    """A window without the rest of a sentence that began before it, as long texts are cut."""
    if not _RESUMES.match(text):
        return text
    spans = sentence_spans(text)
    return text[spans[1][0] :] if len(spans) > 1 else text


def tokens_of(windows: Sequence[Row], text: str) -> int:
    """Tokens of a paper in a prompt: of its windows, and of the numbers of its sentences."""
    numbers = SENTENCE_TOKENS * len(sentence_spans(text))
    return numbers + sum(int(window["num_tokens"]) for window in windows)


def paper(head: Row, windows: Sequence[Row], text: str, score: float) -> Row:
    """The row of EVIDENCE of a paper; `head` is that of its best window."""
    whole = len(windows) == 1
    return {field.name: head.get(field.name) for field in EVIDENCE.value_type} | {
        "evidence_id": evidence_id("document", head["unit_id"], text),
        "kind": "document",
        "section": "",
        "char_start": windows[0]["char_start"] if whole else -1,
        "char_end": windows[0]["char_end"] if whole else -1,
        "text": text,
        "score": score,
    }
