from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from srrag.core.pipeline import bind
from srrag.core.step import bare
from srrag.retrieve.questions import question_table
from srrag.serve.batcher import Turns
from srrag.serve.listeners import ClientGone, Event, Listeners, observed
from srrag.storage.store import Store
from tests.unit.serve.serving import CAST, settings


def opened(root: Path) -> Any:
    told = settings(root, "pipeline=bm25")
    pipeline = told.pipelines["bm25"]
    at = bind(Store(root), "default", pipeline.needs(), told.at)
    heard = observed(pipeline)
    assert [*map(bare, heard.steps)] == [*pipeline.steps] and heard.writes == pipeline.writes
    assert [step.identity() for step in heard.steps] == [s.identity() for s in pipeline.steps]
    return heard.open(at)


def questions(*ids: str) -> Any:
    return question_table([{"query_id": each, "text": CAST} for each in ids])


def test_each_listener_hears_of_its_own_question(sample_root: Path) -> None:
    run = opened(sample_root)
    heard: dict[str, list[Event]] = {"a": [], "c": []}
    audience = Listeners({name: events.append for name, events in heard.items()}, lambda: True)
    with audience.present():
        out = run(questions("a", "b", "c"))
    for row in out.to_pylist():
        audience.finish(row)
    for events in heard.values():
        assert [data["step"] for name, data in events if name == "stage"] == [
            "SearchSparse",
            "SelectEvidence",
            "JudgeAnswerable",
            "ComposeAnswer",
        ]
        assert "".join(data for name, data in events if name == "token") == out["answer"][0].as_py()
    assert run(questions("a"))["answer"][0] == out["answer"][0], "and nobody has to listen"


def test_a_batch_that_nobody_waits_for_ends_before_its_next_step(sample_root: Path) -> None:
    run = opened(sample_root)
    stages: list[Event] = []
    audience = Listeners({"a": stages.append}, lambda: not stages)
    with audience.present(), pytest.raises(ClientGone):
        run(questions("a"))
    assert [data["step"] for _, data in stages] == ["SearchSparse"]


def test_a_batch_pauses_between_steps_while_it_is_anothers_turn(sample_root: Path) -> None:
    run, turns, over = opened(sample_root), Turns(), threading.Event()
    stages: list[Event] = []
    first = threading.Event()

    def hear(event: Event) -> None:
        stages.append(event)
        if not first.is_set():  # after the first step somebody comes who had less of late
            turns._spent["busy"] = (60.0, turns.clock())
            turns.enter("quiet")
            first.set()

    def work() -> None:
        audience = Listeners({"a": hear}, lambda: True, turns=turns, caller="busy")
        with audience.present():
            run(questions("a"))
        over.set()

    turns.enter("busy")
    thread = threading.Thread(target=work)
    thread.start()
    assert first.wait(20) and not over.wait(0.2)
    assert [data["step"] for _, data in stages] == ["SearchSparse"]
    turns.leave("quiet")
    assert over.wait(20)
    thread.join(5)
