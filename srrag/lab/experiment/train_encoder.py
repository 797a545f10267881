"""Adapt an encoder to questions with gold passages, and write it if a second set allows it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from srrag.algo.intervals import Values, bootstrap_interval
from srrag.algo.maxsim import maxsim, take_ragged
from srrag.algo.significance import paired_bootstrap
from srrag.core.errors import UsageError
from srrag.core.figures import measured
from srrag.core.provenance import KEY, digest, fitted_on, including
from srrag.core.spec import spec
from srrag.lab.experiment.gold_sets import GoldSet, GoldSource, read_gold_set
from srrag.lab.experiment.run_training import RunTraining
from srrag.lab.measure.retrieval import per_question
from srrag.lab.train.encoder.folder import base_name, write_encoder
from srrag.lab.train.encoder.material import Floats, GoldMaterial, make_material
from srrag.lab.train.encoder.task import EncoderSettings, EncoderTask
from srrag.lab.train.encoder.towers import PASSAGE, tower_folders, trained_pooling
from srrag.model.embed import LoadedEncoder, TokenVectors, load
from srrag.model.encoder import QUERY_TOWER, Encoder, trained_revision
from srrag.runner.progress import say

DEPTH = 100
"""Number of passages nearest to the question that MaxSim reranks."""
GUARDED = ("dense_nDCG@10", "maxsim_nDCG@10")
"""Figures on a second set that a training run must not lower."""
_MEASURES = ("nDCG@10", "recall@100")


@dataclass(frozen=True)
class EncodedPassages:
    """The passages of a set as an encoder sees them."""

    model: LoadedEncoder
    vectors: Floats
    tokens: TokenVectors


def encode_passages(model: LoadedEncoder, found: GoldSet) -> EncodedPassages:
    """Encode a set's passages once for all questions."""
    return EncodedPassages(model, *model.encode_tokens(found.passages))


def ranked(encoded: EncodedPassages, found: GoldSet) -> dict[str, Values]:
    """By question: nDCG@10 and recall@100 by cosine, and nDCG@10 of those 100 by MaxSim."""
    vectors, tokens = encoded.model.encode_tokens(found.questions, "query")
    dense: dict[str, dict[str, float]] = {}
    late: dict[str, dict[str, float]] = {}
    for number, vector in enumerate(vectors):
        cosines = encoded.vectors @ vector
        near = np.argsort(-cosines, kind="stable")[:DEPTH]
        rows = slice(tokens.offsets[number], tokens.offsets[number + 1])
        query = tokens.values[rows] * tokens.scale[rows, None].astype(np.float32)
        places, ends = take_ragged(encoded.tokens.offsets, near)
        scores = maxsim(query, encoded.tokens.values[places], ends, encoded.tokens.scale[places])
        name = _name(number)
        dense[name] = _run(near)
        late[name] = _run(near[np.argsort(-scores, kind="stable")])
    qrels = {
        _name(n): {str(p): grade for p, grade in each.items()} for n, each in enumerate(found.gold)
    }
    values = per_question(qrels, dense)
    figures = {f"dense_{measure}": values[measure] for measure in _MEASURES}
    return figures | {"maxsim_nDCG@10": per_question(qrels, late)["nDCG@10"]}


def compared(
    ours: Mapping[str, Values], theirs: Mapping[str, Values], resamples: int
) -> dict[str, Any]:
    """Return `metrics`, `baseline_metrics` and their paired `difference`, with 95 % intervals."""
    found: dict[str, Any] = {"metrics": {}, "baseline_metrics": {}, "difference": {}}
    for name, values in ours.items():
        size, base = len(values), theirs[name]
        for key, each in (("metrics", values), ("baseline_metrics", base)):
            found[key][name] = measured(bootstrap_interval(each, resamples=resamples), size)
        gain = paired_bootstrap(values, base, resamples=resamples)
        found["difference"][name] = measured(
            (gain.value, gain.low, gain.high), size, p=round(gain.p, 4)
        )
    return found


def harmed(difference: Mapping[str, Mapping[str, Any]], margin: float) -> list[str]:
    """The guarded figures that may have lost more than `margin`: their interval reaches below it.

    The test of non-inferiority (Piaggio et al. 2012): a set too small to tell counts as harmed.
    """
    return [name for name in GUARDED if difference[name]["low"] < -margin]


def _name(number: int) -> str:
    return f"{number:09d}"  # scores come in the order of the sorted names


def _run(order: np.ndarray) -> dict[str, float]:
    """Score by rank: ir-measures breaks ties of scores by name, not by our order."""
    return {str(place): 1.0 / rank for rank, place in enumerate(order.tolist(), start=1)}


