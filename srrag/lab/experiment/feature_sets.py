"""Candidates with their features and gold, for `srrag fit_betr features=…`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from srrag.algo.betr import GRADES
from srrag.algo.classification import FOLDS
from srrag.algo.significance import bootstrap_interval, paired_bootstrap
from srrag.core.errors import UsageError
from srrag.core.figures import measured, printed
from srrag.core.pipeline import Pipeline, PipelineSlice
from srrag.core.provenance import fitted_on
from srrag.core.step import within
from srrag.core.units import open_units
from srrag.lab.experiment.rankings import Judged, read_judged
from srrag.lab.experiment.running import Running
from srrag.lab.measure.references import per_question, resource_path
from srrag.lab.train.betr.features import (
    AskedCandidates,
    FeatureSettings,
    cross_fitted,
    fold_fits,
    stated_fit,
    stated_folds,
)
from srrag.rerank.feature_weights import embedder_name, fit_name
from srrag.rerank.fuse_features import FuseFeatures
from srrag.runner.progress import say

Floats = npt.NDArray[np.float64]
BATCH = 64
SHOWN = ("nDCG@10", "MRR@10", "recall@100")


@dataclass(frozen=True)
class FeatureSet:
    """A benchmark's questions with their candidates; `found` names the documents of each."""

    name: str
    judged: Judged
    rows: list[AskedCandidates]
    found: list[list[str]]

    def measured(self, scores: Sequence[Floats]) -> dict[str, Floats]:
        """Each metric by question of a ranking of the candidates by these scores."""
        run = {}
        for row, names, values in zip(self.rows, self.found, scores, strict=True):
            order = np.lexsort((np.arange(len(values)), -np.round(values, 5)))
            ranked = dict.fromkeys(names[n] for n in order)
            run[row.query_id] = {name: 1.0 / n for n, name in enumerate(ranked, start=1)}
        return per_question(self.judged.qrels, run)


def fusing(pipeline: Pipeline) -> tuple[PipelineSlice, FuseFeatures]:
    """The steps before the fusion of features, and that step; UsageError if there is none."""
    for place, step in enumerate(pipeline.rank):
        inner = [each for each in within(step) if isinstance(each, FuseFeatures)]
        if inner:
            return PipelineSlice(steps=pipeline.rank[:place]), inner[0]
    raise UsageError("pipeline: it has no FuseFeatures, whose weights features=… would fit")


@dataclass(frozen=True)
class SetFile:
    """A benchmark that weights are fitted to, and the root that is ranked for it."""

    name: str
    root: str
    build: str
    path: str
    split: Any = None
    """Of a file with gold windows: which of its questions are taken."""

    def judged(self) -> Judged:
        """Read its gold; raises UsageError if it does not fit the root."""
        folder = resource_path(self.path)
        bench = {"kind": "gold", "split": self.split}
        if folder.is_dir():
            bench = {"kind": "beir", "split": "test"}
        return read_judged({**bench, "k": 10}, folder, self.root, self.build)


def gather(file: SetFile, pipeline: Pipeline, running: Running) -> FeatureSet:
    """Run the steps before the fusion over a benchmark's questions, and compute the features."""
    judged, name = file.judged(), file.name
    before, step = fusing(pipeline)
    bound = running.bound(file.root, file.build, pipeline.ranking())
    at = bound.place(running.place)
    run, candidates, units = before.open(at), step.gatherer(at), open_units(at, step.units)
    rows: list[AskedCandidates] = []
    found: list[list[str]] = []
    for start in range(0, judged.table.num_rows, BATCH):
        table = run(judged.table.slice(start, BATCH))
        some = candidates(table)
        names = some.ids.to_pylist()
        if not judged.by_window:
            names = units.document_keys(names).to_pylist()
        for n, (a, b) in enumerate(pairwise(some.offsets.tolist())):
            query_id, text = (table[key][n].as_py() for key in ("query_id", "text"))
            gold = judged.qrels[query_id]
            relevant = np.array([gold.get(each, 0) > 0 for each in names[a:b]], np.bool_)
            rows.append(
                AskedCandidates(
                    query_id, text, some.x[a:b], some.documents[a:b], some.grades[a:b], relevant
                )
            )
            found.append(names[a:b])
    say(f"{name}: {len(rows):,} questions, {sum(map(len, found)):,} candidates")
    return FeatureSet(name, judged, rows, found)


