"""Traces of requests, as a collector on loopback receives them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.unit.serve.serving import CAST, served, settings

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@contextmanager
def collector() -> Iterator[tuple[str, list[Any]]]:
    """An address that takes OTLP over HTTP, and the spans that came."""
    spans: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", spans
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_request_is_a_trace_with_its_steps_and_without_its_question(sample_root: Path) -> None:
    with collector() as (endpoint, spans):
        told = settings(sample_root, "pipeline=bm25", f"traces={endpoint}")
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "mine-7"}
        with served(told) as (client, _):
            reply = client.post("/v1/answers", json={"question": CAST}, headers=headers).json()
            client.post("/v1/answers", json={"question": "?"})
    whole = next(span for span in spans if span.trace_id.hex() == TRACE and span.kind == 2)
    assert whole.name == "POST /v1/answers" and whole.parent_span_id.hex() == PARENT
    values = {each.key: each.value for each in whole.attributes}
    assert values["srrag.request_id"].string_value == "mine-7"
    assert values["srrag.version"].string_value == reply["version"]
    steps = [span for span in spans if span.parent_span_id == whole.span_id]
    assert [span.name for span in steps] == [step["step"] for step in reply["trace"]]
    assert all(
        whole.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        for span in steps
    )
    codes = {each.value.string_value for span in spans for each in span.attributes}
    assert "empty_question" in codes
    assert "ankle" not in str(spans)


def test_a_collector_that_is_not_there_costs_no_answer(sample_root: Path) -> None:
    told = settings(sample_root, "pipeline=bm25", "traces=http://127.0.0.1:9/v1/traces")
    with served(told) as (client, _):
        assert client.post("/v1/answers", json={"question": CAST}).status_code == 200
