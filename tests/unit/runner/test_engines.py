"""Engines on a thread: who still waits when a run ends is told, and never left waiting."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from srrag.core.pipeline import PipelineSlice
from srrag.core.step import Place
from srrag.engine.base import Session, SessionLostError
from srrag.llm.completion import Account, EngineStopped
from srrag.runner.engines import engines_here, engines_of
from srrag.runner.runner import LocalRunner
from srrag.storage.store import Store
from tests.engines import AskNumbers, EchoModel, ScriptedSession, prompt
from tests.toys import number_parts, plan


@pytest.mark.parametrize("pause_s", [0.0, 0.01, 30.0])
def test_threads_that_wait_when_a_run_ends_are_told(tmp_path: Path, pause_s: float) -> None:
    engine = EchoModel(pause_s=pause_s, concurrency=4)
    told: Counter[str] = Counter()

    def work(thread: int) -> None:
        try:
            for n in range(100_000):
                client.complete([prompt(f"{thread}.{n}.{i}") for i in range(8)], 0, [True] * 8)
        except EngineStopped as error:
            told[str(error)] += 1

    with engines_here([engine], Place(root=tmp_path)) as engines:
        client = engines.clients[engine]
        threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(6)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
    for thread in threads:
        thread.join(60)
    assert told == {"the run has ended": 6}
    assert not list(tmp_path.glob("completions/journal-*")), "sealed, with all that was answered"


@dataclass(frozen=True, kw_only=True)
class Broken(EchoModel):
    """Does not start, or is lost at its first call."""

    lost: bool = False

    async def open(self) -> Session:
        if not self.lost:
            raise ValueError("there is no GPU\nhere")
        return ScriptedSession(lambda call: SessionLostError("its process ended"))


@pytest.mark.parametrize(
    ("lost", "words"), [(False, "echo: echo: there is no GPU here"), (True, "echo: echo died: its")]
)
def test_an_engine_that_fails_ends_the_run_and_costs_no_row(
    tmp_path: Path, lost: bool, words: str
) -> None:
    store = Store(tmp_path)
    store.create()
    parts = number_parts(store, [5, 5])
    broken = plan(AskNumbers(engine=Broken(lost=lost)))
    with pytest.raises(EngineStopped, match=words):
        LocalRunner().run(broken, store, parts, Place(root=tmp_path))
    assert store.parts("s1", broken.fingerprint("s1")) == set()


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_ceiling_on_money_needs_prices(tmp_path: Path, exclusive: bool) -> None:
    at = Place(root=tmp_path, account=Account(max_usd=1.0))
    with (
        pytest.raises(ValueError, match="usd_per_mtok_in"),
        engines_here([EchoModel()], at, exclusive),
    ):
        pass


def test_a_slice_asks_the_engines_of_its_own_steps() -> None:
    first, second = AskNumbers(engine=EchoModel()), AskNumbers(engine=Broken())
    assert engines_of([PipelineSlice(steps=(second,), before=(first,))]) == [Broken()]
    assert engines_of([first, second]) == [EchoModel(), Broken()]
