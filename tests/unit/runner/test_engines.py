"""Engines on a thread: who still waits when a run ends is told, and never left waiting."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from srrag.completion import EngineStopped
from srrag.runner.engines import engines_here
from srrag.step import Place
from tests.engines import EchoModel, prompt


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
        thread.join(10)
    assert told == {"the run has ended": 6}
    assert not list(tmp_path.glob("completions/journal-*")), "sealed, with all that was answered"
