"""What is refused before its body is read, and what every response and log line holds."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from srrag.core.pipeline import Pipeline
from srrag.retrieve.search import SearchSparse
from srrag.serve.api import gateway
from srrag.serve.api.app import create_app
from srrag.serve.api.gateway import PAGE_PATHS, Gateway, _is_local, _key, _seconds
from srrag.serve.errors import ApiError
from srrag.serve.service import PipelineService
from srrag.serve.settings import ApiKey, Limits, ServeSettings
from tests.unit.serve.serving import served, settings

LAST = {"type": "http.request", "body": b"{}", "more_body": False}


async def reads(scope: Any, receive: Any, send: Any) -> None:
    """An app that answers once it has the body."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def host(
    tmp_path: Path, keys: Mapping[str, ApiKey] | None = None, **limits: Any
) -> PipelineService:
    """A service that has opened nothing; its log is a file."""
    pipeline = Pipeline(rank=(), answer=(SearchSparse(),))
    return PipelineService(
        ServeSettings(
            root=tmp_path, pipelines={"toy": pipeline}, keys=keys or {}, limits=Limits(**limits),
            log=tmp_path / "log.jsonl",
        )
    )  # fmt: skip


class Caller:
    """Sends the head of a request at once, and the body when it is told to."""

    def __init__(self, app: Gateway) -> None:
        self.status = 0
        self._body: asyncio.Queue[Any] = asyncio.Queue()
        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/answers", "headers": headers}
        scope["client"] = ("127.0.0.1", 50000)
        self._task = asyncio.create_task(app(scope, self._body.get, self._sent))

    async def _sent(self, message: Any) -> None:
        self.status = message.get("status", self.status)

    async def now(self) -> int:
        """The status so far."""
        await asyncio.sleep(0.01)
        return self.status

    async def ended(self) -> int:
        """Send the body; the status."""
        self._body.put_nowait(LAST)
        await self._task
        return self.status


def test_every_path_that_asks_a_pipeline_has_a_place_in_the_queue(tmp_path: Path) -> None:
    paths = create_app(host(tmp_path))._app.openapi()["paths"]
    posts = {path for path, methods in paths.items() if "post" in methods}
    assert posts == {*gateway.QUEUED_PATHS, "/v1/feedback", *gateway.BARE_PATHS}


def test_a_caller_has_so_many_requests_at_once(tmp_path: Path) -> None:
    app = Gateway(reads, host(tmp_path, per_caller=2))

    async def asked() -> None:
        first, second = Caller(app), Caller(app)
        assert await Caller(app).now() == 429
        assert await first.ended() == 200
        assert await Caller(app).ended() == 200, "a place is free again"
        assert await second.ended() == 200

    asyncio.run(asked())


def test_a_key_comes_as_a_bearer_or_in_its_own_header() -> None:
    assert _key({"authorization": "Bearer  one "}) == "one"
    assert _key({"authorization": "bearer one", "x-api-key": "two"}) == "one"
    assert _key({"authorization": "Basic one", "x-api-key": "two"}) == "two"
    assert _key({}) == ""


def test_a_deadline_is_above_0_and_at_most_the_limit() -> None:
    assert (_seconds("0.5", 60.0), _seconds("60", 60.0)) == (0.5, 60.0)
    for text in ("0", "-1", "60.5", "nan", "soon"):
        with pytest.raises(ApiError, match="above 0, at most 60") as caught:
            _seconds(text, 60.0)
        assert caught.value.status == 400


def test_a_host_is_local_with_and_without_a_port() -> None:
    hosts = ("localhost", "127.0.0.1:8000", "[::1]:80", "example.org", "example.org:80", "")
    assert [_is_local(host) for host in hosts] == [True, True, True, False, False, False]


# ---- one whole request ----


