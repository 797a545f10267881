"""What every engine with a language model behind it has."""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import Self

from srrag.engine.call import Session
from srrag.llm.completion import Engine, Prompt
from srrag.spec import place_field


@dataclass(frozen=True)
class Worker:
    """What a replica in a process of its own takes of Ray's resources."""

    cpus: float
    gpus: float


@dataclass(frozen=True, kw_only=True)
class Model(Engine):
    """An engine that starts a session; but for sampling, the fields here are where it runs.

    `seed` tells repetitions apart: it is in the key of every prompt, from which the seed of each
    answer derives. `temperature` is that of prompts which ask for none of their own, None for 0.
    Prices are US dollars a million tokens, rates tokens a second (of the whole engine): both are
    for estimates and ceilings. `tokenizer` is a folder, a hub id, or "utf8" for four bytes a
    token; it only counts for estimates.
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
        """Raise ValueError for a temperature that cannot be."""
        if self.temperature is not None and not 0.0 <= self.temperature <= 2.0:
            raise ValueError(f"engine.temperature: {self.temperature} is not in [0, 2]")

    @property
    def started(self) -> Self:
        """What is started: engines that differ in sampling alone share a session."""
        return replace(self, seed=0, temperature=None)

    def sampled(self, prompt: Prompt) -> Prompt:
        """The prompt as it is sent."""
        if self.temperature is None or prompt.temperature:
            return prompt
        return replace(prompt, temperature=self.temperature)

    @property
    def replicas(self) -> int:
        """How many sessions share the calls."""
        return 1

    @property
    def counts_by(self) -> str | None:
        """The tokenizer that estimates count by, if any is known."""
        return self.tokenizer

    @property
    def hourly_usd(self) -> float:
        """US dollars an hour of the whole engine, beside those of its tokens."""
        return 0.0

    def worker(self) -> Worker | None:
        """What a replica takes, or None if its session lives in the host's process."""
        return None

    def price(self, tokens_in: int, tokens_out: int) -> float:
        """US dollars of tokens; 0 where no price is given."""
        prices = self.usd_per_mtok_in or 0.0, self.usd_per_mtok_out or 0.0
        return (tokens_in * prices[0] + tokens_out * prices[1]) / 1e6

    @abc.abstractmethod
    async def open(self) -> Session:
        """Start; raises with one clear line if that cannot be."""
