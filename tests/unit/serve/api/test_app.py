"""The HTTP API on the sample's build, in this process."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

import srrag
from srrag.core.pipeline import bind
from srrag.rerank.betr import scorer
from srrag.retrieve.questions import MAX_QUESTION_CHARS, question_table
from srrag.serve.api import browse
from srrag.serve.api.bodies import SynthesisRequest
from srrag.storage.store import Store
from srrag.synthesis.synthesis import Synthesis
from tests.findings_root import PREVENTS, with_findings
from tests.unit.serve.serving import CAST, events, served, settings

QUESTION = {"question": CAST}
CHAT = {"model": "srrag", "messages": [{"role": "user", "content": CAST}]}


@pytest.fixture(scope="module")
def client(sample_root: Path) -> Iterator[TestClient]:
    told = settings(sample_root, "also=[bm25]", "limits.max_body_bytes=50000")
    with served(told) as (client, _):
        yield client


def code(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_an_answer_is_that_of_the_pipeline_with_its_evidence(
    client: TestClient, sample_root: Path
) -> None:
    told = settings(sample_root)
    pipeline = told.pipelines["hybrid_maxsim"]
    at = bind(Store(sample_root), "default", pipeline.needs(), told.at)
    row = pipeline.open(at)(question_table([{"query_id": "q", "text": CAST}])).to_pylist()[0]
    reply = client.post("/v1/answers", json=QUESTION).json()
    assert reply["answer"] == row["answer"]
    assert reply["model"] == "rules"
    assert [item["unit_id"] for item in reply["evidence"]] == [
        e["unit_id"] for e in row["evidence"]
    ]
    assert [item["number"] for item in reply["evidence"]] == list(
        range(1, len(row["evidence"]) + 1)
    )
    for sentence, known in zip(reply["sentences"], row["sentences"], strict=True):
        cited = [reply["evidence"][n - 1] for n in sentence["citations"]]
        named = [e["unit_id"] for e in row["evidence"] if e["evidence_id"] in known["evidence_ids"]]
        assert sorted(item["unit_id"] for item in cited) == sorted(named)
    assert {item["study"] for item in reply["evidence"] if item["grade"] == "A"} == {
        "guideline or consensus"
    }
    assert reply["why"] is None


def test_a_request_chooses_its_pipeline_and_may_ask_why(client: TestClient) -> None:
    body = {**QUESTION, "pipeline": "bm25", "options": {"trace": True}}
    reply = client.post("/v1/answers", json=body).json()
    assert reply["pipeline"] == "bm25"
    assert [step["step"] for step in reply["trace"]] == [
        "SearchSparse",
        "SelectEvidence",
        "JudgeAnswerable",
        "ComposeAnswer",
    ]
    assert [each["unit_id"] for each in reply["why"]] == [e["unit_id"] for e in reply["evidence"]]


def test_a_stream_tells_stages_evidence_and_the_answer(client: TestClient) -> None:
    whole = client.post("/v1/answers", json=QUESTION).json()
    response = client.post("/v1/answers/stream", json=QUESTION)
    assert response.headers["content-type"].startswith("text/event-stream")
    heard = events(response.text)
    names = [name for name, _ in heard]
    assert names[0] == "stage" and names[-1] == "final"
    stages = [data["step"] for name, data in heard if name == "stage"]
    assert stages == [step["step"] for step in whole["trace"]]
    assert names.index("evidence") < names.index("token") < names.index("final")
    assert "".join(data["text"] for name, data in heard if name == "token") == whole["answer"]
    varying = {"id": 0, "trace": 0}
    assert {**heard[-1][1], **varying} == {**whole, **varying}


def test_chat_completions_cite_in_the_text_and_in_a_field(client: TestClient) -> None:
    whole = client.post("/v1/answers", json=QUESTION).json()
    reply = client.post("/v1/chat/completions", json=CHAT).json()
    content = reply["choices"][0]["message"]["content"]
    assert content.startswith(whole["answer"])
    assert "Sources:\n[" in content and "grade A" in content
    assert reply["srrag"]["sentences"] == whole["sentences"]
    assert reply["usage"]["total_tokens"] == 0, "rules read no token"
    text = client.post("/v1/chat/completions", json={**CHAT, "stream": True}).text
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == content
    assert chunks[-1]["srrag"]["evidence"] == whole["evidence"]


def test_models_are_the_pipelines(client: TestClient) -> None:
    names = [item["id"] for item in client.get("/v1/models").json()["data"]]
    assert names == ["srrag", "hybrid_maxsim", "bm25"]
    for name in names:
        assert client.get(f"/v1/models/{name}").json()["id"] == name
    unknown = client.get("/v1/models/gpt-4")
    assert code(unknown) == (404, "no_pipeline") and unknown.json()["error"]["param"] == "model"
    reply = client.post("/v1/chat/completions", json={**CHAT, "model": "gpt-4"})
    assert code(reply) == (404, "no_pipeline") and reply.json()["error"]["param"] == "model"


def test_a_pipeline_may_have_the_name_of_the_default(sample_root: Path) -> None:
    told = settings(sample_root, "pipeline=bm25")
    told = replace(
        told, pipelines={"bm25": told.pipelines["bm25"], "srrag": told.pipelines["bm25"]}
    )
    with served(told) as (client, _):
        assert [item["id"] for item in client.get("/v1/models").json()["data"]] == ["bm25", "srrag"]
        assert client.post("/v1/chat/completions", json=CHAT).json()["model"] == "srrag"
        assert client.post("/v1/answers", json=QUESTION).json()["pipeline"] == "bm25"


def test_search_ranks_windows_and_each_can_be_read(client: TestClient) -> None:
    found = client.post("/v1/search", json={"query": "ankle sprain cast", "k": 3}).json()
    assert [hit["rank"] for hit in found["hits"]] == [1, 2, 3]
    scores = [hit["score"] for hit in found["hits"]]
    assert scores == sorted(scores, reverse=True)
    first = found["hits"][0]
    window = client.get(f"/v1/windows/{first['unit_id']}").json()
    assert window["text"] == first["text"] and window["version"] == found["version"]
    wrong_end = first["unit_id"][:16] + "0" * (len(first["unit_id"]) - 16)
    for unit_id in ("x", "f" * 32, wrong_end, "..%2f..%2fsrrag.json"):
        assert client.get(f"/v1/windows/{unit_id}").status_code == 404


def test_a_window_tells_the_status_of_its_paper(
    sample_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(settings(sample_root, "pipeline=bm25")) as (client, host):
        body = {"query": "ankle sprain cast", "k": 1}

        def status() -> str:
            (hit,) = client.post("/v1/search", json=body).json()["hits"]
            window = client.get(f"/v1/windows/{hit['unit_id']}").json()
            assert window["status"] == hit["status"]
            return str(window["status"])

        assert status() == ""
        monkeypatch.setattr(host.edition.standings, "find", lambda ids: (["corrected"], ["pmid:9"]))
        assert status() == "corrected after publication (PMID 9)"


def test_a_synthesis_is_the_record_of_the_command_with_a_plot_of_each_pool(
    sample_root: Path, tmp_path: Path
) -> None:
    root = with_findings(sample_root, tmp_path / "root")
    made = srrag.open(root).synthesise(PREVENTS)
    with served(settings(root, "pipeline=bm25")) as (client, _):
        told = client.post("/v1/synthesis", json={"question": PREVENTS}).json()
        (plot,) = told.pop("plots")
        assert told == json.loads(json.dumps(made.json))
        drawn = base64.b64decode(plot.removeprefix("data:image/svg+xml;base64,")).decode()
        assert "hazard ratio" in drawn and "Random effects" in drawn
        (each,) = told["comparisons"]
        for study in (*each["studies"], *each["reviews"]):
            window = client.get(f"/v1/windows/{study['window']}").json()
            assert window["doc_id"] == study["doc_id"] and study["sentence"] in window["text"]
        assert client.get("/v1/library").json()["findings"] == 4
        cited = {"doc_id": study["doc_id"], "text": study["sentence"]}
        body = {"question": "And for them?", "answer": "Recurrence is rarer.", "told": [cited]}
        behind = client.post("/v1/synthesis", json=body).json()
        assert behind["parts"]["O"] == ["recurrence"] == [behind["comparisons"][0]["outcome"]]
        late = client.post(
            "/v1/synthesis", json={"question": "x y"}, headers={"x-timeout-s": "1e-6"}
        )
        assert code(late) == (504, "deadline")


def test_an_answer_is_written_while_a_synthesis_of_its_caller_is_made(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(_: Synthesis) -> list[str]:
        begun.set()
        assert may_end.wait(120)
        return ["plot"]

    monkeypatch.setattr(browse, "as_images", slow)
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(client.post, "/v1/synthesis", json={"question": PREVENTS})
        try:
            assert begun.wait(60)
            reply = client.post("/v1/answers", json=QUESTION, headers={"x-timeout-s": "30"})
            assert reply.status_code == 200, reply.text
            assert not made.done()
        finally:
            may_end.set()
        assert made.result().json()["plots"] == ["plot"]


class SlowFindings:
    """Findings of nothing, which take a moment to read."""

    read = 0

    def __init__(self, *_: Any) -> None:
        SlowFindings.read += 1
        time.sleep(0.2)

    def unread(self, question: str, most: int) -> str:
        return ""

    def synthesise(self, *_: Any) -> Any:
        return SimpleNamespace(json={})


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An edition whose version a test sets."""
    monkeypatch.setattr(browse, "StudyFindings", SlowFindings)
    monkeypatch.setattr(browse, "as_images", lambda found: [])
    monkeypatch.setattr(SlowFindings, "read", 0)
    return SimpleNamespace(version="first")


