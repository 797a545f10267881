"""The metrics of a replica, in Prometheus' format."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from copy import copy

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest

from srrag.answer.record import degraded
from srrag.serve.snapshot import PipelineResult

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
        """Record an answer: its steps, each with the time of its whole batch, and its usage."""
        pipeline, used = kind.partition(":")[2], found.usage
        for item in found.row.get("trace", ()):
            self.stage_seconds.labels(pipeline, item["step"]).observe(item["seconds"])
        for each in found.row.get("unsupported", ()):
            self.dropped.labels(pipeline, each["fault"]).inc()
        for each in degraded(found.row):
            self.lost_steps.labels(pipeline, each.step).inc()
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
