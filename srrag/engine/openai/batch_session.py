"""The session of a folder of batch files: answers from files, and prompts into files."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from srrag.engine.call import Call, Reply
from srrag.engine.openai import protocol
from srrag.engine.openai.batch_folder import BatchFolder, PromptWriter, body_of, status_of

if TYPE_CHECKING:
    from pathlib import Path

    from srrag.engine.openai.engine import HttpEngine

MAX_TRIES = 3
"""Failed rows of one prompt (expired, refused, lost) after which it is not asked again."""


class BatchSession:
    """Finds answers in the files of a folder, and collects what has none in new files."""

    def __init__(self, engine: HttpEngine, folder: Path, found: BatchFolder) -> None:
        """Bind what the folder holds."""
        self._engine = engine
        self._folder = folder
        self._found = found
        self._dialect = engine.dialect
        self._writer = PromptWriter(folder)
        self._waiting: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._new = self._tokens_in = self._tokens_out = self._later = 0

    @classmethod
    async def open(cls, engine: HttpEngine, folder: Path) -> BatchSession:
        """Read the folder in a thread."""
        return cls(engine, folder, await asyncio.to_thread(BatchFolder, folder, engine.model))

    @property
    def submitted(self) -> tuple[int, int]:
        """The most tokens, in and out, of prompts in files that have no answer yet."""
        return self._found.submitted

    async def complete(self, call: Call) -> Reply:
        """Return an answer that came; raises ValueError for a call that has to wait."""
        if (reply := self.find(call)) is None:
            raise ValueError(f"{call.key.hex()}: no answer in {self._folder}")
        return reply

    def find(self, call: Call) -> Reply | None:
        """Return the answer to a call, or the fault that ends it; None if it has to wait."""
        name = call.key.hex()
        if (place := self._found.answers.get(name)) is not None:
            body = json.dumps(body_of(self._found.row(place))).encode("ascii")
            try:
                return protocol.read_completion(body, call, self._dialect.limit(call.prompt))
            except protocol.AttemptError as error:
                return Reply(fault=error.fault)
        failures = self._found.failures.get(name)
        if not failures or self._found.pending(name):
            return None
        row = self._found.row([*failures.values()][-1])
        failed = _error(status_of(row), row.get("error") or body_of(row))
        learned = self._engine.dialect.without(failed.fault.detail)
        if learned is not None:
            refused = self._dialect.refused | learned.refused
            self._dialect = replace(self._dialect, refused=refused)
        final = not (failed.passing or failed.hopeless or learned)
        if final or len(failures) >= MAX_TRIES:
            return Reply(fault=failed.fault, retries=len(failures) - 1)
        self._failed[failed.fault.detail] += 1
        return None

    def pending(self, call: Call) -> bool:
        """Whether the call is in a file already, and its answer has not come."""
        return self._found.pending(call.key.hex())

    def defer(self, call: Call) -> None:
        """Put a call into a new file, unless one holds it already."""
        if self.pending(call):
            name = self._found.files[self._found.prompts[call.key.hex()][-1]].name
            self._waiting[name] += 1
            return
        self._writer.append(call.key.hex(), self._dialect.request(call))
        self._new += 1
        texts = [message["content"] for message in call.messages()]
        texts.append(self._engine.appended(call.prompt.schema))
        self._tokens_in += protocol.estimate_tokens(*texts)
        self._tokens_out += self._dialect.limit(call.prompt)

    def postpone(self, call: Call) -> None:
        """Leave a call, which the ceiling does not allow now, to a later run."""
        self._later += 1

    async def close(self) -> None:
        """Give the files of new prompts their names."""
        self._writer.finish()

    def awaited(self) -> str:
        """Say in one line what has to be answered before the run can go on; "" for nothing."""
        parts = []
        if self._new:
            files = ", ".join(path.name for path in self._writer.written)
            usd = self._engine.price(self._tokens_in, self._tokens_out)
            price = f", {usd:.2f} USD" if self._engine.priced else ""
            parts.append(
                f"submit {files} as a batch (or to vllm run-batch): {self._new:,} prompts, about "
                f"{self._tokens_in:,} tokens in, at most {self._tokens_out:,} out{price}"
            )
        if self._waiting:
            files = ", ".join(f"{name} ({n:,})" for name, n in sorted(self._waiting.items()))
            parts.append(f"answers are still missing of {files}")
        if self._later:
            parts.append(f"{self._later:,} prompts wait for the ceiling of the budget")
        if not parts:
            return ""
        parts += [f"{n:,} failed ({why})" for why, n in self._failed.most_common(2)]
        found = self._found
        parts += [
            f"{n:,} answers are of model {name} and not of {self._engine.model}: not taken"
            for name, n in found.other_models.most_common(2)
        ]
        if unknown := found.unknown():
            parts.append(f"{unknown:,} answers are to no prompt in the folder")
        if found.unread:
            parts.append(f"{len(found.unread):,} lines are unreadable, such as {found.unread[0]}")
        return (
            f"{self._folder}: {'; '.join(parts)}; put the answers there as *.jsonl and give the "
            f"same command again"
        )


def _error(status: int, error: object) -> protocol.AttemptError:
    """Make the error of a failed row; one without a status, as expired rows are, may pass."""
    body = json.dumps(error if isinstance(error, dict) else {"error": error}).encode("ascii")
    if status >= 400:
        return protocol.read_error(status, {}, body)
    code = error.get("code") if isinstance(error, dict) else None
    told = protocol.message_of(body.decode("ascii"))
    made = protocol.AttemptError("server", f"{code}: {told}" if code else told)
    made.fault = replace(made.fault, detail=made.fault.detail or "no completion")
    return made
