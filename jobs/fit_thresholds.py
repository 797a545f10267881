"""`srrag fit_thresholds`: thresholds of a tree search, as quantiles of the scores of gold units."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.core.errors import UsageError, reading
from srrag.core.figures import printed
from srrag.core.pipeline import Pipeline, PipelineSlice
from srrag.core.provenance import fitted_on
from srrag.core.units import open_units
from srrag.retrieve.questions import question_table
from srrag.runner.progress import say
from srrag.storage.atomic_write import commit_json
from srrag.systems.rasrag.fit_thresholds import (
    gold_scores,
    read_gold_questions,
    tree_of,
)
from srrag.systems.rasrag.thresholds import QUANTILES, Thresholds, fit


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Score the gold units of every question and write `thresholds.json`."""
    started = time.perf_counter()
    if config["root"] is None:
        raise UsageError("root= is missing: a build of plan=textbook")
    quantiles = _quantiles(config["quantiles"])
    queries, qrels = Path(config["queries"]), Path(config["qrels"])
    with reading(queries), reading(qrels):
        questions = read_gold_questions(queries, qrels, config["sample"])
    made: Pipeline = factory.make(config["pipeline"], "pipeline")
    before, tree = tree_of(made)
    tree = replace(tree, thresholds="", set_to=None, moved={})  # every STU of the first root
    bound = factory.pipeline_run(config, Pipeline(rank=(*before, tree)))
    at = bound.place(factory.place(config))
    asked = question_table({"query_id": q.query_id, "text": q.text} for q in questions)
    encoded = PipelineSlice(steps=before).open(at)(asked)
    gold = gold_scores(tree, questions, encoded, open_units(at), at)
    thresholds = fit(gold.btus, gold.stus, quantiles)
    Thresholds(**thresholds)  # refuses quantiles that leave two of them equal
    origin = fitted_on(
        name="thresholds of a tree search",
        command=f"srrag fit_thresholds sample={config['sample']}".lower(),
        questions=[each.text for each in questions],
        documents=[name for each in questions for name in each.documents],
    )
    out = Path(config["out"]) / "thresholds.json"
    named = {"scorer": tree.scorer_name(), "embedder": tree.embedder()}
    told = {**named, "thresholds": thresholds, "fitted_on": origin}
    commit_json(out, told, sealed=True)
    metrics = gold.metrics(quantiles)
    for name, each in metrics.items():
        say(f"  {name:<16}{printed(each)}   quantile {quantiles[name]} of the gold (fitted)")
    return {
        "questions": len(questions),
        "gold_btus": len(gold.btus),
        "gold_stus": len(gold.stus),
        "metrics": metrics,
        "word": "fitted",
        "scorer": tree.scorer_name(),
        "file": str(out),
        "seconds": round(time.perf_counter() - started, 3),
    }


def _quantiles(given: dict[str, Any]) -> dict[str, float]:
    """Check the shares; raises UsageError that names the key."""
    for name in QUANTILES:
        value = given.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise UsageError(f"quantiles.{name}={value}: a share from 0 to 1")
    return {name: float(given[name]) for name in QUANTILES}
