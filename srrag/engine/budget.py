"""A hard ceiling on tokens and money."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from srrag.engine.base import Model
from srrag.engine.call import Call
from srrag.engine.log.completion_log import CompletionLog
from srrag.llm.completion import Account, EngineStopped

_MESSAGE_TOKENS = 16
"""More than any chat template adds to a message."""


def open_budget(folder: Path, account: Account) -> Budget:
    """The budget of a run: an account's ceilings, and what the log has paid for so far."""
    paid = CompletionLog(folder).totals()
    return Budget(
        max_tokens=account.max_tokens,
        max_usd=account.max_usd,
        tokens=paid.tokens_in + paid.tokens_out,
        usd=paid.usd,
    )


def most_tokens_in(call: Call) -> int:
    """A bound on a prompt's tokens: no tokenizer makes more than one of a UTF-8 byte."""
    return sum(
        len(message["content"].encode("utf-8", "replace")) + _MESSAGE_TOKENS
        for message in call.messages()
    )


@dataclass
class Budget:
    """What may be spent, by everything that the log has paid for and this run will.

    A call reserves the most that it can cost before it is sent, and settles what it did cost:
    so the ceiling holds whatever the answers are. Near it, calls wait for each other. What an
    endpoint charges for calls that it never answered is not known, and not counted.
    """

    max_tokens: int | None = None
    max_usd: float | None = None
    tokens: int = 0
    usd: float = 0.0
    _reserved: dict[bytes, tuple[int, float]] = field(default_factory=dict)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def reserve(self, engine: Model, call: Call) -> None:
        """Wait until the call surely fits; raises EngineStopped if it never will."""
        if self.max_tokens is None and self.max_usd is None:
            return
        tokens_in, tokens_out = most_tokens_in(call), call.prompt.max_tokens
        need = tokens_in + tokens_out, engine.price(tokens_in, tokens_out)
        while (key := self._exceeded(need)) is not None:
            if not self._reserved:
                raise EngineStopped(self._message(key))
            self._settled.clear()
            await self._settled.wait()
        self._reserved[call.key] = need

    def settle(self, tokens: int, usd: float) -> None:
        """Book what a call did cost."""
        self.tokens += tokens
        self.usd += usd

    def release(self, call: Call) -> None:
        """Free what a call had reserved."""
        self._reserved.pop(call.key, None)
        self._settled.set()

    def _exceeded(self, need: tuple[int, float]) -> str | None:
        tokens = self.tokens + sum(item[0] for item in self._reserved.values()) + need[0]
        usd = self.usd + sum(item[1] for item in self._reserved.values()) + need[1]
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
