"""What a request hears while its answer is made: steps, evidence, and drafts of a model."""

from __future__ import annotations

import copy
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import pyarrow as pa

from srrag.answer.check_support import MakeGate
from srrag.answer.cited import CitedAnswer, Uncited
from srrag.answer.streaming import AnswerStream
from srrag.engine.stream import listening
from srrag.llm.completion import EngineStopped
from srrag.pipeline import Pipeline, added
from srrag.step import Function, Place, Step

Event = tuple[str, Any]
"""Its name and its data: stage, evidence, token."""

_PIECE = re.compile(r".+?(?:\]\s+|\Z)", re.DOTALL)

Hear = Callable[[Event], None]
"""Takes events in the worker's thread, or in that of an engine."""


class ClientGone(EngineStopped):
    """Nobody waits for any row of a batch: it ends before its next step."""


class Listeners:
    """Those who listen to a batch, by query_id, and whether any of its rows is still wanted."""

    def __init__(
        self,
        ears: Mapping[str, Hear],
        wanted: Callable[[], bool],
        uncited: Uncited = "drop",
        deadline: float = math.inf,
        gate: MakeGate | None = None,
    ) -> None:
        """Bind the listeners; `uncited` is the pipeline's way with sentences without citation.

        With its support `gate` a sentence is heard once it has passed. After the `deadline`, on
        the monotonic clock, nobody waits any more.
        """
        self.ears, self.wanted, self._deadline = ears, wanted, deadline
        self._drafts = {
            query_id: AnswerStream(partial(_say, hear), uncited, gate)
            for query_id, hear in ears.items()
        }

    def left_s(self) -> float:
        """How long somebody will still wait."""
        return max(0.0, self._deadline - time.monotonic())

    def tell(self, table: pa.Table, name: str, data: Callable[[int], Any]) -> None:
        """Tell each row's listener; `data` is made by the row's number."""
        for row, query_id in enumerate(table["query_id"].to_pylist() if self.ears else ()):
            if query_id in self.ears:
                self.ears[query_id]((name, data(row)))

    def finish(self, row: Mapping[str, Any]) -> None:
        """Say what is missing of the answer of a row, or all of it if it differs from the draft."""
        if row["query_id"] in self._drafts and row["reject"] is None:
            self._drafts[row["query_id"]].finish(row["answer"])

    @contextmanager
    def present(self) -> Iterator[None]:
        """Steps that `aloud` opened tell these listeners what happens, in this thread.

        The draft of a model is heard where one row alone is in hand: of several it mixes answers.
        """
        token = _audience.set(self)
        try:
            with ExitStack() as stack:
                if len(self._drafts) == 1:
                    (draft,) = self._drafts.values()
                    stack.enter_context(listening(draft, CitedAnswer))
                yield
        finally:
            _audience.reset(token)


_audience: ContextVar[Listeners | None] = ContextVar("audience", default=None)


def audience() -> Listeners | None:
    """Who listens to the batch of this thread, if anybody does."""
    return _audience.get()


def _say(hear: Hear, text: str) -> None:
    """Say a text in pieces that end with citations."""
    for piece in _PIECE.findall(text):
        hear(("token", piece))


def aloud(pipeline: Pipeline) -> Pipeline:
    """The same pipeline, whose steps tell the audience of their thread, if there is one."""
    rank, answer = map(_all_aloud, (pipeline.rank, pipeline.answer))
    return Pipeline(rank=rank, answer=answer)


def _all_aloud(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(map(_aloud, steps))


def _aloud(step: Step) -> Step:
    """A copy whose `open` alone is another: it is the same step in every other regard."""
    told = copy.copy(step)
    name, columns = type(step).__name__, [item.name for item in added(step)]

    def opened(at: Place) -> Function:
        function = step.open(at)

        def run(table: pa.Table) -> pa.Table:
            present = _audience.get()
            if present is None:
                return function(table)
            if table.num_rows and not present.wanted():
                raise ClientGone("nobody waits for the answer any more")
            began = time.perf_counter()
            out = function(table)
            ms = round(1000 * (time.perf_counter() - began), 2)
            present.tell(out, "stage", lambda row: {"step": name, "ms": ms})
            if "evidence" in columns:
                present.tell(out, "evidence", lambda row: out["evidence"][row].as_py())
            return out

        return run

    object.__setattr__(told, "open", opened)
    return told
