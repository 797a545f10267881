"""The base class of engines that run a language model."""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import Self

from srrag.core.spec import place_field
from srrag.engine.call import Session
from srrag.llm.completion import Answer, Engine, Prompt


@dataclass(frozen=True)
class Worker:
    """The Ray resources of an engine replica that runs in its own process."""

    cpus: float
    gpus: float


@dataclass(frozen=True, kw_only=True)
class Model(Engine):
    """An engine that opens a session. `seed` and `temperature` are identity; the rest is placement.

    `seed` distinguishes repetitions: it enters the key of every prompt, and each answer's random
    seed derives from the key. `temperature` applies to prompts that set none; None means 0.
    Prices are in US dollars per million tokens, rates in tokens per second of the whole engine;
    both serve estimates and ceilings. `tokenizer` is a folder, a hub id, or "utf8" for four bytes
    per token; only estimates use it.
    """

    seed: int = 0
    temperature: float | None = None
    concurrency: int = place_field(64)
    usd_per_mtok_in: float | None = place_field(None)
    usd_per_mtok_out: float | None = place_field(None)
    tokens_per_s_in: float | None = place_field(None)
    tokens_per_s_out: float | None = place_field(None)
    tokenizer: str | None = place_field(None)

    def __post_init__(self) -> None:
        """Raise ValueError for a temperature outside [0, 2]."""
        if self.temperature is not None and not 0.0 <= self.temperature <= 2.0:
            raise ValueError(f"engine.temperature: {self.temperature} is not in [0, 2]")

    @property
    def started(self) -> Self:
        """The engine without seed and temperature; engines equal in the rest share a session."""
        return replace(self, seed=0, temperature=None)

    def appended(self, schema: type[Answer]) -> str:
        """The text that the engine appends to the system text for this schema; "" for none."""
        return ""

    def sampled(self, prompt: Prompt) -> Prompt:
        """The prompt with this engine's temperature, if the prompt sets none."""
        if self.temperature is None or prompt.temperature:
            return prompt
        return replace(prompt, temperature=self.temperature)

    def limit(self, prompt: Prompt) -> int:
        """The most tokens that an answer may have."""
        return prompt.max_tokens

    @property
    def replicas(self) -> int:
        """Number of sessions that share the calls."""
        return 1

    @property
    def counts_by(self) -> str | None:
        """The tokenizer that estimates count with, or None."""
        return self.tokenizer

    @property
    def hourly_usd(self) -> float:
        """US dollars per hour of the whole engine, in addition to the price of its tokens."""
        return 0.0

    @property
    def deferred(self) -> bool:
        """Whether answers come after the run, from files, instead of during it."""
        return False

    def worker(self) -> Worker | None:
        """The resources of a replica, or None if the session runs in the dispatcher's process."""
        return None

    def price(self, tokens_in: int, tokens_out: int) -> float:
        """The price of tokens in US dollars; 0 without prices."""
        prices = self.usd_per_mtok_in or 0.0, self.usd_per_mtok_out or 0.0
        return (tokens_in * prices[0] + tokens_out * prices[1]) / 1e6

    @property
    def priced(self) -> bool:
        """Whether a price is known: of tokens, or of hours and of tokens an hour."""
        by_token = None not in (self.usd_per_mtok_in, self.usd_per_mtok_out)
        return by_token or bool(self.hourly_usd and self.tokens_per_s_out)

    @abc.abstractmethod
    async def open(self) -> Session:
        """Start a session; raises an error of one clear line if it cannot start."""