@dataclass(frozen=True, kw_only=True)
class TrainEncoderJob:
    """An encoder from the questions of `folds`; `held_folds` measure it, the gate lets it pass."""

    base: Encoder
    source: GoldSource
    folds: Sequence[int]
    held_folds: Sequence[int]
    gate: GoldSource
    gate_folds: Sequence[int]
    margin: float
    """The most that a guarded figure of the gate may lose, by the lower end of its interval."""
    settings: EncoderSettings
    seed: int
    device: str
    out: Path
    resamples: int
    """Of the intervals of the figures."""
    command: str

    def run(self, train: RunTraining) -> dict[str, Any]:
        """Mine negatives, train, measure before and after; write the folder if the gate lets it.

        Raises UsageError for bad input, before anything is encoded.
        """
        started = time.perf_counter()
        self._check_base()
        whole = read_gold_set(self.source, self.held_folds, self.folds)
        gate = read_gold_set(self.gate, self.gate_folds)
        learned, held = (self._folds(whole, each) for each in (self.folds, self.held_folds))
        self._check_gate(whole, gate)
        say(
            f"{len(learned)} questions to learn from, {len(held)} held out, {len(gate)} in the gate"
        )
        base = load(self.base, self.device)
        passages = encode_passages(base, whole)
        before = ranked(passages, held), ranked(encode_passages(base, gate), gate)
        queries = base.encode(learned.questions, "query")
        material = make_material(
            learned.questions, whole.passages, learned.gold, (queries, passages.vectors)
        )
        del passages
        task = self._task(material)
        result = train(task)
        beside = self.out / ".model.new"
        shutil.rmtree(beside, ignore_errors=True)
        return {
            **self._judged(task, result, beside, (learned, held, gate), before),
            "seconds": round(time.perf_counter() - started, 3),
        }

    def _judged(
        self,
        task: EncoderTask,
        result: dict[str, Any],
        beside: Path,
        sets: tuple[GoldSet, GoldSet, GoldSet],
        before: tuple[dict[str, Any], dict[str, Any]],
    ) -> dict[str, Any]:
        """Measure the trained folder as its user runs it, and publish it if it passes the gate."""
        learned, held, gate = sets
        facts = {
            "command": self.command,
            "questions": len(learned),
            "steps": result["steps"],
            "settings": task.plain()["settings"],
            "seed": self.seed,
            "base": {**spec(self.base), "model": base_name(self.base)},
            "curve": result["curve"],
            KEY: including(
                fitted_on(
                    name="embedder",
                    command=self.command,
                    questions=(*learned.questions, *gate.questions),
                ),
                self.base.fitted(),
            ),
        }
        empty: dict[str, Any] = {"metrics": {}, "baseline_metrics": {}, "difference": {}}
        weights = Path(task.state) / result["weights"]
        given = (self.base, self.settings.max_tokens, weights)
        write_encoder(beside, *given, {**facts, "held_out": empty, "gate": empty})
        trained = load(self._trained(beside), self.device)
        found = [
            compared(ranked(encode_passages(trained, each), each), earlier, self.resamples)
            for each, earlier in zip((held, gate), before, strict=True)
        ]
        facts |= {"held_out": found[0], "gate": found[1]}
        worse = harmed(found[1]["difference"], self.margin)
        shutil.rmtree(beside)
        summary = {
            **found[0],
            "gate": found[1],
            **{name: facts[name] for name in ("questions", "steps", "settings", "seed", "curve")},
            "out": str(self.out),
        }
        if worse:
            refused = self._refusal(worse[0], found[1])
            say(f"error: {refused}")
            return {**summary, "ok": False, "refused": refused, "model": None, "revision": None}
        write_encoder(beside, *given, facts)
        model = self.out / "model"
        shutil.rmtree(model, ignore_errors=True)
        beside.rename(model)
        return {
            **summary, "ok": True, "model": str(model), "revision": trained_revision(str(model))
        }  # fmt: skip

    def _refusal(self, name: str, found: dict[str, Any]) -> str:
        gain = found["difference"][name]
        return (
            f"not written: {name} of gate.data={self.gate.data} may have fallen by more than "
            f"gate.margin={self.margin}: {gain['value']:+.3f} [{gain['low']:+.3f}, "
            f"{gain['high']:+.3f}] over {gain['n']} questions"
        )

    def _trained(self, folder: Path) -> Encoder:
        tower = str(folder / QUERY_TOWER) if self.base.query_model else ""
        own: dict[str, Any] = {"model": str(folder), "query_model": tower, "revision": None}
        return replace(self.base, **own, query_revision=None)

    def _check_base(self) -> None:
        """Raise UsageError for an encoder that cannot be trained."""
        try:
            trained_pooling(self.base, tower_folders(self.base)[PASSAGE])
        except ValueError as error:
            raise UsageError(str(error)) from error

    def _folds(self, whole: GoldSet, folds: Sequence[int]) -> GoldSet:
        found = whole.of_folds(folds)
        if len(found) < 2:
            raise UsageError(
                f"{self.source.key}.data={self.source.data}: {len(found)} questions with gold in "
                f"folds {list(folds)}; at least 2 are needed"
            )
        return found

    def _check_gate(self, whole: GoldSet, gate: GoldSet) -> None:
        """Raise UsageError if the gate contains a question of the training set."""
        known = {digest(text) for text in whole.questions}
        both = sum(digest(text) in known for text in gate.questions)
        if both:
            raise UsageError(
                f"gate.data={self.gate.data}: {both} of its {len(gate)} questions are in "
                f"train.data too; a second set is needed"
            )

    def _task(self, material: GoldMaterial) -> EncoderTask:
        """A training with its folder of checkpoints, which bears the name of what it is."""
        task = EncoderTask(
            material="",
            fingerprint=material.fingerprint,
            base=self.base,
            settings=self.settings,
            seed=self.seed,
            device=self.device,
            state="",
        ).within(self.out)
        file = Path(task.state) / "material.json"
        material.write(file)
        return replace(task, material=str(file))
