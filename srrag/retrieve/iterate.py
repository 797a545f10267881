"""Iterative retrieval: search, reflect on what was found, search on (SR-RAG, section 2.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.fusion import rank_scores
from srrag.core.hits import codes, pack_ranking, unpack_hits
from srrag.core.pipeline import TRACE, Pipeline, spare
from srrag.core.schema import FOUND, HITS, QUESTIONS, REJECT, ROUNDS
from srrag.core.step import Function, Place, Step
from srrag.core.units import Units, open_units
from srrag.retrieve.ircot import SHOWN, Reflect

Ints = npt.NDArray[np.int64]

FUSED_DECIMALS = 7
"""Decimals to which pooled scores are compared; they come as float32 and lie close together."""


@dataclass(frozen=True, kw_only=True)
class IterateRetrieval(Step):
    """Search at most `rounds` times per question (IRCoT; three, as in SR-RAG).

    The first round searches for the question itself. Each later round searches for the next
    question that `reflect` writes after reading the `shown` best windows so far, by their place in
    their own round, so that no round hides another; a question that is answered or hopeless stops.
    The hits of all rounds are pooled by best score, for one rerank
    against the original question. One round needs no `reflect`. `search` is the pipeline of one
    round, which writes the ranking; its other columns keep their values from the first round,
    except that `found` collects the finds of all rounds.
    """

    version: ClassVar[int] = 3

    search: Pipeline
    reflect: Reflect | None = None
    rounds: int = 3
    shown: int = 12
    into: str = "hits_fused"
    units: str = "units"

    def __post_init__(self) -> None:
        """Raise ValueError if `rounds` or `shown` cannot be, or a round writes `into`."""
        if self.rounds < 1 or self.shown < 1:
            raise ValueError("rounds and shown must be at least 1")
        if self.rounds > 1 and self.reflect is None:
            raise ValueError(f"rounds is {self.rounds}: a second one needs `reflect`")
        if self.into in set(self.search.writes.names) - {"hits"}:
            raise ValueError(f"into: a round writes {self.into!r} already")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question."""
        return tuple(QUESTIONS.names)

    @property
    def writes(self) -> pa.Schema:
        """What the first round adds, the rounds with their steps, and the pooled hits."""
        apart = {*QUESTIONS.names, "hits", "trace"}
        return pa.schema(
            [
                *(item for item in self.search.writes if item.name not in apart),
                pa.field("rounds", ROUNDS),
                pa.field("search_trace", TRACE),
                pa.field(self.into, HITS),
                pa.field("reject", REJECT),
            ]
        )

    def needs(self) -> tuple[str, ...]:
        """What a round needs, and the units index for what is shown."""
        return tuple(dict.fromkeys((*self.search.needs(), self.units)))

    def identity(self) -> dict[str, Any]:
        """The identities of the search pipeline and of the reflection."""
        reflect = {"reflect": self.reflect.identity()} if self.reflect else {}
        return {"search": self.search.identity(), **reflect}

    def open(self, at: Place) -> Function:
        """Open the search pipeline, and the reflection if there is one."""
        search = self.search.open(at)
        asked = self.reflect if self.reflect and not self.reflect.off else None
        reflect = asked.open(at) if asked else None
        units = open_units(at, self.units)
        finds = ["found"] if "found" in self.search.writes.names else []

        def run(batch: pa.Table) -> pa.Table:
            state = _Rounds(batch.select(QUESTIONS.names), finds)
            rows = np.arange(batch.num_rows)
            for number in range(1, self.rounds + 1):
                rows = state.add(number, rows, search(state.asked(rows)))
                if asked is None or reflect is None or number == self.rounds or not len(rows):
                    break
                thought = reflect(state.weighed(rows, units, self.shown))
                rows = state.reflected(rows, *spare(asked, thought))
            return state.table(batch, self.writes, self.into)

        return run


