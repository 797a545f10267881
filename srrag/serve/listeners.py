"""Reports progress to a request while its answer is made: steps, evidence, findings, draft."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from srrag.answer.write.cited import STREAMED, AnswerStream
from srrag.core.errors import Halt
from srrag.core.pipeline import Pipeline, added
from srrag.core.step import Function, Place, StepWrapper, bare
from srrag.engine.base import listening
from srrag.serve.batcher import Turns

Event = tuple[str, Any]
"""Name (stage, read_as, evidence, finding or token) and data of an event."""

_PIECE = re.compile(r".+?(?:\]\s+|\Z)", re.DOTALL)

Hear = Callable[[Event], None]
"""Observer of events; called in a worker's thread or an engine's thread."""


class ClientGone(Halt):
    """Ends a batch before its next step when no client waits for any of its rows."""


class Listeners:
    """The observers of a batch by query_id, and whether any client still wants one of its rows."""

    def __init__(
        self,
        ears: Mapping[str, Hear],
        wanted: Callable[[], bool],
        deadline: float = math.inf,
        checked: bool = False,
        turns: Turns | None = None,
        caller: str = "",
    ) -> None:
        """Bind the observers.

        If a later step of the pipeline has each sentence `checked`, the text comes at the end.
        `deadline` is when the last client stops waiting, on the monotonic clock. The batch works
        in the `turns` of its `caller`.
        """
        self.ears, self.wanted, self._deadline = ears, wanted, deadline
        self._turns, self._caller = turns or Turns(), caller
        self._drafts = {
            query_id: AnswerStream(partial(_say, hear), checked, partial(_find, hear))
            for query_id, hear in ears.items()
        }

    def left_s(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(0.0, self._deadline - time.monotonic())

    def pause(self) -> None:
        """Wait until it is the caller's turn; raises ClientGone if nobody waits for its rows."""
        self._turns.wait(self._caller, self.wanted)
        if not self.wanted():
            raise ClientGone("nobody waits for the answer any more")

    def away(self) -> AbstractContextManager[None]:
        """While the batch waits for a model, and so keeps no other caller waiting."""
        return self._turns.away(self._caller)

    def tell(self, table: pa.Table, name: str, data: Callable[[int], Any]) -> None:
        """Send an event to each row's observer; `data` makes its data from the row's number."""
        for row, query_id in enumerate(table["query_id"].to_pylist() if self.ears else ()):
            if query_id in self.ears:
                self.ears[query_id]((name, data(row)))

    def finish(self, row: Mapping[str, Any]) -> None:
        """Send the rest of a row's answer, or all of it if it differs from the draft."""
        if row["query_id"] in self._drafts and row["reject"] is None:
            self._drafts[row["query_id"]].finish(row["answer"])

    @contextmanager
    def present(self) -> Iterator[None]:
        """Let observed steps report to these observers, in this thread.

        A model's draft is reported only for a batch of one row, since drafts of several would mix.
        """
        token = _audience.set(self)
        try:
            with ExitStack() as stack:
                if len(self._drafts) == 1:
                    (draft,) = self._drafts.values()
                    stack.enter_context(listening(draft, *STREAMED))
                yield
        finally:
            _audience.reset(token)


_audience: ContextVar[Listeners | None] = ContextVar("audience", default=None)


def audience() -> Listeners | None:
    """The observers of the batch in this thread, or None."""
    return _audience.get()


def _say(hear: Hear, text: str) -> None:
    """Send a text as token events, in pieces that end with citations."""
    for piece in _PIECE.findall(text):
        hear(("token", piece))


def _find(hear: Hear, finding: dict[str, Any]) -> None:
    """Send what a paper says, while the answer is still written."""
    hear(("finding", finding))


@dataclass(frozen=True, kw_only=True)
class ObservedStep(StepWrapper):
    """A step that reports to the observers of its thread, and ends when all clients are gone."""

    def open(self, at: Place) -> Function:
        """Open the step; the function raises ClientGone if nobody waits for its rows."""
        function = self.step.open(at)
        name, columns = type(bare(self)).__name__, [item.name for item in added(self)]

        def run(table: pa.Table) -> pa.Table:
            present = _audience.get()
            if present is None:
                return function(table)
            if table.num_rows:
                present.pause()
            began = time.perf_counter()
            out = function(table)
            ms = round(1000 * (time.perf_counter() - began), 2)
            present.tell(out, "stage", lambda row: {"step": name, "ms": ms})
            if "conversation" in bare(self).revises:
                present.tell(out, "read_as", lambda row: out["text"][row].as_py())
            if "evidence" in columns:
                present.tell(out, "evidence", lambda row: out["evidence"][row].as_py())
            return out

        return run


def observed(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with every step observed."""
    return Pipeline(
        rank=tuple(ObservedStep(step=step) for step in pipeline.rank),
        answer=tuple(ObservedStep(step=step) for step in pipeline.answer),
    )
