"""Sample pairs from a benchmark with gold windows, after a pipeline ranked its questions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError
from srrag.core.hits import unpack_hits
from srrag.core.pipeline import Pipeline
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.lab.experiment.rankings import read_windows
from srrag.lab.measure.references import resource_path
from srrag.lab.train.betr.pairs import Origin, sample_pairs, write_pairs
from srrag.rerank.betr import RerankBETR, scorer
from srrag.retrieve.questions import question_table
from srrag.runner.pipeline_run import PipelineRun
from srrag.runner.progress import say


def betr_of(pipeline: Pipeline) -> RerankBETR | None:
    """Return the first BETR of the ranking, None if it has none."""
    return next((step for step in pipeline.rank if isinstance(step, RerankBETR)), None)


def default_out(pipeline: Pipeline | None, root: str | None, pairs: str | None) -> Path:
    """Return the folder that a pipeline's BETR reads, else one in the root or beside the pairs."""
    step = None if pipeline is None else betr_of(pipeline)
    if step is not None:
        return Path(step.model or step.own).parent
    return Path(str(pairs)).parent / "betr" if root is None else Path(root) / "jobs" / "fit_betr"


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


def make_pairs(
    bench: Mapping[str, Any],
    bound: PipelineRun,
    at: Place,
    path: Path,
    *,
    depth: int,
    negatives: int,
    seed: int,
) -> Path:
    """Rank the benchmark's questions, and sample pairs from the first `depth` windows of each.

    `bound` is an uncalibrated pipeline at a build.
    """
    if bench["kind"] != "gold":
        raise UsageError(f"bench.kind={bench['kind']}: pairs need gold windows (bench.kind=gold)")
    units = Units(bound.store.artifacts(bound.build)["units"])
    questions, gold = read_windows(resource_path(bench["path"]), bench.get("split"), units)
    asked = question_table(row for row in questions if row["query_id"] in gold)
    table = bound.run(asked, at)
    unit_ids, scores, offsets = unpack_hits(table["hits"])
    found = unit_ids.to_pylist()
    candidates = {}
    for row, query_id in enumerate(table["query_id"].to_pylist()):
        best = slice(offsets[row], min(offsets[row + 1], offsets[row] + depth))
        candidates[query_id] = (found[best], scores[best])
    names = sorted({name for ids, _ in candidates.values() for name in ids})
    grades = dict(zip(names, units.take(names, ("grade",))["grade"].to_pylist(), strict=True))
    sampling = {"negatives": negatives, "seed": seed}
    pairs = sample_pairs(candidates, gold, grades, **sampling)
    origin = Origin(
        num_queries=len(gold),
        reranker=scorer(bound.pipeline.rank[-1]),
        depth=depth,
        questions={row["query_id"]: row["text"] for row in asked.to_pylist()},
        **sampling,
    )
    write_pairs(path, pairs, origin)
    say(f"{pairs.num_rows:,} pairs of {len(gold):,} questions → {path}")
    return path
