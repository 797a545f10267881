"""What a server tells of itself: metrics in Prometheus' format, and traces by OpenTelemetry.

A trace is one per request with a span per step, sent to a collector if one is set. The caller's
`traceparent` header names the parent span. Spans hold no text of a question.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest

from srrag.answer.record import degraded
from srrag.llm.completion import Usage
from srrag.serve.snapshot import PipelineResult

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_ROWS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The metrics of one replica, in a separate registry."""

    def __init__(self) -> None:
        """Register all metrics, at zero."""
        self._replica = uuid.uuid4().hex[:12]
        self.registry = own = CollectorRegistry()
        self.requests = Counter(
            "srrag_requests", "Requests by path and status", ["path", "status"], registry=own
        )
        self.errors = Counter("srrag_errors", "Requests not answered", ["code"], registry=own)
        self.seconds = Histogram(
            "srrag_request_seconds", "Time of a request", ["path"], buckets=_SECONDS, registry=own
        )
        self.stage_seconds = Histogram(
            "srrag_stage_seconds", "Time of a step for its batch", ["pipeline", "step"],
            buckets=_SECONDS, registry=own,
        )  # fmt: skip
        self.queue_seconds = Histogram(
            "srrag_queue_seconds", "Longest wait in a batch", buckets=_SECONDS, registry=own
        )
        self.batch_rows = Histogram(
            "srrag_batch_rows", "Questions answered as one table", buckets=_ROWS, registry=own
        )
        self.waiting = Gauge("srrag_queue_waiting", "Questions that wait", registry=own)
        self.calls = Counter(
            "srrag_engine_answers", "Answers of engines, from the model or from the log",
            ["pipeline", "source"], registry=own,
        )  # fmt: skip
        self.tokens = Counter(
            "srrag_engine_tokens", "Tokens of those answers", ["pipeline", "source", "direction"],
            registry=own,
        )  # fmt: skip
        self.dropped = Counter(
            "srrag_unsupported_sentences", "Sentences of answers that did not stand as written",
            ["pipeline", "fault"], registry=own,
        )  # fmt: skip
        self.lost_steps = Counter(
            "srrag_lost_steps", "Answers that went on without a step", ["pipeline", "step"],
            registry=own,
        )  # fmt: skip
        self.reloads = Counter("srrag_reloads", "Exchanges of the build", ["outcome"], registry=own)

    def batch(self, rows: int, waited_s: float) -> None:
        """Record a batch: its rows, and the seconds that the oldest one waited."""
        self.batch_rows.observe(rows)
        self.queue_seconds.observe(waited_s)

    def answer(self, kind: str, found: PipelineResult) -> None:
        """Record an answer: its steps, each with the time of its whole batch, and what it lost."""
        pipeline = kind.partition(":")[2]
        for item in found.row.get("trace", ()):
            self.stage_seconds.labels(pipeline, item["step"]).observe(item["seconds"])
        for each in found.row.get("unsupported", ()):
            self.dropped.labels(pipeline, each["fault"]).inc()
        for each in degraded(found.row):
            self.lost_steps.labels(pipeline, each.step).inc()

    def usage(self, kind: str, used: Usage) -> None:
        """Record the answers of engines to a batch, also one that failed or was given up."""
        pipeline = kind.partition(":")[2]
        read, wrote = used.cached_tokens_in, used.cached_tokens_out
        for source, answers, tokens in (
            ("model", used.calls, (used.tokens_in - read, used.tokens_out - wrote)),
            ("log", used.cached, (read, wrote)),
        ):
            if answers:
                self.calls.labels(pipeline, source).inc(answers)
                self.tokens.labels(pipeline, source, "in").inc(tokens[0])
                self.tokens.labels(pipeline, source, "out").inc(tokens[1])

    def collect(self) -> Iterable[Metric]:
        """All metrics with a `replica` label, since each scrape reaches only one replica."""
        for family in map(copy, self.registry.collect()):
            family.samples = [
                each._replace(labels={**each.labels, "replica": self._replica})
                for each in family.samples
            ]
            yield family

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self)


_NS = 1_000_000_000


@dataclass(frozen=True)
class StepSpans:
    """The steps that made an answer, as (name, seconds), and when the last one ended."""

    taken: Sequence[tuple[str, float]]
    ended_ns: int

    @classmethod
    def of(cls, trace: Sequence[Mapping[str, Any]]) -> StepSpans:
        """Make the spans from a row's trace, and take now as the end of the last step."""
        return cls([(step["step"], step["seconds"]) for step in trace], time.time_ns())


class Collector:
    """Sends traces to an OpenTelemetry collector, in batches from a thread."""

    def __init__(self, endpoint: str) -> None:
        """Bind the address; requests do not wait for the collector, even if it is down."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._provider = TracerProvider(
            resource=Resource.create({"service.name": "srrag"}), shutdown_on_exit=False
        )
        exporter = OTLPSpanExporter(endpoint=endpoint, timeout=5)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1000))
        self._tracer: Tracer = self._provider.get_tracer("srrag.serve")

    def request(
        self, name: str, seconds: float, headers: Mapping[str, str], told: Mapping[str, Any],
        steps: StepSpans | None,
    ) -> None:  # fmt: skip
        """Record one span for the request, with a child span for each step."""
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        ended = time.time_ns()
        span = self._tracer.start_span(
            name,
            context=TraceContextTextMapPropagator().extract(dict(headers)),
            kind=SpanKind.SERVER,
            attributes={key: value for key, value in told.items() if value is not None},
            start_time=ended - int(_NS * seconds),
        )
        if told.get("http.response.status_code", 0) >= 500:
            span.set_status(Status(StatusCode.ERROR))
        within = set_span_in_context(span)
        at = 0 if steps is None else steps.ended_ns - int(_NS * sum(s for _, s in steps.taken))
        for step, took in () if steps is None else steps.taken:
            child = self._tracer.start_span(step, context=within, start_time=at)
            at += int(_NS * took)
            child.end(at)
        span.end(ended)

    def close(self) -> None:
        """Send the buffered traces, for a few seconds at most."""
        self._provider.shutdown()


def traces_to(endpoint: str | None) -> Collector | None:
    """Open the destination of traces, if there is one.

    Raises ValueError if OpenTelemetry is not installed.
    """
    try:
        return None if endpoint is None else Collector(endpoint)
    except ImportError as error:
        raise ValueError("traces=… needs: pip install 'srrag[traces]'") from error
