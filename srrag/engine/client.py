"""The client of an engine: answers from the log, and sends missing prompts to the dispatcher."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from srrag.core.errors import EngineError
from srrag.engine.base import Call, Model, Reply, key_of
from srrag.engine.log.completion_log import CompletionLog
from srrag.llm.completion import (
    AWAITED,
    NOT_ASKED,
    Completion,
    EngineStopped,
    Fault,
    Prompt,
    Usage,
    tally,
)
from srrag.llm.read_answer import read, read_logged

T = TypeVar("T")


class EngineLoop:
    """An event loop on its own thread."""

    def __init__(self) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engines", daemon=True)
        self._thread.start()
        self._closing = threading.Lock()
        self._closed = False

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop; raises EngineStopped once the loop is closed."""
        with self._closing:
            if self._closed:
                coroutine.close()
                raise EngineStopped("the run has ended")
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait; raises EngineStopped once the loop is closed."""
        return self.submit(coroutine).result()

    def close(self) -> None:
        """Finish the running coroutines, so that no thread waits for them forever."""
        with self._closing:
            self._closed = True
        asyncio.run_coroutine_threadsafe(_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _others() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*rest, return_exceptions=True)


Send = Callable[[Sequence[Call]], list[Reply]]
"""Sends calls to the dispatcher and waits; raises DispatcherLostError or EngineStopped."""

MAX_LOST = 8
"""Attempts to send one batch of calls, each lost with its dispatcher."""


class DispatcherLostError(EngineError):
    """The dispatcher died with calls in flight; a new one takes its place."""


@dataclass
class LogClient:
    """The Client of one engine in one process. Threads can share it, and it can be pickled."""

    engine: Model
    log_folder: Path
    send: Send
    fresh: bool = False

    def __post_init__(self) -> None:
        """Prepare the lock; the log opens at first use."""
        self._log: CompletionLog | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """The fields without the log and the lock of this process."""
        return {k: v for k, v in vars(self).items() if k not in ("_log", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the fields, with a new lock; the log opens at first use."""
        vars(self).update(state)
        self.__post_init__()

    def complete(
        self, prompts: Sequence[Prompt], attempt: int, may_call: Sequence[bool]
    ) -> list[Completion]:
        """Answer prompts from the log where possible, and the rest through the dispatcher."""
        keys = [key_of(self.engine, prompt, attempt) for prompt in prompts]
        answers = self._known(dict(zip(keys, prompts, strict=True)))
        cached = set(answers)
        missing = {
            key: Call(key, self.engine.sampled(prompt), attempt)
            for key, prompt, may in zip(keys, prompts, may_call, strict=True)
            if may and key not in answers
        }
        answers.update(self._called(missing, attempt))
        tally(Usage(cached=sum(key in cached for key in keys)))
        return [answers.get(key, Completion(fault=NOT_ASKED)) for key in keys]

    def _known(self, prompts: dict[bytes, Prompt]) -> dict[bytes, Completion]:
        """Look up the prompts' answers in the log by their keys."""
        entries = self._reader().lookup(list(prompts))
        known = {}
        usage = Usage()
        for key, entry in entries.items():
            known[key] = read_logged(entry.text, entry.fault, prompts[key].schema, entry.detail)
            usage.tokens_in += entry.tokens_in
            usage.tokens_out += entry.tokens_out
        usage.cached_tokens_in, usage.cached_tokens_out = usage.tokens_in, usage.tokens_out
        tally(usage)
        return known

    def _reader(self) -> CompletionLog:
        with self._lock:
            if self._log is None:
                self._log = CompletionLog(self.log_folder)
            return self._log

    def _called(self, missing: dict[bytes, Call], attempt: int) -> dict[bytes, Completion]:
        """Send calls, the longest first, so that no long one starts last."""
        answers: dict[bytes, Completion] = {}
        reason = ""
        for _ in range(MAX_LOST):
            calls = sorted(
                (call for key, call in missing.items() if key not in answers),
                key=lambda call: (-len(call.prompt.user), call.key),
            )
            if not calls:
                return answers
            try:
                replies = self.send(calls)
            except DispatcherLostError as error:
                reason = str(error)
                # The lost dispatcher's answers are in its journal.
                self._reader().refresh()
                answers.update(self._known({call.key: call.prompt for call in calls}))
                continue
            for call, reply in zip(calls, replies, strict=True):
                answers[call.key] = _completion(call, reply)
                if reply.fault != AWAITED:
                    tally(_usage(reply, attempt))
            return answers
        raise EngineStopped(f"{self.engine.name}: its host died {MAX_LOST} times: {reason}")


def _usage(reply: Reply, attempt: int) -> Usage:
    tokens = reply.tokens_in, reply.tokens_out
    if reply.known:
        return Usage(0, 1, 0, 0, *tokens, *tokens)
    return Usage(1, 0, reply.retries, int(attempt > 0), *tokens)


def _completion(call: Call, reply: Reply) -> Completion:
    schema, fault = call.prompt.schema, reply.fault
    if fault == AWAITED:
        completion = Completion(fault=AWAITED)
    elif fault is None and not reply.known:
        completion = read(reply.text, schema, reply.finish)
    else:
        fault = fault or Fault("", "")
        completion = read_logged(reply.text, fault.kind, schema, fault.detail)
    return replace(completion, paid=not reply.known)
