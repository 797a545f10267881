"""The budget of a run: a hard ceiling on tokens and money."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from srrag.engine.base import Model
from srrag.engine.call import Call
from srrag.engine.log.completion_log import CompletionLog
from srrag.llm.completion import Account, EngineStopped


def open_budget(folder: Path, account: Account) -> Budget:
    """Open the budget of a run: the account's ceilings, less what the log has already paid for."""
    if account.max_tokens is None and account.max_usd is None:
        return Budget()
    paid = CompletionLog(folder).totals()
    return Budget(
        max_tokens=account.max_tokens,
        max_usd=account.max_usd,
        tokens=paid.tokens_in + paid.tokens_out,
        usd=paid.usd,
    )


@dataclass
class Budget:
    """Limits the tokens and US dollars of a log: those spent so far plus those of this run.

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
    _reserved: dict[bytes, tuple[int, float]] = field(default_factory=dict)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def reserve(self, engine: Model, call: Call) -> None:
        """Wait until the call surely fits the budget; raises EngineStopped if it never will."""
        if self.max_tokens is None and self.max_usd is None:
            return
        need = self._most(engine, call)
        while (key := self._exceeded(need)) is not None:
            if not self._reserved:
                raise EngineStopped(self._message(key))
            self._settled.clear()
            await self._settled.wait()
        self._reserved[call.key] = need

    def promise(self, engine: Model, tokens_in: int, tokens_out: int) -> None:
        """Count tokens that will be paid for after this run."""
        usd = engine.price(tokens_in, tokens_out)
        self.promised = self.promised[0] + tokens_in + tokens_out, self.promised[1] + usd

    def fits(self, engine: Model, call: Call) -> bool:
        """Whether the ceiling allows one more call beside what is promised.

        Raises EngineStopped if nothing is promised whose answers could make room.
        """
        key = self._exceeded(self._most(engine, call))
        if key is not None and not self.promised[0]:
            raise EngineStopped(self._message(key))
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
