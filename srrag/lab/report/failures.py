"""What failed, in lines that a terminal, Markdown and the page show before any figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from srrag.lab.report.row import Row

_SHOWN = 3


def stated(rows: Sequence[Row]) -> list[str]:
    """List failures, the worst first: whole rows, judges without a result, items, questions."""
    return [*_wholes(rows), *_judges(rows), *_items(rows), *_questions(rows)]


def _wholes(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row.state == "failed":
            yield f"{row.name} failed as a whole: {row.reason}"


def _judges(rows: Sequence[Row]) -> Iterator[str]:
    for judge in dict.fromkeys(name for row in rows for name in row.broken_judges):
        of = [row.name for row in rows if judge in row.broken_judges]
        all_ = "all systems" if len(of) == len(rows) > 1 else "; ".join(of)
        yield f"NO RESULT of the judge {judge}: it failed wherever it was asked, for {all_}"


def _items(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the partial failures of judges; a ranking has none, as its failures are questions."""
    for row in rows:
        lost = [
            f"{name} {figure.failed:,}" + (f" of {figure.items:,}" if figure.items else "")
            for name, figure in row.metrics.items()
            if row.judge and figure.failed and figure.value is not None
        ]
        if lost:
            more = f" and of {len(lost) - _SHOWN} more metrics" if len(lost) > _SHOWN else ""
            listed = ", ".join(lost[:_SHOWN])
            yield f"{row.name}: not judged, and counted as worst: items of {listed}{more}"


def _questions(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row.state == "done" and (row.failed or row.missing):
            counted = Counter(row.missing) or Counter(each.reason for each in row.failures)
            why = ", ".join(f"{reason} {count:,}" for reason, count in counted.most_common())
            lost = max(row.failed, sum(row.missing.values()))
            of = f"{lost:,} of {row.questions:,} questions"
            yield f"{row.name}: {of} without an answer" + (f" ({why})" if why else "")