def synthesising(edition: Any) -> Callable[[], Awaitable[Any]]:
    """The route of a server that makes each call in a thread of its own."""

    async def call(make: Callable[[], Any], *_: Any) -> Any:
        return await asyncio.to_thread(make)

    told = SimpleNamespace(root="nowhere", build="default")
    host: Any = SimpleNamespace(edition=edition, settings=told, call=call)
    browse._add_synthesis(app := FastAPI(), host)
    (made,) = [route.endpoint for route in app.routes if isinstance(route, APIRoute)]
    passing = SimpleNamespace(deadline=0.0, counted="")
    request = SimpleNamespace(scope={"passing": passing})
    body = SynthesisRequest.model_validate({"question": PREVENTS})
    return lambda: made(body, request)


def test_requests_that_come_at_once_read_the_findings_once(versions: Any) -> None:
    ask = synthesising(versions)

    async def both() -> list[Any]:
        return list(await asyncio.gather(ask(), ask()))

    assert asyncio.run(both()) == [{"plots": []}] * 2
    assert SlowFindings.read == 1


def test_a_synthesis_ends_on_the_findings_it_began_with(
    versions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = synthesising(versions)

    async def asked() -> Any:
        return await ask()

    def unread(self: SlowFindings, question: str, most: int) -> str:
        if versions.version == "first":
            versions.version = "second"
            assert asyncio.run(asked()) == {"plots": []}, "of the next version, meanwhile"
        return ""

    monkeypatch.setattr(SlowFindings, "unread", unread)
    assert asyncio.run(asked()) == {"plots": []}
    assert SlowFindings.read == 2


def test_a_synthesis_that_cannot_be_is_refused_in_one_line(
    sample_root: Path, tmp_path: Path, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_rules = client.post("/v1/synthesis", json={"question": PREVENTS})
    assert by_rules.json()["read_by"] == "rules" and by_rules.json()["plots"] == []
    bare = client.post("/v1/synthesis", json={"question": "Is rest good?"})
    assert code(bare) == (404, "no_findings")
    assert "name both, or build with a model" in bare.json()["error"]["message"]
    with monkeypatch.context() as patch:
        patch.setattr(browse, "READ_BY_RULES", 50)
        many = client.post("/v1/synthesis", json={"question": PREVENTS})
    assert code(many) == (404, "no_findings")
    assert "55 documents are too many for rules" in many.json()["error"]["message"]
    assert code(client.post("/v1/synthesis", json={"question": " "})) == (422, "empty_question")
    assert code(client.post("/v1/synthesis", json={"pipeline": "bm25"})) == (400, "invalid")
    root = with_findings(sample_root, tmp_path / "root")
    monkeypatch.setitem(sys.modules, "statsmodels.stats.meta_analysis", None)
    with served(settings(root, "pipeline=bm25")) as (other, _):
        lacking = other.post("/v1/synthesis", json={"question": PREVENTS})
        assert code(lacking) == (501, "extra")
        assert "srrag[synthesis]" in lacking.json()["error"]["message"]


def test_rerank_is_by_log_odds_and_stable(client: TestClient) -> None:
    texts = ["Bread needs yeast.", "An ankle in a cast.", "Bread needs yeast."]
    body = {"query": "cast for a sprained ankle", "documents": texts}
    results = client.post("/v1/rerank", json=body).json()["results"]
    assert [item["index"] for item in results] == [1, 0, 2]
    assert results[1]["score"] == pytest.approx(results[2]["score"], abs=1e-4)
    assert results[1]["score"] < results[0]["score"]
    assert all(item["score"] == item["relevance"] for item in results)
    assert len(client.post("/v1/rerank", json={**body, "top_n": 1}).json()["results"]) == 1
    refused = client.post("/v1/rerank", json={**body, "grades": ["A", "B", None]})
    assert code(refused) == (422, "no_calibration")


def test_rerank_weighs_grades_as_the_pipeline_learned(sample_root: Path, tmp_path: Path) -> None:
    inner = settings(sample_root).pipelines["hybrid_maxsim"].rank[-1]
    biases = dict(zip("ABCDE", (0.0, -0.5, -1.0, -2.0, -4.0), strict=True))
    stated = {"parameters": {"a": 0.5, "u": biases}, "reranker": scorer(inner)}
    (tmp_path / "betr.json").write_text(json.dumps(stated))
    told = settings(
        sample_root, "pipeline=hybrid_betr", f"pipeline.rank.fine.model={tmp_path}/betr.json"
    )
    texts = ["An ankle in a cast.", "An ankle in a cast.", "An ankle in a cast."]
    body = {"query": "cast for a sprained ankle", "documents": texts, "grades": ["D", None, "A"]}
    with served(told) as (client, _):
        results = client.post("/v1/rerank", json=body).json()["results"]
        short = client.post("/v1/rerank", json={**body, "grades": ["A"]})
    assert [item["index"] for item in results] == [2, 0, 1], "no grade counts as E"
    for item, grade in zip(results, "ADE", strict=True):
        expected = 0.5 * item["relevance"] + biases[grade]
        assert item["score"] == pytest.approx(expected, abs=1e-5)
    assert (short.status_code, short.json()["error"]["field"]) == (400, "grades")


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("/v1/answers", {}, 400, "question"),
        ("/v1/answers", {"question": 7}, 400, "question"),
        ("/v1/answers", {"question": "a" * (MAX_QUESTION_CHARS + 1)}, 400, "question"),
        ("/v1/answers", {**QUESTION, "quesiton": ""}, 400, "quesiton"),
        ("/v1/answers", {**QUESTION, "options": {"trace": "maybe"}}, 400, "options.trace"),
        ("/v1/answers", {"question": " ?!"}, 422, "question"),
        ("/v1/answers/stream", {"question": ""}, 422, "question"),
        ("/v1/answers", {**QUESTION, "pipeline": "nothing"}, 404, "pipeline"),
        ("/v1/search", {"query": "x", "k": 0}, 400, "k"),
        ("/v1/search", {"query": "…"}, 422, "query"),
        ("/v1/rerank", {"query": "x", "documents": []}, 400, "documents"),
        ("/v1/rerank", {"query": "x", "documents": ["x"] * 257}, 400, "documents"),
        ("/v1/chat/completions", {"model": "srrag", "messages": []}, 400, "messages"),
        ("/v1/chat/completions", {**CHAT, "n": 2}, 400, "n"),
        ("/v1/chat/completions", {**CHAT, "messages": [{"role": "system", "content": "x"}]}, 422,
         "messages"),
        ("/v1/answers", [], 400, "body"),
    ],
)  # fmt: skip
def test_a_fault_names_the_field(
    client: TestClient, path: str, body: Any, status: int, field: str
) -> None:
    response = client.post(path, json=body)
    error = response.json()["error"]
    assert (response.status_code, error["field"]) == (status, field), error
    assert error["request_id"] == response.headers["x-request-id"]


