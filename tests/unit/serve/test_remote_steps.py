"""Steps that stand apart: the same answers, by a host of steps in another thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from srrag.core.errors import UsageError
from srrag.core.pipeline import bind, build_version
from srrag.lab.measure.references import read_gold, resource_path
from srrag.retrieve.questions import question_table
from srrag.retrieve.search import SearchDense
from srrag.serve.batcher import Turns
from srrag.serve.errors import ApiError, Refused, busy
from srrag.serve.ray.step_worker import StepWorker
from srrag.serve.remote_steps import Callers, RemoteCall, apart
from srrag.serve.settings import ServeSettings
from srrag.serve.snapshot import PipelineJob, SharedEngines, Snapshot
from srrag.storage.store import Store
from tests.unit.serve.serving import CAST, settings
from tests.unranked import WITHOUT_BETR

SAMPLE = "pkg://srrag/sample/questions.jsonl"
APART = [
    "+deployments.ranker.steps=[RerankMaxSim,EncodeQuestions]",
    "+deployments.windows.steps=[SearchDense]",
    "+deployments.windows.shards=3",
]


@dataclass
class Here:
    """A caller whose host runs in a thread of this process; `fault` refuses all work."""

    host: StepWorker
    loop: asyncio.AbstractEventLoop
    fault: ApiError | None = None
    seen: list[RemoteCall] = field(default_factory=list)

    def __call__(
        self, work: RemoteCall, table: bytes, seconds: float, wanted: Callable[[], bool]
    ) -> bytes:
        self.seen.append(work)
        if self.fault is not None and table:
            raise Refused(self.fault)
        running = self.host.run(work, table, seconds if table else 60)
        result = asyncio.run_coroutine_threadsafe(running, self.loop).result(60)
        if isinstance(result, ApiError):
            raise Refused(result)
        return result


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def callers_of(told: ServeSettings, loop: asyncio.AbstractEventLoop) -> dict[str, list[Here]]:
    return {
        name: [Here(StepWorker(told, name, shard), loop) for shard in range(chosen.shards)]
        for name, chosen in told.apart.items()
    }


def answers(told: ServeSettings, callers: Callers | None, texts: list[str]) -> list[dict[str, Any]]:
    (pipeline,) = told.pipelines.values()
    at = bind(Store(told.root), "default", pipeline.needs(), told.at)
    if callers is not None:
        version = build_version(Store(told.root), "default")
        pipeline = apart(told, callers)(pipeline, at, version)
    rows = question_table([{"query_id": str(n), "text": text} for n, text in enumerate(texts)])
    found: list[dict[str, Any]] = pipeline.open(at)(rows).to_pylist()
    timed = ("trace", "search_trace")
    return [{name: value for name, value in row.items() if name not in timed} for row in found]


@pytest.mark.parametrize("pipeline", ["hybrid_maxsim", "srrag"])
def test_answers_are_the_same_wherever_steps_work(
    sample_root: Path, loop: asyncio.AbstractEventLoop, pipeline: str
) -> None:
    texts = [row["text"] for row in read_gold(resource_path(SAMPLE))][:6]
    more = WITHOUT_BETR if pipeline == "srrag" else ()
    ranks = "FuseFeatures" if pipeline == "srrag" else "RerankMaxSim"
    away = [item.replace("RerankMaxSim", ranks) for item in APART]
    told = settings(sample_root, f"pipeline={pipeline}", *away, *more)
    callers = callers_of(told, loop)
    assert answers(told, callers, texts) == answers(told, None, texts)
    asked = [each for shards in callers.values() for caller in shards for each in caller.seen]
    assert {each.step for each in asked} and len(callers["windows"]) == 3
    assert all(caller.seen for shards in callers.values() for caller in shards)


def test_a_bad_row_is_rejected_alone(sample_root: Path, loop: asyncio.AbstractEventLoop) -> None:
    told = settings(sample_root, *APART)
    found = answers(told, callers_of(told, loop), [CAST, "?!"])
    assert found[0]["reject"] is None and found[1]["reject"]["reason"] == "empty_question"


def test_what_another_deployment_refuses_reaches_every_request(
    sample_root: Path, loop: asyncio.AbstractEventLoop
) -> None:
    told = settings(sample_root, *APART[:1])
    callers = callers_of(told, loop)
    edition = Snapshot(told, SharedEngines(told), apart(told, callers))

    async def asked(seconds: float) -> list[Any]:
        from srrag.serve.batcher import Ticket

        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        ticket = Ticket("answer", PipelineJob({"text": CAST}), time.monotonic() + seconds, future)
        return list(edition.work("answer:hybrid_maxsim", [ticket], Turns()))

    (answered,) = asyncio.run(asked(60))
    assert answered.row["reject"] is None
    callers["ranker"][0].fault = busy(3.0)
    (refused,) = asyncio.run(asked(60))
    assert (refused.status, refused.code, refused.retry_s) == (503, "busy", 3.0)
    edition.close()


def test_without_one_shard_there_is_no_answer(
    sample_root: Path, loop: asyncio.AbstractEventLoop
) -> None:
    told = settings(sample_root, *APART)
    callers = callers_of(told, loop)
    callers["windows"][-1].fault = busy(3.0)  # the last, as the others have answered by then
    with pytest.raises(Refused):
        answers(told, callers, [CAST])


def test_versions_are_opened_apart_and_the_oldest_goes(
    sample_root: Path, loop: asyncio.AbstractEventLoop
) -> None:
    told = settings(sample_root, *APART[:1])
    host = StepWorker(told, "ranker")
    (pipeline,) = told.pipelines.values()
    at = bind(Store(told.root), "default", pipeline.needs(), told.at)
    for version in ("first", "second", "third"):
        opened = host.run(RemoteCall(0, version, dict(at.artifacts)), b"", 60)
        asyncio.run_coroutine_threadsafe(opened, loop).result(60)
    assert {version for version, _ in host._functions} == {"second", "third"}
    late = host.run(RemoteCall(0, "third", dict(at.artifacts)), b"", -1)
    fault = asyncio.run_coroutine_threadsafe(late, loop).result(60)
    assert isinstance(fault, ApiError) and fault.status == 504


def test_steps_are_open_before_they_are_asked(
    sample_root: Path, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = settings(sample_root, *APART)
    callers = callers_of(told, loop)
    for caller in (each for shards in callers.values() for each in shards):
        caller.host.open()
    opens = SearchDense.searcher
    monkeypatch.setattr(SearchDense, "searcher", lambda step, at: pytest.fail("opened late"))
    found = answers(told, callers, [CAST])
    monkeypatch.setattr(SearchDense, "searcher", opens)
    assert found == answers(told, None, [CAST])


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (["+deployments.ranker.steps=[RerankNothing]"], "no pipeline here has a step"),
        (["+deployments.ranker.steps=[ComposeAnswer]"], "asks an engine"),
        (["+deployments.ranker.steps=[RerankMaxSim]", "+deployments.ranker.shards=2"], "shards"),
        (["+deployments.a.steps=[SearchDense]", "+deployments.b.steps=[SearchDense]"], "b: Search"),
        (["+deployments.ranker.steps=[RerankMaxSim]", "+deployments.ranker.gpu=1"], "gpu"),
        (["+deployments.Ranker.steps=[RerankMaxSim]"], "small letters"),
    ],
)  # fmt: skip
def test_deployments_that_cannot_be_are_one_line(
    sample_root: Path, wrong: list[str], named: str
) -> None:
    with pytest.raises(UsageError, match=named):
        settings(sample_root, *wrong)
