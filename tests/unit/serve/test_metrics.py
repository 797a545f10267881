from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from srrag.serve.telemetry import Metrics

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