def sha(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


KEYS = {
    "clinic": ApiKey(sha("one")),
    "lab": ApiKey(sha("two"), "runs"),
    "it": ApiKey(sha("3"), "admin"),
}
JSON = {"content-type": "application/json"}


@dataclass
class Got:
    """What a request got, and what its scope held."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    scope: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known == name]

    @property
    def code(self) -> tuple[int, str]:
        """The status, and the code of an error."""
        told = json.loads(self.body)["error"] if self.body else {}
        return self.status, told.get("code", "")


def asked(
    app: Gateway, path: str = "/v1/answers", method: str = "POST",
    headers: Mapping[str, str] = JSON, client: tuple[str, int] | None = ("127.0.0.1", 50000),
    body: tuple[Any, ...] = (LAST,), **scope: Any,
) -> Got:  # fmt: skip
    """Send a request whole, and wait for the response."""
    got, sent = Got(), iter(body)
    told = {"host": "localhost", **headers}
    got.scope = {
        "type": "http", "method": method, "path": path, "client": client,
        "headers": [(k.encode(), v.encode("latin-1")) for k, v in told.items()], **scope,
    }  # fmt: skip

    async def receive() -> Any:
        return next(sent, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            got.status = message["status"]
            got.headers = [(k.decode(), v.decode("latin-1")) for k, v in message["headers"]]
        got.body += message.get("body", b"")

    asyncio.run(app(got.scope, receive, send))
    return got


def logged(tmp_path: Path) -> dict[str, Any]:
    return dict(json.loads((tmp_path / "log.jsonl").read_text("utf-8").splitlines()[-1]))


@pytest.mark.parametrize(
    ("client", "name", "status"),
    [
        (("127.0.0.1", 1), "localhost:8080", 200),
        (("127.0.0.1", 1), "evil.example", 403),  # a name that was rebound to this machine
        (("10.0.0.7", 1), "localhost", 403),  # a forged header
        (None, "localhost", 403),
    ],
)
def test_without_keys_only_this_machine_is_served(
    tmp_path: Path, client: Any, name: str, status: int
) -> None:
    got = asked(Gateway(reads, host(tmp_path)), client=client, headers={**JSON, "host": name})
    assert got.code == (status, "host" if status == 403 else "")
    keyed = Gateway(reads, host(tmp_path, KEYS))
    told = {**JSON, "host": name, "x-api-key": "one"}
    assert asked(keyed, client=client, headers=told).status == 200


@pytest.mark.parametrize(
    ("key", "statuses"),
    [("", [200, 401, 401, 401]), ("no", [200, 401, 401, 401]), ("one", [200, 200, 403, 403]),
     ("two", [200, 200, 200, 403]), ("3", [200, 200, 200, 200])],
)  # fmt: skip
def test_a_path_asks_for_a_key_of_its_role(tmp_path: Path, key: str, statuses: list[int]) -> None:
    app = Gateway(reads, host(tmp_path, KEYS))
    paths = ("/healthz", "/v1/pipelines", "/v1/runs/7", "/admin/metrics")
    got = [asked(app, path, "GET", {"x-api-key": key}) for path in paths]
    assert [each.status for each in got] == statuses
    assert {each.code[1] for each in got} <= {"", "unauthorized", "role"}
    names = {"one": "clinic", "two": "lab", "3": "it"}
    assert logged(tmp_path)["key"] == (names.get(key) if statuses[-1] == 200 else None)


def test_who_asks_too_often_waits_and_only_he_does(tmp_path: Path) -> None:
    app = Gateway(reads, host(tmp_path, KEYS, per_minute=1, burst=1))
    first, second = ({**JSON, "x-api-key": key} for key in ("one", "two"))
    assert [asked(app, headers=first).status for _ in range(2)] == [200, 429]
    refused = asked(app, headers=first)
    assert refused.code == (429, "rate") and 30 <= int(refused["retry-after"][0]) <= 60
    assert asked(app, headers=second).status == 200
    assert {asked(app, "/healthz", "GET", {}).status for _ in range(3)} == {200}, "probes are free"
    near = Gateway(reads, host(tmp_path, per_minute=1, burst=1))
    both = [("127.0.0.1", 1), ("127.0.0.2", 1), ("127.0.0.1", 2)]
    assert [asked(near, client=each).status for each in both] == [200, 200, 429], "by address"


def test_probes_are_answered_while_a_caller_has_all_its_places(tmp_path: Path) -> None:
    app = Gateway(reads, host(tmp_path, per_caller=1))
    app._at_once["127.0.0.1"] = 1
    assert asked(app).code == (429, "at_once")
    assert asked(app, "/healthz", "GET", {}).status == 200
    assert app._at_once == {"127.0.0.1": 1}


def test_keys_of_one_address_have_places_of_their_own(tmp_path: Path) -> None:
    app = Gateway(reads, host(tmp_path, KEYS, per_caller=1))
    app._at_once["clinic"] = 1
    assert asked(app, headers={**JSON, "x-api-key": "one"}).code == (429, "at_once")
    assert asked(app, headers={**JSON, "x-api-key": "two"}).status == 200


@pytest.mark.parametrize(
    ("path", "method", "kind", "status"),
    [
        ("/v1/answers", "POST", "application/json", 200),
        ("/v1/answers", "POST", "Application/JSON; charset=utf-8", 200),
        ("/v1/answers", "POST", "text/plain", 415),
        ("/v1/answers", "POST", "", 415),
        ("/v1/answers", "GET", "text/plain", 200),
        ("/admin/reload", "POST", "", 200),
        ("/admin/reload", "POST", "text/plain", 415),
    ],
)
def test_a_page_of_another_site_cannot_post(
    tmp_path: Path, path: str, method: str, kind: str, status: int
) -> None:
    headers = {"content-type": kind} if kind else {}
    got = asked(Gateway(reads, host(tmp_path)), path, method, headers)
    assert got.code == (status, "content_type" if status == 415 else "")


@pytest.mark.parametrize(
    ("length", "chunks", "status"),
    [("10", [10], 200), ("11", [], 413), ("", [4, 6], 200), ("", [4, 7], 413), ("ten", [2], 200)],
)
def test_a_body_over_the_limit_is_refused_by_its_length_or_while_it_comes(
    tmp_path: Path, length: str, chunks: list[int], status: int
) -> None:
    app = Gateway(reads, host(tmp_path, max_body_bytes=10))
    sent = tuple(
        {"type": "http.request", "body": b"x" * size, "more_body": size != chunks[-1]}
        for size in chunks
    )
    headers = {**JSON, **({"content-length": length} if length else {})}
    got = asked(app, headers=headers, body=sent)
    assert got.code == (status, "body_too_large" if status == 413 else "")
    assert not app._at_once, "nothing is left of it"


def test_a_deadline_is_what_the_header_says_or_the_limit(tmp_path: Path) -> None:
    app = Gateway(reads, host(tmp_path, timeout_s=60.0))
    for headers, seconds in (({}, 60.0), ({"x-timeout-s": "0.5"}, 0.5)):
        passing = asked(app, headers={**JSON, **headers}).scope["passing"]
        assert passing.deadline - passing.began == pytest.approx(seconds)


def test_only_questions_are_refused_while_the_queue_is_full(tmp_path: Path) -> None:
    service = host(tmp_path)
    service.batcher.full_s = lambda caller="": 7.0  # type: ignore[method-assign]
    app = Gateway(reads, service)
    for path in ("/v1/answers", "/v1/answers/stream", "/v1/chat/completions", "/v1/search"):
        refused = asked(app, path)
        assert refused.code == (503, "busy") and int(refused["retry-after"][0]) >= 7
    assert asked(app, "/v1/feedback").status == 200


def responds(*headers: tuple[str, str], status: int = 200) -> Callable[..., Any]:
    """An app that reads and answers with these headers."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        pairs = [(name.encode(), value.encode()) for name, value in headers]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": b""})

    return app