def test_bodies_that_are_no_json_or_too_large(client: TestClient) -> None:
    kind = {"content-type": "application/json"}
    post = client.post
    assert code(post("/v1/answers", content=b"{no", headers=kind)) == (400, "invalid")
    assert code(post("/v1/answers", content=b'"\\ud800"', headers=kind)) == (400, "invalid")
    assert code(post("/v1/answers", content=b"[" * 30000, headers=kind))[0] == 400
    assert code(post("/v1/answers", content=b"{}")) == (415, "content_type")
    large = b" " * 60000
    assert code(post("/v1/answers", content=large, headers=kind)) == (413, "body_too_large")
    pieces = iter([large[:30000], large[:30000]])
    assert code(post("/v1/answers", content=pieces, headers=kind)) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/answers", {"question": "?"}, "question"),
        ("/v1/search", {"query": "?"}, "query"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "?"}]}, "messages"),
        ("/v1/rerank", {"query": "?", "documents": ["knee"]}, "query"),
        ("/v1/synthesis", {"question": "?"}, "question"),
    ],
)
def test_half_a_character_is_told_with_its_field(
    client: TestClient, path: str, body: Any, field: str
) -> None:
    content = json.dumps({"model": "srrag", **body} if "messages" in body else body)
    kind = {"content-type": "application/json"}
    reply = client.post(path, content=content.replace('"?"', '"knee \\ud800"'), headers=kind)
    assert reply.status_code in (400, 422)
    assert reply.json()["error"]["field"].split(".")[0] == field, reply.json()


