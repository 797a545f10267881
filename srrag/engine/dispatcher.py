"""The dispatcher of an engine: one per run, through which every call goes.

It bounds the calls in flight, enforces the budget, merges equal calls, checks each answer against
its schema, and writes it to the log's journal *before* it replies. So a run that is killed and
resumed pays twice only for the calls that were in flight.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from srrag.engine.base import (
    Call,
    Model,
    Opener,
    Reply,
    Session,
    SessionLostError,
    answered,
)
from srrag.engine.log.completion_log import Payments
from srrag.engine.log.entry import Entry
from srrag.engine.log.journal import Journal
from srrag.llm.completion import (
    AWAITED,
    Account,
    BudgetSpent,
    EngineStopped,
    Fault,
    Usage,
    one_line,
)
from srrag.llm.read_answer import read

if TYPE_CHECKING:
    from srrag.engine.openai.batch_session import BatchSession


def open_budget(folder: Path, account: Account) -> Budget:
    """Open the budget of a run: the account's ceilings, less what the log has already paid for."""
    if account.max_tokens is None and account.max_usd is None:
        return Budget()
    paid = Payments(folder)
    tokens, usd = paid.total()
    return Budget(account.max_tokens, account.max_usd, tokens, usd, paid=paid)


LOOK_S = 1.0
"""Seconds between looks at what other processes have paid for, unless room gets scarce."""


@dataclass
class Budget:
    """Limits the tokens and US dollars of a log, whichever processes spend them.

    It looks at the log once every LOOK_S seconds, and before a call after which no equal one fits.
    Each call reserves its largest possible cost before it is sent, and settles its actual cost
    afterwards, so an answer exceeds the ceiling only if it thinks beyond what it may, while none
    before it did. Near the ceiling, calls wait for each other.
    Charges for calls that the endpoint never answered are unknown and not counted.
    """

    max_tokens: int | None = None
    max_usd: float | None = None
    tokens: int = 0
    usd: float = 0.0
    promised: tuple[int, float] = (0, 0.0)
    """Tokens and US dollars of prompts in files, at most, until the run ends."""
    beyond: int = 0
    """The most tokens by which an answer passed its limit, with thinking: the next one may too."""
    paid: Payments | None = None
    """What the log has paid for, by any process."""
    _looked: float = -math.inf
    _reserved: dict[bytes, tuple[int, float]] = field(default_factory=dict)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def reserve(self, engine: Model, call: Call) -> None:
        """Wait until the call surely fits the budget; raises BudgetSpent if it never will."""
        if self.max_tokens is None and self.max_usd is None:
            return
        # An answer meanwhile may have shown how far they pass their limits.
        while (key := self._exceeded(need := self._most(engine, call))) is not None:
            if not self._reserved:
                raise BudgetSpent(self._message(key))
            self._settled.clear()
            await self._settled.wait()
        self._reserved[call.key] = need

    def promise(self, engine: Model, tokens_in: int, tokens_out: int) -> None:
        """Count tokens that will be paid for after this run."""
        usd = engine.price(tokens_in, tokens_out)
        self.promised = self.promised[0] + tokens_in + tokens_out, self.promised[1] + usd

    def fits(self, engine: Model, call: Call) -> bool:
        """Whether the ceiling allows one more call beside what is promised.

        Raises BudgetSpent if nothing is promised whose answers could make room.
        """
        key = self._exceeded(self._most(engine, call))
        if key is not None and not self.promised[0]:
            raise BudgetSpent(self._message(key))
        return key is None

    def settle(self, tokens: int, usd: float, beyond: int = 0) -> None:
        """Add the actual cost of a call, whose answer passed its limit by `beyond` tokens."""
        self.tokens += tokens
        self.usd += usd
        self.beyond = max(self.beyond, beyond)

    def release(self, call: Call) -> None:
        """Release the reservation of a call."""
        self._reserved.pop(call.key, None)
        self._settled.set()

    def _most(self, engine: Model, call: Call) -> tuple[int, float]:
        """The most tokens of a call, and their price in US dollars."""
        tokens_in, tokens_out = call.most_tokens_in, engine.limit(call.prompt) + self.beyond
        return tokens_in + tokens_out, engine.price(tokens_in, tokens_out)

    def _exceeded(self, need: tuple[int, float]) -> str | None:
        """The ceiling that a call would pass, after a look at the log if one is due."""
        # A look can only add to what is spent: it makes no room for a call that has none.
        scarce = self._passed(need) is None and self._passed((2 * need[0], 2 * need[1])) is not None
        if self.paid is not None and (scarce or time.monotonic() - self._looked >= LOOK_S):
            tokens, usd = self.paid.total()
            self.tokens, self.usd = max(self.tokens, tokens), max(self.usd, usd)
            self._looked = time.monotonic()
        return self._passed(need)

    def _passed(self, need: tuple[int, float]) -> str | None:
        open_calls = [*self._reserved.values(), self.promised, need]
        tokens = self.tokens + sum(item[0] for item in open_calls)
        usd = self.usd + sum(item[1] for item in open_calls)
        if self.max_tokens is not None and tokens > self.max_tokens:
            return "max_tokens"
        if self.max_usd is not None and usd > self.max_usd:
            return "max_usd"
        return None

    def _message(self, key: str) -> str:
        return (
            f"budget.{key}={getattr(self, key):g} is spent: the log holds {self.tokens:,} tokens, "
            f"{self.usd:.2f} USD, and the next call may not fit; what is paid for is kept, "
            f"and the same command with a higher ceiling goes on"
        )