class _Rounds:
    """State of a batch: the finds so far, and what each question searches for next."""

    def __init__(self, questions: pa.Table, finds: Sequence[str]) -> None:
        self.questions = questions
        self.next: list[str] = questions["text"].to_pylist()
        self.notes: list[list[dict[str, Any]]] = [[] for _ in self.next]
        self.reject: list[Any] = [None] * len(self.next)
        self.first: pa.Table | None = None
        names = ("hits", "trace", *finds)
        self.lists: dict[str, list[tuple[Ints, pa.Array]]] = {name: [] for name in names}

    def asked(self, rows: Ints) -> pa.Table:
        """These questions, with the text of this round's search."""
        asked = self.questions.take(pa.array(rows))
        texts = pa.array([self.next[row] for row in rows], pa.string())
        place = asked.column_names.index("text")
        return asked.set_column(place, asked.schema.field("text"), texts)

    def add(self, number: int, rows: Ints, found: pa.Table) -> Ints:
        """Add the results of a round; returns the rows that it did not reject."""
        if self.first is None:
            self.first = found
        before = self._num_windows()
        for name, parts in self.lists.items():
            lists = found[name].combine_chunks()
            parts.append((rows, _numbered(lists, number) if name == "found" else lists))
        new = self._num_windows() - before
        rejects = found["reject"].to_pylist()
        for row, reject in zip(rows.tolist(), rejects, strict=True):
            note = {"round": number, "question": self.next[row], "new_windows": int(new[row])}
            self.notes[row].append({**note, "reflection": "", "sufficient": False, "fault": ""})
            self.reject[row] = reject
        return rows[np.array([reject is None for reject in rejects], np.bool_)]

    def weighed(self, rows: Ints, units: Units, shown: int) -> pa.Table:
        """What the reflection reads: the questions, their rounds, and their best windows."""
        ids, _, offsets = unpack_hits(pa.chunked_array([self.pooled(by_place=True)]))
        best = [ids[int(offsets[r]) : int(min(offsets[r] + shown, offsets[r + 1]))] for r in rows]
        ends = np.concatenate([[0], np.cumsum([len(each) for each in best])])
        texts = units.take_evidence(pa.concat_arrays(best).to_pylist())
        parts = [texts[item.name].combine_chunks() for item in SHOWN.value_type]
        items = pa.StructArray.from_arrays(parts, fields=list(SHOWN.value_type))
        table = self.questions.take(pa.array(rows))
        notes = pa.array([self.notes[row] for row in rows], ROUNDS)
        evidence = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items).cast(SHOWN)
        return table.append_column("rounds", notes).append_column("shown", evidence)

    def reflected(self, rows: Ints, thought: pa.Table, lost: Mapping[int, str]) -> Ints:
        """Record the reflections and their faults; returns the rows that search on."""
        on = []
        for n, (row, each) in enumerate(zip(rows.tolist(), thought.to_pylist(), strict=True)):
            said = {name: each[name] for name in ("reflection", "sufficient")}
            self.notes[row][-1].update(said, fault=lost.get(n, ""))
            self.next[row], self.reject[row] = each["next_question"], each["reject"]
            if each["reject"] is None and each["next_question"]:
                on.append(row)
        return np.array(on, np.int64)

    def pooled(self, by_place: bool = False) -> pa.Array:
        """The windows of all rounds, each by its best score, or best place in a round: HITS."""
        parts = self.lists["hits"]
        columns = [unpack_hits(pa.chunked_array([lists])) for _, lists in parts]
        names, keys = codes([ids for ids, _, _ in columns])
        owners = [np.repeat(r, np.diff(c[2])) for (r, _), c in zip(parts, columns, strict=True)]
        row, key = np.concatenate(owners), np.concatenate(keys)
        score = np.concatenate([scores for _, scores, _ in columns]).astype(np.float64)
        if by_place:
            starts = [np.repeat(ends[:-1], np.diff(ends)) for _, _, ends in columns]
            score = np.concatenate([each - np.arange(len(each), dtype=float) for each in starts])
        order = np.lexsort((-score, key, row))
        row, key, score = row[order], key[order], score[order]
        best = np.ones(len(row), np.bool_)
        best[1:] = (np.diff(row) != 0) | (np.diff(key) != 0)
        ranking = rank_scores(row[best], key[best], score[best], decimals=FUSED_DECIMALS)
        return pack_ranking(ranking, names, len(self.next))

    def table(self, batch: pa.Table, writes: pa.Schema, into: str) -> pa.Table:
        """The batch with what the rounds add to it."""
        assert self.first is not None
        made = {
            "rounds": pa.array(self.notes, ROUNDS),
            "search_trace": self._joined("trace"),
            into: self.pooled(),
            "reject": pa.array(self.reject, REJECT),
        }
        if "found" in self.lists:
            made["found"] = self._joined("found")
        kept = batch.drop_columns(["reject"])
        for item in writes:
            column = made[item.name] if item.name in made else self.first[item.name]
            kept = kept.append_column(item, column)
        return kept

    def _num_windows(self) -> Ints:
        if not self.lists["hits"]:
            return np.zeros(len(self.next), np.int64)
        return np.asarray(pc.list_value_length(self.pooled()), np.int64)

    def _joined(self, name: str) -> pa.Array:
        """Concatenate the lists of all rounds per question, in order of the rounds."""
        parts = self.lists[name]
        flat = pa.concat_arrays([lists.flatten() for _, lists in parts])
        owner = np.concatenate(
            [np.repeat(rows, np.asarray(pc.list_value_length(lists))) for rows, lists in parts]
        )
        order = np.argsort(owner, kind="stable")
        offsets = np.searchsorted(owner[order], np.arange(len(self.next) + 1)).astype(np.int32)
        items = flat.take(pa.array(order))
        return pa.ListArray.from_arrays(pa.array(offsets), items).cast(parts[0][1].type)


def _numbered(found: pa.Array, number: int) -> pa.Array:
    """FOUND with the number of the round filled in."""
    flat = found.flatten()
    fields = list(FOUND.value_type)
    columns = [
        pa.array(np.full(len(flat), number), pa.int32())
        if item.name == "round"
        else pc.struct_field(flat, item.name)
        for item in fields
    ]
    offsets = np.asarray(found.offsets) - found.offsets[0].as_py()
    items = pa.StructArray.from_arrays(columns, fields=fields)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items).cast(FOUND)