def test_every_response_says_what_a_browser_may_not_do_with_it(tmp_path: Path) -> None:
    service = host(tmp_path)
    plain = asked(Gateway(responds(("X-Frame-Options", "ALLOW"), ("x-own", "1")), service))
    assert plain["x-frame-options"] == ["DENY"] and plain["x-own"] == ["1"]
    assert plain["cache-control"] == ["no-store"] and plain["x-content-type-options"] == ["nosniff"]
    page = asked(Gateway(responds(("ETag", "7"), ("cache-control", "no-cache")), service))
    assert page["cache-control"] == ["no-cache"] and page["x-frame-options"] == ["DENY"]
    refused = asked(Gateway(reads, service), headers={"content-type": "text/plain"})
    assert refused.status == 415 and refused["x-frame-options"] == ["DENY"]


@pytest.mark.parametrize(("given", "kept"), [("a.b-7", True), ("", False), ("a b", False)])
def test_a_request_has_an_id_that_its_log_line_and_its_error_name(
    tmp_path: Path, given: str, kept: bool
) -> None:
    got = asked(Gateway(reads, host(tmp_path)), headers={"x-request-id": given})
    own = json.loads(got.body)["error"]["request_id"]
    assert logged(tmp_path)["request_id"] == own
    assert (own == given) == kept and len(own) == (len(given) if kept else 32)
    assert got["x-request-id"] == ([] if kept else [own]), "Ray's proxy returns the one it gave"


