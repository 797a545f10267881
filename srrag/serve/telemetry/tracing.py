"""OpenTelemetry traces: one per request with a span per step, sent to a collector if one is set.

The caller's `traceparent` header names the parent span. Spans hold no text of a question.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

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