_log = logging.getLogger(__name__)

MIN_WATCHED = 200
"""Number of prompts from which on the share of lost ones can end the run."""


class Dispatcher:
    """Answers the calls to one engine through a session, which it opens at the first call."""

    def __init__(
        self,
        engine: Model,
        opener: Opener,
        journal: Journal,
        budget: Budget,
        max_lost_share: float = 1.0,
    ) -> None:
        """Bind engine, journal and budget. The engine's `concurrency` applies to each replica."""
        self._max_lost_share = max_lost_share
        self._first = self._lost = 0
        self.engine = engine
        self._done = Usage()
        self._told: set[str] = set()
        self._opener = opener
        self._journal = journal
        self._budget = budget
        self._slots = asyncio.Semaphore(engine.concurrency * engine.replicas)
        self._opening = asyncio.Lock()
        self._session: Session | None = None
        self._in_flight: dict[bytes, asyncio.Task[Reply]] = {}
        self._awaited: Counter[bytes] = Counter()
        self._stopped: EngineStopped | None = None
        self.awaited = ""
        """After `close`: what has to be answered before the next run, in one line."""

    async def complete(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer calls concurrently; returns the replies in order.

        Raises EngineStopped after the calls in flight are answered and in the journal, so that
        every answer that was paid for is kept.
        """
        replies = await asyncio.gather(*map(self._joined, calls), return_exceptions=True)
        answered = []
        for reply in replies:
            if isinstance(reply, BaseException):
                # Wait for other callers' calls too, since the first error ends the whole run.
                await asyncio.gather(*self._in_flight.values(), return_exceptions=True)
                raise reply if isinstance(reply, Exception) else self._stopped or reply
            answered.append(reply)
        return answered

    def figures(self) -> dict[str, Any]:
        """Usage since the start, and its price in US dollars, as JSON."""
        usd = self.engine.price(self._done.tokens_in, self._done.tokens_out)
        return {**self._done.as_dict(), "usd": round(usd, 6)}

    def stop(self, error: EngineStopped) -> None:
        """Send no further calls; waiting ones fail with this error."""
        self._stopped = self._stopped or error

    async def close(self) -> None:
        """Refuse further calls, cancel those in flight, and close the session."""
        self.stop(EngineStopped("the run has ended"))
        rest = [*self._in_flight.values()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
            if (batch := self._batch) is not None:
                self.awaited = batch.awaited()
            self._session = None

    @property
    def _batch(self) -> BatchSession | None:
        """The session, if its answers come after the run."""
        return cast("BatchSession", self._session) if self.engine.deferred else None

    async def _joined(self, call: Call) -> Reply:
        """Answer a call, or share the reply of an equal call in flight, which alone pays for it.

        One that is given up ends only if nobody else waits for it.
        """
        task = self._in_flight.get(call.key)
        joins = task is not None and not task.cancelling()
        if task is None or not joins:
            task = self._begun(call)
        self._awaited[call.key] += 1
        try:
            reply = await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._awaited[call.key] == 1:
                task.cancel()
            raise
        finally:
            self._awaited[call.key] -= 1
            if not self._awaited[call.key]:
                del self._awaited[call.key]
        return replace(reply, known=True, retries=0) if joins else reply

    def _begun(self, call: Call) -> asyncio.Task[Reply]:
        """Send a call, which is in flight until it ends."""
        task = asyncio.ensure_future(self._bounded(call))
        self._in_flight[call.key] = task

        def ended(task: asyncio.Task[Reply]) -> None:
            if self._in_flight.get(call.key) is task:
                del self._in_flight[call.key]

        task.add_done_callback(ended)
        return task

    async def _bounded(self, call: Call) -> Reply:
        async with self._slots:
            try:
                if self._stopped is not None:
                    raise self._stopped
                # A client that read the log too early asks for an answer that has just arrived.
                if (entry := self._journal.find(call.key)) is not None:
                    return _reply(entry)
                session = await self._up()
                if (batch := self._batch) is not None:
                    return self._found(batch, call)
                await self._budget.reserve(self.engine, call)
                if self._stopped is not None:
                    raise self._stopped
                return self._booked(call, await answered(session, call))
            except SessionLostError as error:
                stopped = EngineStopped(f"{self.engine.name} died: {one_line(error)}")
                self.stop(stopped)
                raise stopped from error
            except EngineStopped as error:
                self.stop(error)
                raise
            finally:
                self._budget.release(call)

    def _found(self, session: BatchSession, call: Call) -> Reply:
        """Take an answer that came, or have the call collected within the budget."""
        if (reply := session.find(call)) is not None:
            return self._booked(call, reply)
        if session.pending(call):
            session.defer(call)
        elif self._budget.fits(self.engine, call):
            self._budget.promise(self.engine, call.most_tokens_in, self.engine.limit(call.prompt))
            session.defer(call)
        else:
            session.postpone(call)
        return Reply(fault=AWAITED)

    async def _up(self) -> Session:
        async with self._opening:
            if self._session is None:
                try:
                    self._session = await self._opener()
                except EngineStopped:
                    raise
                except Exception as error:
                    # An engine that does not start is no row's fault: end the run.
                    raise EngineStopped(f"{self.engine.name}: {one_line(error)}") from error
                if (batch := self._batch) is not None:
                    self._budget.promise(self.engine, *batch.submitted)
            return self._session

    def _booked(self, call: Call, reply: Reply) -> Reply:
        """Check a reply against its schema, count it, and write it to the journal."""
        if reply.fault is None:
            reply = replace(reply, fault=read(reply.text, call.prompt.schema, reply.finish).fault)
        usd = self.engine.price(reply.tokens_in, reply.tokens_out)
        beyond = reply.tokens_out - self.engine.limit(call.prompt)
        self._budget.settle(reply.tokens_in + reply.tokens_out, usd, beyond)
        self._done.add(
            Usage(
                calls=1,
                retries=reply.retries,
                tokens_in=reply.tokens_in,
                tokens_out=reply.tokens_out,
                faults=Counter([reply.fault.kind] if reply.fault else []),
            )
        )
        self._journal.append([_entry(self.engine, call, reply, usd)])
        self._watch(call, reply)
        self._tell(reply.note)
        return reply

    def _tell(self, note: str) -> None:
        """Tell what a reply says of its engine; a few notes, and what differs in numbers once."""
        kind = re.sub(r"\d[\d,.]*", "", note)
        if note and kind not in self._told:
            self._told.add(kind)
            _log.warning("%s: %s", self.engine.name, note)

    def _watch(self, call: Call, reply: Reply) -> None:
        """Stop the run if too many prompts are lost, before it pays for the rest."""
        self._first += call.attempt == 0
        self._lost += call.attempt > 0 and reply.fault is not None
        if self._first >= MIN_WATCHED and self._lost > self._max_lost_share * self._first:
            kinds = ", ".join(f"{k}: {n}" for k, n in self._done.faults.most_common(3))
            self.stop(
                EngineStopped(
                    f"{self._lost} of {self._first} prompts have no usable answer ({kinds}); "
                    f"the ceiling max_failed_share is {self._max_lost_share:g}"
                )
            )


def _entry(engine: Model, call: Call, reply: Reply, usd: float) -> Entry:
    return Entry(
        key=call.key,
        text=reply.text,
        fault=reply.fault.kind if reply.fault else "",
        detail=reply.fault.detail if reply.fault else "",
        tokens_in=reply.tokens_in,
        tokens_out=reply.tokens_out,
        usd=usd,
        retries=reply.retries,
        seconds=reply.seconds,
        task=call.prompt.schema.__name__,
        engine=engine.name,
    )


def _reply(entry: Entry) -> Reply:
    return Reply(
        text=entry.text,
        tokens_in=entry.tokens_in,
        tokens_out=entry.tokens_out,
        fault=Fault(entry.fault, entry.detail) if entry.fault else None,
        known=True,
    )


class Dispatchers:
    """The dispatchers of all engines of a run, which share one journal and one budget."""

    def __init__(self, openers: Mapping[Model, Opener], folder: Path, account: Account) -> None:
        """Bind a dispatcher for each engine to the log in `folder`; engines start later."""
        self._journal = Journal(folder)
        budget = open_budget(folder, account)
        self._hosts = {
            engine: Dispatcher(engine, opener, self._journal, budget, account.max_lost_share)
            for engine, opener in openers.items()
        }

    async def complete(self, engine: Model, calls: Sequence[Call]) -> list[Reply]:
        """Answer calls with one of the engines; see Dispatcher.complete."""
        return await self._hosts[engine].complete(calls)

    def figures(self) -> dict[str, dict[str, Any]]:
        """The figures of each engine by name; also seals a journal that has grown old."""
        self._journal.seal_if_due()
        return {engine.name: host.figures() for engine, host in self._hosts.items()}

    def awaited(self) -> str:
        """Say, after `close`, what has to be answered before the next run; "" for nothing."""
        return "; ".join(host.awaited for host in self._hosts.values() if host.awaited)

    async def close(self) -> dict[str, dict[str, Any]]:
        """Close every dispatcher, then the journal; returns the figures."""
        for host in self._hosts.values():
            await host.close()
        self._journal.close()
        return self.figures()
