"""Sampling settings of a model: each seed has keys of its own, and the log stays what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from srrag.core.step import Place
from srrag.engine.call import Call, key_of
from srrag.engine.openai.engine import HttpEngine
from srrag.runner.engines import engines_here
from srrag.runner.ray.capacity import bundles
from tests.engines import EchoModel, ToyModel, prompt


def test_the_keys_of_logs_that_stand_are_what_they_were() -> None:
    engine = HttpEngine(model="m", revision="1", seed=0, temperature=None)
    key = key_of(engine, prompt("a", temperature=0.3, draw=2))
    assert key.hex() == "086634e4717d2a8b3908f5b24514ba93"


def test_each_seed_has_keys_and_seeds_of_answers_of_its_own() -> None:
    calls = [Call(key_of(ToyModel(seed=n), prompt("a")), prompt("a")) for n in (0, 1, 2)]
    assert len({call.key for call in calls}) == len({call.seed for call in calls}) == 3
    warm = ToyModel(temperature=0.7)
    assert key_of(warm, prompt("a")) != calls[0].key


def test_a_temperature_is_that_of_prompts_which_ask_for_none() -> None:
    warm = ToyModel(temperature=0.7)
    assert warm.sampled(prompt("a")).temperature == 0.7
    assert warm.sampled(prompt("a", temperature=0.1)).temperature == 0.1
    assert ToyModel().sampled(prompt("a")).temperature == 0.0


@pytest.mark.parametrize("temperature", [-0.1, 2.1, float("nan")])
def test_a_temperature_that_cannot_be_is_named(temperature: float) -> None:
    with pytest.raises(ValueError, match=r"engine\.temperature: .* is not in \[0, 2\]"):
        HttpEngine(model="m", temperature=temperature)


def test_seeds_share_what_is_started(tmp_path: Path) -> None:
    """A model is loaded once, however often its answers are repeated."""
    opened: list[str] = []

    class Counted(EchoModel):
        async def open(self):  # type: ignore[no-untyped-def]
            opened.append(self.name)
            return await super().open()

    models = [Counted(seed=n, temperature=n / 2) for n in range(3)]
    with engines_here(models, Place(root=tmp_path)) as engines:
        for model in models:
            (answer,) = engines.clients[model].complete([prompt("word")], 0, [True])
            assert answer.paid
        (again,) = engines.clients[models[1]].complete([prompt("word")], 0, [True])
        assert not again.paid
    assert opened == ["echo: echo"]


def test_seeds_take_the_room_of_one_engine() -> None:
    seeds = [EchoModel(apart=2, seed=n, temperature=0.7) for n in range(3)]
    assert bundles([], seeds) == bundles([], seeds[:1]) == [{"CPU": 0.1, "GPU": 0.0}] * 2
