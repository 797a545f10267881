"""Sample pairs from a benchmark with gold windows, after a pipeline ranked its questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.errors import UsageError
from srrag.evaluate.references import resource_path
from srrag.experiment.rankings import read_windows
from srrag.hits import unpack_hits
from srrag.pipeline import Pipeline
from srrag.rerank.betr import RerankBETR, scorer
from srrag.retrieve.questions import question_table
from srrag.runner.progress import say
from srrag.train.betr.pairs import Origin, sample_pairs, write_pairs
from srrag.units import Units


def betr_of(pipeline: Pipeline) -> RerankBETR | None:
    """Return the first BETR of the ranking, None if it has none."""
    return next((step for step in pipeline.rank if isinstance(step, RerankBETR)), None)


def uncalibrated(pipeline: Pipeline) -> Pipeline:
    """Cut the ranking after the reranker whose scores BETR will calibrate.

    That is the reranker inside BETR if the ranking has one (betr.json is not read), else the last.
    """
    step = betr_of(pipeline)
    if step is None:
        return pipeline.ranking()
    try:
        return Pipeline(rank=(*pipeline.rank[: pipeline.rank.index(step)], step.reranker))
    except ValueError as error:
        raise UsageError(f"pipeline: up to the reranker of BETR: {error}") from error


def make_pairs(config: dict[str, Any], path: Path) -> Path:
    """Rank the benchmark's questions, and sample pairs from the windows found."""
    bench, train = config["bench"], config["train"]
    if bench["kind"] != "gold":
        raise UsageError(f"bench.kind={bench['kind']}: pairs need gold windows (bench.kind=gold)")
    pipeline = uncalibrated(factory.make(config["pipeline"], "pipeline"))
    reranker = pipeline.rank[-1]
    bound = factory.pipeline_run(config, pipeline)
    units = Units(bound.store.artifacts(config["build"])["units"])
    questions, gold = read_windows(config, resource_path(bench["path"]), units)
    asked = question_table(row for row in questions if row["query_id"] in gold)
    table = bound.run(asked, factory.place(config))
    unit_ids, scores, offsets = unpack_hits(table["hits"])
    found = unit_ids.to_pylist()
    candidates = {}
    for row, query_id in enumerate(table["query_id"].to_pylist()):
        best = slice(offsets[row], min(offsets[row + 1], offsets[row] + train["depth"]))
        candidates[query_id] = (found[best], scores[best])
    names = sorted({name for ids, _ in candidates.values() for name in ids})
    grades = dict(zip(names, units.take(names, ("grade",))["grade"].to_pylist(), strict=True))
    sampling = {"negatives": train["negatives"], "seed": train["seed"]}
    pairs = sample_pairs(candidates, gold, grades, **sampling)
    origin = Origin(
        num_queries=len(gold), reranker=scorer(reranker), depth=train["depth"], **sampling
    )
    write_pairs(path, pairs, origin)
    say(f"{pairs.num_rows:,} pairs of {len(gold):,} questions → {path}")
    return path
