"""Read the benchmark that `bench` names, in the shape in which it scores systems."""

from __future__ import annotations

from collections.abc import Mapping

from srrag.core.errors import UsageError
from srrag.core.rows import Row
from srrag.core.units import Units
from srrag.lab.experiment.answers import Answers, read_gold
from srrag.lab.experiment.bench import Bench
from srrag.lab.experiment.judging import judges
from srrag.lab.experiment.near_topic import read_bench_near_topic
from srrag.lab.experiment.rankings import Rankings, read_articles, read_judged, told_apart
from srrag.lab.experiment.terms import Terms
from srrag.lab.experiment.textbook import read_bench_textbook
from srrag.storage.store import Store

SYSTEMS = ("beir", "gold", "textbook", "near_topic", "answers")
"""Kinds of benchmarks that score systems one by one, so that a sweep can have any number."""


def read_bench(terms: Terms) -> Bench:
    """Read a benchmark that scores systems; raises UsageError for another kind."""
    bench, path, root, build = terms.bench, terms.path, terms.root, terms.build
    kind = bench["kind"]
    if not path.exists():
        raise UsageError(f"bench.path={path} does not exist")
    if kind == "textbook":
        return read_bench_textbook(bench, path, root, build)
    if kind == "near_topic":
        return read_bench_near_topic(bench, path, root)
    if kind in ("beir", "gold"):
        judged = read_judged(bench, path, root, build)
        return Rankings(judged, _documents(root, build))
    if kind != "answers":
        raise UsageError(f"bench.kind={kind}: a sweep scores {', '.join(SYSTEMS)}")
    return read_bench_answers(terms)


def read_bench_answers(terms: Terms) -> Answers:
    """Read a benchmark of answers; raises UsageError if it cannot be asked."""
    bench, path = terms.bench, terms.path
    rows, faulty = read_gold(bench, path)
    if not bench["answers"] and not any(row["text"] for row in rows):
        raise UsageError(
            "bench.path holds no question texts: answer them by `srrag answer`, and give "
            "bench.answers"
        )
    steps, documents = judges(bench["judges"]), _documents(terms.root, terms.build)
    stated = [told_apart({**row.pop("given"), **row}, documents) for row in rows]
    # No root names the documents of stored answers, and two systems have these scores or none.
    stored = bench["answers"] or bench["baseline_answers"]
    articles = None if stored else read_articles(bench, rows)
    return Answers(terms, rows, stated, steps, articles, faulty)


def _documents(root: str | None, build: str) -> Mapping[str, Row]:
    """The documents of a build by their source id; none without a root."""
    if root is None:
        return {}
    units = Units(Store(root).artifacts(build)["units"])
    known = units.documents.select(["source_id", "grade", "condition"]).to_pylist()
    return {row["source_id"]: row for row in known}
