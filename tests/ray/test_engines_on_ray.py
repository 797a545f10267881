"""Engines as actors: shared by all stages, started again when they die, stopped in one line."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import psutil
import pyarrow as pa
import pytest
import ray

from srrag.core.schema import relation
from srrag.core.stage import Resources
from srrag.core.step import Function, Place, Step
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import Account, AnswersAwaited, EngineStopped
from srrag.runner.ray.data import RayDataRunner
from srrag.runner.runner import LocalRunner
from srrag.storage.store import Store
from tests.batch_runner import completed, of_openai, requests
from tests.engines import AskNumbers, EchoModel, good
from tests.toys import number_parts, plan

pytestmark = pytest.mark.ray
SIZES = [20, 30, 25, 10]
COUNT = sum(SIZES)


def words(store: Store, plan_, parts: list[str]) -> list[str]:
    tables = [store.read_part("s1", plan_.fingerprint("s1"), part) for part in parts]
    return [word for table in tables for word in table["word"].to_pylist()]


def run(root: Path, engine: EchoModel, runner=None, workers: int = 1, **account: object):
    store = Store(root)
    store.create()
    parts = number_parts(store, SIZES)
    plan_ = plan(AskNumbers(engine=engine), batch_rows=50, cpus=0.1, workers=workers)
    at = Place(root=root, account=Account(**account))
    (runner or RayDataRunner()).run(plan_, store, parts, at)
    return store, plan_, parts


def expected() -> list[str]:
    return [f"n{n}." for n in range(COUNT)]


# In replicas: what a host answers by itself is compared below, where a budget is spent.
def test_every_prompt_is_answered_and_logged_and_what_the_log_holds_starts_no_engine(
    ray_cluster: None, tmp_path: Path
) -> None:
    started, root = tmp_path / "pids", tmp_path / "root"
    started.mkdir()
    engine = EchoModel(apart=2, pid_folder=str(started))
    store, plan_, parts = run(root, engine, workers=2)
    assert words(store, plan_, parts) == expected()
    totals = CompletionLog(root / "completions").totals()
    assert (totals.completions, totals.paid_twice) == (COUNT, 0)
    receipts = [store.read_receipt("s1", plan_.fingerprint("s1"), part) for part in parts]
    assert sum(receipt.usage["calls"] for receipt in receipts) == COUNT
    assert [p.name for p in root.glob("completions/journal-*")] == [], "sealed at the end"
    assert len(before := sorted(started.iterdir())) == 2
    for part in parts:
        store.part_path("s1", plan_.fingerprint("s1"), part).unlink()
    run(root, engine)
    assert words(store, plan_, parts) == expected()
    assert sorted(started.iterdir()) == before


def test_the_local_runner_does_the_same(tmp_path: Path) -> None:
    store, plan_, parts = run(tmp_path, EchoModel(), LocalRunner())
    assert words(store, plan_, parts) == expected()
    assert CompletionLog(tmp_path / "completions").totals().completions == COUNT


# The host is killed under a whole build: tests/e2e/test_kill.py.
def test_a_killed_replica_loses_no_row(ray_cluster: None, tmp_path: Path) -> None:
    started = tmp_path / "pids"
    started.mkdir()
    engine = EchoModel(apart=2, pause_s=1.0, concurrency=8, pid_folder=str(started))
    killed: list[int] = []

    def kill() -> None:
        for _ in range(2):
            deadline = time.monotonic() + 150
            while time.monotonic() < deadline:
                pids = [int(p.name) for p in started.iterdir() if int(p.name) not in killed]
                alive = [pid for pid in pids if psutil.pid_exists(pid)]
                if alive:
                    time.sleep(0.5)
                    os.kill(alive[0], signal.SIGKILL)
                    killed.append(alive[0])
                    break
                time.sleep(0.05)

    thread = threading.Thread(target=kill)
    thread.start()
    store, plan_, parts = run(tmp_path / "root", engine)
    thread.join()
    assert len(killed) == 2
    assert words(store, plan_, parts) == expected()
    totals = CompletionLog(tmp_path / "root" / "completions").totals()
    assert totals.completions - totals.paid_twice == COUNT


def test_a_prompt_that_kills_its_engine_costs_itself(ray_cluster: None, tmp_path: Path) -> None:
    store, plan_, parts = run(tmp_path, EchoModel(apart=1, deadly="n7."))
    tables = [store.read_part("s1", plan_.fingerprint("s1"), part) for part in parts]
    rejects = [row for table in tables for row in table.to_pylist() if row["reject"]]
    assert [(row["raw_id"], row["reject"]["reason"]) for row in rejects] == [("7", "crash")]
    assert [w for w in words(store, plan_, parts) if w] == [w for w in expected() if w != "n7."]


def test_a_spent_budget_is_one_line_and_resumable(ray_cluster: None, tmp_path: Path) -> None:
    engine = EchoModel(concurrency=2)
    with pytest.raises(EngineStopped, match=r"budget\.max_tokens=1600 is spent") as caught:
        run(tmp_path, engine, workers=2, max_tokens=1600)
    assert "\n" not in str(caught.value)
    spent = CompletionLog(tmp_path / "completions").totals()
    assert 0 < spent.completions < COUNT
    store, plan_, parts = run(tmp_path, engine, max_tokens=3_000_000)
    assert words(store, plan_, parts) == expected()
    totals = CompletionLog(tmp_path / "completions").totals()
    assert (totals.completions, totals.paid_twice) == (COUNT, 0)


def test_two_runs_do_not_share_a_log(ray_cluster: None, tmp_path: Path) -> None:
    Store(tmp_path).create()
    held = CompletionLog(tmp_path / "completions").locked()
    with held, pytest.raises(ValueError, match="completions"):
        run(tmp_path, EchoModel())
    assert ray.is_initialized()


@dataclass(frozen=True, kw_only=True)
class Spell(Step):
    """Counts the letters of words, in a pool of its own."""

    reads: ClassVar[tuple[str, ...]] = ("raw_id", "word")
    writes: ClassVar[pa.Schema] = relation(("raw_id", pa.string()), ("letters", pa.int64()))

    def open(self, at: Place) -> Function:
        def run(batch: pa.Table) -> pa.Table:
            letters = [len(word) for word in batch["word"].to_pylist()]
            columns = {"raw_id": batch["raw_id"], "letters": letters, "reject": [None] * len(batch)}
            return pa.table(columns, schema=self.writes)

        return run


def test_prompts_of_all_parts_wait_in_files_and_the_run_goes_on_from_the_answers(
    ray_cluster: None, tmp_path: Path
) -> None:
    engine = HttpEngine(model="m", folder=str(tmp_path / "batch"))
    store = Store(tmp_path / "root")
    store.create()
    parts = number_parts(store, SIZES)
    plan_ = plan(AskNumbers(engine=engine), Spell(), batch_rows=5, cpus=0.1)
    plan_.stages[1] = replace(plan_.stages[1], resources=Resources(cpus=0.2))
    at = Place(root=store.root)
    for missing in (COUNT, 20):
        with pytest.raises(
            AnswersAwaited, match=rf"prompts-0001.jsonl.* {missing}\b|\({missing}\)"
        ):
            RayDataRunner().run(plan_, store, parts, at)
        rows = [
            of_openai(request, 200, completed(request, good(user)))
            for request in requests(tmp_path / "batch")
            for user in [request["body"]["messages"][1]["content"]]
            if missing != COUNT or int(user[1:-1]) >= 20
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "batch" / f"out-{missing}.jsonl").write_text(text, "utf-8")
        assert len(store.parts("s2", plan_.fingerprint("s2"))) == (0 if missing == COUNT else 3)
    RayDataRunner().run(plan_, store, parts, at)
    assert words(store, plan_, parts) == expected()
    assert len(store.parts("s2", plan_.fingerprint("s2"))) == len(parts)
    totals = CompletionLog(store.root / "completions").totals()
    assert (totals.completions, totals.paid_twice) == (COUNT, 0)
    assert len(requests(tmp_path / "batch")) == COUNT