def test_paths_and_methods_that_are_not_there(client: TestClient) -> None:
    assert code(client.get("/v1/nothing")) == (404, "not_found")
    assert code(client.get("/v1/answers")) == (405, "method")
    assert code(client.post("/admin/reload", json={})) == (401, "unauthorized")


def test_only_this_machine_is_served_without_keys(client: TestClient) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
        assert code(client.get("/readyz", headers={"host": host})) == (403, "host")
    for host in ("localhost:8080", "127.0.0.1", "[::1]:8080"):
        assert client.get("/readyz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("came", [("10.1.2.3", 4711), ("::ffff:10.1.2.3", 4711), ("", 0), None])
def test_without_keys_nobody_is_let_in_by_the_name_that_he_asks_for(
    sample_root: Path, came: tuple[str, int] | None, tmp_path: Path
) -> None:
    """Whatever the host is that Ray listens at."""
    with served(settings(sample_root, "pipeline=bm25"), client=came) as (client, _):
        for path in ("/v1/models", "/readyz", "/"):
            asked = client.get(path, headers={"host": "localhost"})
            assert code(asked) == (403, "host"), path
        body = {"json": QUESTION, "headers": {"host": "127.0.0.1:8080"}}
        assert code(client.post("/v1/answers/stream", **body)) == (403, "host")
    keys = tmp_path / "keys"
    keys.write_text(f"clinic {hashlib.sha256(b'secret').hexdigest()} admin\n")
    told = settings(sample_root, "pipeline=bm25", f"api_keys={keys}")
    with served(told, client=came, headers={"x-api-key": "secret"}) as (client, _):
        assert client.get("/v1/models").status_code == 200


@pytest.mark.parametrize("came", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_without_keys_this_machine_is_let_in(sample_root: Path, came: str) -> None:
    with served(settings(sample_root, "pipeline=bm25"), client=(came, 4711)) as (client, _):
        assert client.get("/v1/models").status_code == 200


@pytest.mark.parametrize("asked", ["0", "-1", "nan", "soon", "1e9"])
def test_a_deadline_is_a_positive_number(client: TestClient, asked: str) -> None:
    response = client.post("/v1/answers", json=QUESTION, headers={"x-timeout-s": asked})
    assert code(response) == (400, "timeout")


def test_an_answer_that_comes_too_late_is_none(client: TestClient) -> None:
    headers = {"x-timeout-s": "0.0005"}
    assert code(client.post("/v1/answers", json=QUESTION, headers=headers)) == (504, "deadline")
    heard = client.post("/v1/answers", json=QUESTION, headers={"x-timeout-s": "30"})
    assert heard.status_code == 200


def test_every_answer_carries_the_headers_of_a_closed_house(client: TestClient) -> None:
    for response in (client.get("/healthz"), client.get("/nowhere"), client.post("/v1/answers")):
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"
    headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    asked = client.options("/v1/answers", headers=headers)
    assert "access-control-allow-origin" not in asked.headers


def test_metrics_count_requests_stages_and_batches(client: TestClient) -> None:
    client.post("/v1/answers", json=QUESTION)
    client.get("/v1/made-up-path")
    text = client.get("/metrics").text
    for series in (
        r'requests_total{path="/v1/answers",replica="\w+",status="200"}',
        r'stage_seconds_bucket{le="0.5",pipeline="hybrid_maxsim",replica="\w+",step="RerankMaxSim"}',
        r'errors_total{code="not_found",replica="\w+"}',
        r'queue_waiting{replica="\w+"} 0.0',
        "batch_rows_sum",
    ):
        assert re.search(f"srrag_{series}", text), series
    assert "made-up-path" not in text, "no series for what callers make up"


def test_metrics_name_the_path_of_what_is_refused_before_it_is_read(client: TestClient) -> None:
    before = client.get("/metrics").text
    client.post("/v1/search", content=b"{}")
    client.post("/v1/made-up-path", content=b"{}")
    named = r'srrag_requests_total{path="/v1/search",replica="\w+",status="415"}'
    text = client.get("/metrics").text
    assert not re.search(named, before) and re.search(named, text)
    assert "made-up-path" not in text


def test_the_log_holds_no_question_unless_asked(
    client: TestClient, sample_root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    client.post("/v1/answers", json=QUESTION, headers={"x-request-id": "mine-1"})
    line = json.loads(capfd.readouterr().err.splitlines()[-1])
    assert line["request_id"] == "mine-1" and line["status"] == 200 and line["version"]
    assert "ankle" not in json.dumps(line)
    with served(settings(sample_root, "pipeline=bm25", "log_questions=true")) as (other, _):
        other.post("/v1/answers", json=QUESTION)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["question"] for line in lines if "question" in line] == [CAST]


def test_the_description_has_examples(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()
    assert {"/v1/answers", "/v1/answers/stream", "/v1/chat/completions", "/v1/models",
            "/v1/search", "/v1/rerank", "/v1/windows/{unit_id}", "/healthz", "/readyz",
            "/metrics"} <= set(paths["paths"])  # fmt: skip
    for name in ("AnswerRequest", "SearchRequest", "RerankRequest", "ChatRequest"):
        (example,) = paths["components"]["schemas"][name]["examples"]
        path = {"AnswerRequest": "answers", "SearchRequest": "search", "RerankRequest": "rerank",
                "ChatRequest": "chat/completions"}[name]  # fmt: skip
        assert client.post(f"/v1/{path}", json=example).status_code == 200


def test_keys_let_in_and_bound_their_owner(sample_root: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"clinic {hashlib.sha256(b'secret').hexdigest()} admin\n")
    told = settings(
        sample_root, "pipeline=bm25", f"api_keys={keys}", "limits.per_minute=1", "limits.burst=3"
    )
    with served(told) as (client, host):
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
        refused = client.post("/v1/answers", json=QUESTION)
        assert code(refused) == (401, "unauthorized")
        assert refused.headers["www-authenticate"] == "Bearer"
        for wrong in ("Bearer secret2", "Basic secret", "Bearer", "secret"):
            assert client.get("/metrics", headers={"authorization": wrong}).status_code == 401
        bearer = {"authorization": "Bearer secret"}
        assert client.post("/v1/answers", json=QUESTION, headers=bearer).status_code == 200
        assert client.get("/v1/models", headers={"x-api-key": "secret"}).status_code == 200
        reloaded = client.post("/admin/reload", json={}, headers=bearer)
        assert reloaded.json() == {"version": host.edition.version}
        slow = client.get("/v1/models", headers=bearer)
        assert code(slow) == (429, "rate") and 1 <= int(slow.headers["retry-after"]) <= 60


@pytest.mark.parametrize(
    ("role", "statuses"),
    [("reader", (200, 403, 403)), ("runs", (200, 200, 403)), ("", (200, 403, 403))],
)
def test_a_key_does_what_its_role_may(
    sample_root: Path, tmp_path: Path, role: str, statuses: tuple[int, ...]
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"clinic {hashlib.sha256(b'secret').hexdigest()} {role}\n")
    key = {"authorization": "Bearer secret"}
    with served(settings(sample_root, "pipeline=bm25", f"api_keys={keys}")) as (client, _):
        asked = [client.get("/v1/models", headers=key), client.get("/v1/runs", headers=key)]
        asked.append(client.post("/admin/reload", headers=key))
        assert tuple(each.status_code for each in asked) == statuses
        assert code(asked[-1]) == (403, "role")


@pytest.mark.parametrize(
    ("option", "status"),
    [
        ({"temperature": 0.2, "seed": 1}, 200), ({"stream": None, "n": 1}, 200),
        ({"response_format": {"type": "text"}, "stop": None}, 200),
        ({"max_tokens": 20}, 400), ({"stop": ["."]}, 400), ({"tools": []}, 400), ({"n": 2}, 400),
        ({"response_format": {"type": "json_object"}}, 400),
    ],
)  # fmt: skip
def test_an_option_of_a_chat_is_followed_named_or_refused(
    client: TestClient, option: dict[str, Any], status: int
) -> None:
    chat = {"model": "srrag", "messages": [{"role": "user", "content": CAST}], **option}
    told = client.post("/v1/chat/completions", json=chat)
    assert told.status_code == status
    if status == 200:
        wanted = ["seed", "temperature"] if "seed" in option else []
        assert told.json()["srrag"].get("ignored", []) == wanted
    else:
        assert next(iter(option)) in told.json()["error"]["message"] + str(
            told.json()["error"]["field"]
        )


def test_a_reload_needs_no_body(sample_root: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"clinic {hashlib.sha256(b'secret').hexdigest()} admin\n")
    key = {"authorization": "Bearer secret"}
    with served(settings(sample_root, "pipeline=bm25", f"api_keys={keys}")) as (client, host):
        bare = client.post("/admin/reload", headers=key)
        assert bare.json() == {"version": host.edition.version}
        assert code(client.post("/admin/reload")) == (401, "unauthorized")
        for path, kind in (("/v1/answers", {}), ("/admin/reload", {"content-type": "text/plain"})):
            asked = client.post(path, headers={**key, **kind})
            assert code(asked) == (415, "content_type")