def fit_sets(
    sets: Sequence[FeatureSet],
    step: FuseFeatures,
    settings: FeatureSettings,
    subsets: Sequence[Sequence[str]],
    command: str,
) -> dict[str, Any]:
    """Fit the weights of a step's features to every set, as JSON for the file.

    Each set weighs the same. There is a fit to all features of the step, and one to each list of
    `subsets`. Its `cross_fitted` figures are on questions that the weights had not seen.
    """
    fits: dict[str, Any] = {}
    first: dict[str, dict[str, Floats]] = {}
    for features in (step.names, *subsets):
        if unknown := sorted(set(features) - set(step.names)):
            raise UsageError(f"train.subsets: the pipeline has no feature {unknown[0]!r}")
        names = sorted(features)
        columns = [step.names.index(name) for name in names]
        rows = [[_narrowed(row, columns) for row in each.rows] for each in sets]
        fit = stated_fit(names, rows, settings)
        folds = fold_fits(rows, settings)
        crossed = zip(sets, cross_fitted(rows, folds, settings), strict=True)
        values = {each.name: each.measured(s) for each, s in crossed}
        first = first or values
        fit["cross_fitted"] = {
            name: _compared(found, first[name]) for name, found in values.items()
        }
        fits[fit_name(features)] = fit | {"folds": stated_folds(names, folds)}
    return {
        "embedder": embedder_name(step.encoder),
        "fits": fits,
        "settings": dataclasses.asdict(settings) | {"folds": FOLDS},
        "sets": {
            each.name: {
                "questions": len(each.rows),
                "candidates": sum(len(row.x) for row in each.rows),
                "graded": sorted({GRADES[g] for row in each.rows for g in set(row.grades)}),
            }
            for each in sets
        },
        "fitted_on": _provenance(command, sets),
    }


def said(name: str, fit: Mapping[str, Any]) -> dict[str, Any]:
    """Print a fit, and return it with the features that are worth nothing by name."""
    say(f"\n{name}: {fit['pairs']:,} pairs of {fit['questions']:,} questions")
    each = {**fit["features"], **{f"u_{grade}": u for grade, u in fit["u"].items()}}
    for key, found in each.items():
        note = "" if found["worth"] or key == "u_A" else "   worth nothing: it may be 0"
        say(f"  {key:<24}{found['value']:9.4f}   [{found['low']:.4f}, {found['high']:.4f}]{note}")
    for key, figure in set_metrics(fit).items():
        say(f"  {key:<24}{printed(figure)}   (cross-fitted)")
    for set_name, found in fit["cross_fitted"].items():
        for key, figure in found.get("difference", {}).items():
            say(f"  {set_name} {key:<18}{printed(figure)}   (more than all features)")
    useless = [key for key, found in fit["features"].items() if not found["worth"]]
    return {key: each for key, each in fit.items() if key != "folds"} | {"worth_nothing": useless}


def _narrowed(row: AskedCandidates, columns: Sequence[int]) -> AskedCandidates:
    return dataclasses.replace(row, x=row.x[:, columns])


def _compared(values: Mapping[str, Floats], first: Mapping[str, Floats]) -> dict[str, Any]:
    """The figures of a fit, and its differences to the fit to all features."""
    size = len(values[SHOWN[0]])
    told = {name: measured(bootstrap_interval(values[name]), size) for name in SHOWN}
    if values is first:
        return {"metrics": told}
    more = {name: paired_bootstrap(values[name], first[name]) for name in SHOWN}
    return {
        "metrics": told,
        "difference": {name: measured(each[:3], size) for name, each in more.items()},
    }


def set_metrics(fit: Mapping[str, Any]) -> dict[str, Any]:
    """The cross-fitted figures of a fit, by set and metric."""
    return {
        f"{name} {metric}": figure
        for name, found in fit["cross_fitted"].items()
        for metric, figure in found["metrics"].items()
    }


def _provenance(command: str, sets: Sequence[FeatureSet]) -> dict[str, Any]:
    """What the weights were fitted to, so that an evaluation on the same questions can say so."""
    return fitted_on(
        name="features",
        command=command,
        questions=[row.text for each in sets for row in each.rows],
    )
