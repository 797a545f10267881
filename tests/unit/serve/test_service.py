"""The host of pipelines: batches, new versions, engines."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import jobs.forget
from srrag.config.compose import configure
from srrag.core.pipeline import Pipeline
from srrag.core.step import Step
from srrag.engine.base import Call, Reply
from srrag.engine.dispatcher import Dispatcher
from srrag.engine.openai import session
from srrag.expand.read_follow_up import ReadFollowUp
from srrag.lab.measure.references import read_gold, resource_path
from srrag.retrieve.search import SearchSparse
from srrag.serve import service
from srrag.serve.errors import ApiError
from srrag.serve.service import AccessLog, PipelineService
from srrag.serve.settings import Limits, ServeSettings
from srrag.serve.snapshot import (
    Move,
    PipelineJob,
    PipelineResult,
    SharedEngines,
    Snapshot,
    opening_fault,
)
from srrag.storage.atomic_write import commit_json
from srrag.storage.store import Store
from tests.endpoint import Endpoint, serve
from tests.engines import ToyModel
from tests.sample_json import asked_schema, read_papers, supported
from tests.unit.serve.serving import (
    CAST,
    CitingModel,
    CitingSession,
    citing,
    events,
    served,
    settings,
)

SAMPLE = "pkg://srrag/sample/questions.jsonl"


def run(told: ServeSettings, use: Callable[[PipelineService], Awaitable[None]]) -> None:
    async def main() -> None:
        host = PipelineService(told)
        async with asyncio.timeout(500), host.running():
            await use(host)

    asyncio.run(main())


async def ask(
    host: PipelineService, text: str, kind: str = "answer:bm25", s: float = 60
) -> PipelineResult:
    return await host.answered(host.ask(kind, PipelineJob({"text": text}), time.monotonic() + s))


def toy_host(tmp_path: Path, *more: Step, **limits: Any) -> PipelineService:
    """A host of an empty root, which has opened nothing."""
    pipeline = Pipeline(rank=(), answer=(*more, SearchSparse()))
    told = ServeSettings(root=tmp_path, pipelines={"toy": pipeline}, limits=Limits(**limits))
    return PipelineService(told)


def told(found: PipelineResult) -> tuple[Any, ...]:
    return found.row["answer"], [item["unit_id"] for item in found.row["evidence"]]


def test_questions_of_several_requests_are_answered_as_each_alone(sample_root: Path) -> None:
    texts = [row["text"] for row in read_gold(resource_path(SAMPLE))][:12]

    async def use(host: PipelineService) -> None:
        kind = "answer:hybrid_maxsim"
        alone = [await ask(host, text, kind) for text in texts]
        assert {found.batch_rows for found in alone} == {1}
        bad = asyncio.create_task(ask(host, "?", kind))
        together = await asyncio.gather(*(ask(host, text, kind) for text in texts))
        assert max(found.batch_rows for found in together) >= 10
        assert list(map(told, together)) == list(map(told, alone))
        with pytest.raises(ApiError) as caught:
            await bad
        assert caught.value.status == 422, "and a bad neighbour touches nobody"

    run(settings(sample_root), use)


def test_a_new_version_goes_live_without_a_lost_request(sample_root: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(sample_root, root)

    async def use(host: PipelineService) -> None:
        first = await ask(host, CAST)
        gone = first.row["evidence"][0]["doc_id"]
        found: list[PipelineResult] = []
        over = asyncio.Event()

        async def client() -> None:
            while not over.is_set():
                found.append(await ask(host, CAST))

        clients = [asyncio.create_task(client()) for _ in range(3)]
        config = configure("forget", [f"root={root}", f"doc_id={gone}"])
        await asyncio.to_thread(jobs.forget.run, {**config, "command": "test"})
        until = time.monotonic() + 300
        while host.edition.version == first.version and time.monotonic() < until:
            await asyncio.sleep(0.05)
        late = len(found)
        while len(found) < late + 10:
            await asyncio.sleep(0.01)
        over.set()
        await asyncio.gather(*clients)
        versions = [each.version for each in found]
        new = host.edition.version
        assert set(versions) == {first.version, new} and versions == sorted(
            versions, key=lambda version: version == new
        ), "never back to the former"
        for each in found:
            shown = {item["doc_id"] for item in each.row["evidence"]}
            assert (gone in shown) == (each.version == first.version)

    run(settings(root, "pipeline=bm25", "limits.watch_s=0.1"), use)


def test_a_build_that_cannot_be_opened_changes_nothing(sample_root: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(sample_root, root)
    pointer = root / "builds" / "default.json"

    async def use(host: PipelineService) -> None:
        version = host.edition.version
        good = json.loads(pointer.read_text())
        bad = {**good, "stages": {k: v for k, v in good["stages"].items() if k != "sparse"}}
        commit_json(pointer, bad, sealed=True)
        with pytest.raises(ValueError, match="sparse"):
            await host.reload()
        assert "sparse" in host.stale
        assert (await ask(host, CAST)).version == version
        commit_json(pointer, good, sealed=True)
        assert await host.reload() == version and not host.stale

    run(settings(root, "pipeline=bm25", "limits.watch_s=0"), use)


def test_the_watch_goes_on_after_an_error_that_nobody_foresaw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_FAILED_PAUSE", 1)
    host = toy_host(tmp_path, watch_s=0.01)
    host.log = AccessLog(tmp_path / "log.jsonl")
    faults: list[Exception] = [TypeError("an unexpected keyword argument 'x'"), KeyError("parts")]

    async def main() -> None:
        live = asyncio.Event()

        async def reload() -> str:
            if faults:
                raise faults.pop(0)
            live.set()
            return "new"

        monkeypatch.setattr(host, "reload", reload)
        pointer = Store(tmp_path).pointer_path(host.settings.build)
        pointer.parent.mkdir(parents=True)
        pointer.touch()
        watching = asyncio.create_task(host._watch())
        reloaded = asyncio.create_task(live.wait())
        await asyncio.wait([watching, reloaded], timeout=60, return_when=asyncio.FIRST_COMPLETED)
        watching.cancel()
        reloaded.cancel()
        assert live.is_set()

    asyncio.run(main())
    lines = (tmp_path / "log.jsonl").read_text("utf-8").splitlines()
    told = [json.loads(line)["error"] for line in lines]
    assert told == ["TypeError: an unexpected keyword argument 'x'", "KeyError: no 'parts'"]


def test_a_stuck_batch_fails_the_health_check(sample_root: Path) -> None:
    async def use(host: PipelineService) -> None:
        host.check()
        waiting = asyncio.create_task(ask(host, CAST))
        await asyncio.sleep(0)
        time.sleep(0.05)
        with pytest.raises(RuntimeError, match="in hand"):
            host.check()
        await waiting

    run(settings(sample_root, "pipeline=bm25", "limits.stuck_s=0.001"), use)


def answers(request: dict[str, Any]) -> str:
    """A cited answer, of which a sentence also cites what is not there; all is supported."""
    if (asked_schema(request) or {}).get("title") == "CheckedAnswer":
        return supported(request)
    answer = json.loads(read_papers(request, "It is so.", "It was so."))
    answer["answer"][1]["sentences"].append("99.1")
    return json.dumps(answer)


def with_model(root: Path, url: str, *more: str) -> ServeSettings:
    engine = ["engine=http", "engine.model=m", f"engine.base_url={url}", "engine.max_retries=0"]
    log = f"completions={root}/completions"
    return settings(root, "pipeline=bm25", *engine, log, *more)


def test_a_model_is_heard_while_it_writes(sample_root: Path, tmp_path: Path) -> None:
    log = f"completions={tmp_path}"
    with (
        serve(Endpoint(script=answers)) as endpoint,
        served(with_model(sample_root, endpoint.url, log)) as (client, _),
    ):
        response = client.post("/v1/answers/stream", json={"question": CAST})
        again = client.post("/v1/answers", json={"question": CAST}).json()
        metrics = client.get("/metrics").text
    heard = events(response.text)
    tokens = [data["text"] for name, data in heard if name == "token"]
    assert len(tokens) > 1 and "99" not in "".join(tokens)
    final = heard[-1][1]
    assert " [1]" in final["answer"] and final["state"] == "answered"
    assert final["model"] != "rules"
    assert final["usage"]["tokens_out"] > 0
    assert again["answer"] == final["answer"]
    assert again["usage"]["calls"] == 0, "what the log holds is not paid for again"
    for source in ("model", "log"):
        labels = rf'pipeline="bm25",replica="\w+",source="{source}"}} '
        assert re.search(f"srrag_engine_answers_total{{{labels}", metrics)
        assert re.search(f'srrag_engine_tokens_total{{direction="out",{labels}', metrics)


def test_an_engine_that_is_gone_is_503_and_comes_back(
    sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "FAILURES", 1)
    monkeypatch.setattr(session, "GRACE_S", 0.0)
    more = [f"completions={tmp_path}"]
    body = {"question": CAST}
    endpoint = Endpoint(script=answers, faults="error=1")
    with serve(endpoint), served(with_model(sample_root, endpoint.url, *more)) as (client, _):
        first = client.post("/v1/answers", json=body)
        assert (first.status_code, first.json()["error"]["code"]) == (503, "engine"), first.text
        assert int(first.headers["retry-after"]) >= 1
        heard = events(client.post("/v1/answers/stream", json=body).text)
        assert heard[-1][0] == "error"
        endpoint._plan.clear()
        until = time.monotonic() + 120
        while client.post("/v1/answers", json=body).status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.2)


def engine_threads() -> int:
    return sum(thread.name == "engines" for thread in threading.enumerate())


def test_engines_are_renewed_one_at_a_time_and_closed_where_nothing_opens_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "ENGINE_RETRY_S", 0.0)
    host, before = toy_host(tmp_path, ReadFollowUp(engine=ToyModel())), engine_threads()
    opened, may_end, logged = list[SharedEngines](), threading.Event(), list[dict[str, Any]]()
    monkeypatch.setattr(host, "log", lambda **line: logged.append(line))

    def opening(_: ServeSettings, engines: SharedEngines, move: Move) -> Snapshot:
        opened.append(engines)
        assert may_end.wait(60)
        raise ValueError("there is no such file")

    async def renewed() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*tasks, return_exceptions=True)

    async def main() -> None:
        host._edition = cast(Snapshot, SimpleNamespace(version="first"))
        host._renew_engines()
        until = time.monotonic() + 60
        while not opened and time.monotonic() < until:
            await asyncio.sleep(0.01)
        assert engine_threads() == before + 1
        for _ in range(3):
            host._renew_engines()
        may_end.set()
        await renewed()
        assert (len(opened), engine_threads()) == (1, before)
        host._renew_engines()
        await renewed()
        assert (len(opened), engine_threads()) == (2, before), "the next one is a new attempt"

    monkeypatch.setattr(service, "Snapshot", opening)
    asyncio.run(main())
    assert opened[0] is not opened[1] and host.stale == "there is no such file"
    assert logged == 2 * [{"event": "reload", "error": "ValueError: there is no such file"}]


def test_a_call_that_nobody_waits_for_is_given_up(
    sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = settings(sample_root, "pipeline=bm25", f"completions={tmp_path}")
    engine, session = CitingModel(), CitingSession(pause_s=60)
    told = replace(told, pipelines={"bm25": citing(told, engine)})

    joined, waiting = Dispatcher._joined, list[bytes]()

    async def counted(self: Dispatcher, call: Call) -> Reply:
        waiting.append(call.key)
        return await joined(self, call)

    async def opened() -> CitingSession:
        return session

    async def main() -> None:
        host = PipelineService(told, openers={engine: opened})
        async with asyncio.timeout(300), host.running():
            # Two equal questions share a call; that of the first is not taken from the second.
            first = asyncio.create_task(ask(host, CAST))
            while not session.begun:
                await asyncio.sleep(0.02)
            second = asyncio.create_task(ask(host, CAST))
            while len(waiting) < 2:
                await asyncio.sleep(0.02)
            first.cancel()
            await asyncio.sleep(0.2)
            session.pause_s = 0
            found = await second
            assert " [1]" in found.row["answer"]
            assert (session.begun, session.given_up) == (1, 0)
            session.pause_s = 60
            for s in (0.3, 1.0, 3.0, 10.0, 30.0):  # long enough to reach the model
                with pytest.raises(ApiError) as caught:
                    await ask(host, CAST + " Why?", s=s)
                assert caught.value.status == 504
                await asyncio.sleep(0.5)
                if session.given_up:
                    break
            assert session.given_up == 1

    monkeypatch.setattr(Dispatcher, "_joined", counted)
    asyncio.run(main())


def test_why_a_server_cannot_start_is_told_in_a_line(sample_root: Path) -> None:
    told = opening_fault(settings(sample_root, "pipeline=hybrid_betr"))
    assert "betr.json: there is no such file" in told and "\n" not in told
    assert opening_fault(settings(sample_root, "pipeline=srrag")) == ""
