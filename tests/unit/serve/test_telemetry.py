from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from srrag.serve.telemetry import Metrics
from tests.unit.serve.serving import CAST, served, settings

Series = tuple[str, frozenset[tuple[str, str]]]


def scraped(metrics: Metrics) -> dict[Series, float]:
    """The samples that only grow, as Prometheus reads them."""
    families = text_string_to_metric_families(metrics.text().decode())
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for family in families
        for each in family.samples
        if family.type in ("counter", "histogram")
    }


def test_series_never_fall_when_scrapes_are_answered_by_either_replica() -> None:
    replicas = [Metrics(), Metrics()]
    last: dict[Series, float] = {}
    for turn, asked in enumerate((18, 15, 0, 1, 3, 0)):
        metrics = replicas[turn % 2]
        metrics.requests.labels("/v1/search", "200").inc(asked)
        metrics.batch(asked, waited_s=0.1)
        for series, value in scraped(metrics).items():
            assert value >= last.get(series, 0.0), series
            last[series] = value
    counts = [value for (name, _), value in last.items() if name == "srrag_requests_total"]
    assert sorted(counts) == [16.0, 21.0], "their sum is what both were asked"


def test_each_sample_names_its_replica_and_a_scrape_changes_nothing() -> None:
    metrics = Metrics()
    metrics.waiting.set(2)
    first = metrics.text()
    assert metrics.text() == first
    lines = [line for line in first.decode().splitlines() if not line.startswith("#")]
    (waiting,) = [line for line in lines if line.startswith("srrag_queue_waiting")]
    assert waiting.startswith('srrag_queue_waiting{replica="') and waiting.endswith(" 2.0")
    assert lines and all('replica="' in line for line in lines)


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
