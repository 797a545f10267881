"""What a benchmark keeps of a ranking, and what it is called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from srrag.config.compose import configure
from srrag.core.schema import HITS
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.lab.experiment.read_bench import read_bench
from srrag.lab.experiment.running import Terms
from srrag.storage.store import Store
from tests.unit.lab.report.toy_results import toy_answers


def test_a_ranking_is_kept_with_the_texts_of_its_first_windows(sample_root: Path) -> None:
    artifacts = Store(sample_root).artifacts("default")
    names = Units(artifacts["units"]).units["unit_id"].to_pylist()[:12]
    hits = [{"unit_id": n, "score": 1.0, "rank": r} for r, n in enumerate(names, start=1)]
    table = toy_answers().slice(0, 1).select(["query_id", "text", "trace", "reject"])
    bench = read_bench(Terms.of(configure("evaluate", ["bench=sample", f"root={sample_root}"])))
    ranked = table.append_column("hits", pa.array([hits], HITS))
    kept = bench.kept(ranked, Place(artifacts=artifacts))
    evidence = kept["evidence"].to_pylist()[0]
    assert [item["unit_id"] for item in evidence] == names[:10]
    assert all(item["text"] for item in evidence)


def test_a_benchmark_is_called_by_the_end_of_its_path() -> None:
    terms = Terms.of(configure("evaluate", ["bench=answers"]))
    for path in ("b.json", "a/b.json", "/x/a/b.json", "pkg://x/a/b.json"):
        named = replace(terms, bench={"kind": "answers", "path": path}).name
        assert named == ("answers b.json" if path == "b.json" else "answers a/b.json")