def test_a_request_is_logged_counted_and_traced_by_its_route(tmp_path: Path) -> None:
    service = host(tmp_path, KEYS)
    spans: list[Any] = []
    app = Gateway(reads, service)
    app._traces = SimpleNamespace(request=lambda *told: spans.append(told))
    asked(
        app,
        "/v1/units/u7",
        "GET",
        {"x-api-key": "one"},
        route=SimpleNamespace(path="/v1/units/{id}"),
    )
    line = logged(tmp_path)
    assert {name: line[name] for name in ("event", "method", "path", "status", "key")} == {
        "event": "request", "method": "GET", "path": "/v1/units/{id}", "status": 200,
        "key": "clinic",
    }  # fmt: skip
    assert 0 <= line["ms"] < 60_000
    asked(app, "/v1/answers", headers={"content-type": "x", "x-api-key": "one"})
    asked(app, "/secret", "GET", {})
    text = service.metrics.text().decode()
    for path, status in (("/v1/units/{id}", 200), ("/v1/answers", 415), ("-", 401)):
        assert f'srrag_requests_total{{path="{path}",replica=' in text
        assert f'status="{status}"}} 1.0' in text
    assert 'srrag_errors_total{code="content_type"' in text and "u7" not in text
    assert 'srrag_request_seconds_bucket{le="120.0",path="/v1/units/{id}"' in text
    name, seconds, headers, told, steps = spans[0]
    assert (name, told["http.route"], told["http.response.status_code"], steps) == (
        "GET /v1/units/{id}", "/v1/units/{id}", 200, None,
    )  # fmt: skip
    assert 0 <= seconds < 60 and headers["x-api-key"] == "one"
    assert told["srrag.request_id"] == line["request_id"]


def test_who_has_gone_is_logged_as_such_and_his_error_is_not_counted(tmp_path: Path) -> None:
    service = host(tmp_path)

    async def fails(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await receive()
        raise ApiError(504, "deadline", "too late")

    asked(Gateway(fails, service))
    assert logged(tmp_path)["status"] == 499 and "code" not in logged(tmp_path)
    text = service.metrics.text().decode()
    assert 'status="499"' in text and "srrag_errors_total{" not in text


def test_an_error_after_the_response_began_goes_on_to_the_server(tmp_path: Path) -> None:
    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ApiError(500, "broken", "broken")

    app = Gateway(breaks, host(tmp_path))
    with pytest.raises(ApiError, match="broken"):
        asked(app)
    assert logged(tmp_path)["status"] == 200 and not app._at_once


def test_what_is_no_request_is_passed_on(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)

    asyncio.run(Gateway(app, host(tmp_path))({"type": "lifespan"}, None, None))
    assert seen == [{"type": "lifespan"}] and not (tmp_path / "log.jsonl").exists()


def test_a_request_waits_at_the_gate_while_it_is_anothers_turn(tmp_path: Path) -> None:
    async def scene() -> None:
        service = host(tmp_path)
        turns = service.turns
        turns._spent["127.0.0.1"] = (60.0, turns.clock())
        turns.enter("quiet")
        caller = Caller(Gateway(reads, service))
        caller._body.put_nowait(LAST)
        await asyncio.sleep(0.1)
        assert caller.status == 0 and caller._body.qsize() == 1, "its body is not read"
        assert turns._in_hand == {"quiet": 1, "127.0.0.1": 1}
        turns.leave("quiet")
        await asyncio.wait_for(caller._task, 60)
        assert caller.status == 200 and not turns._in_hand

    asyncio.run(scene())


@pytest.fixture(scope="module")
def pages(sample_root: Path) -> Iterator[TestClient]:
    with served(settings(sample_root, "pipeline=bm25")) as (pages, _):
        yield pages


@pytest.mark.parametrize("path", PAGE_PATHS)
def test_a_file_is_packed_where_the_browser_takes_it(pages: TestClient, path: str) -> None:
    plain = pages.get(path, headers={"accept-encoding": "identity"})
    packed = pages.get(path, headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip" and packed.content == plain.content
    assert packed.headers["vary"].lower() == "accept-encoding"


def test_a_file_that_stands_is_not_sent_again(pages: TestClient) -> None:
    first = pages.get("/page.css")
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    again = pages.get("/page.css", headers={"if-none-match": f'W/{tag}, "other"'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert pages.get("/page.css", headers={"if-none-match": '"older"'}).status_code == 200
    assert pages.get("/ask.js").headers["etag"] != tag


def test_answers_are_never_kept(pages: TestClient) -> None:
    assert pages.get("/v1/models").headers["cache-control"] == "no-store"
