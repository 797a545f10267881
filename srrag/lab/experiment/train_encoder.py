"""Adapt an encoder to questions with gold passages, and write it if a second set allows it."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save_file

from srrag.algo.maxsim import maxsim, take_ragged
from srrag.algo.significance import Values, bootstrap_interval, paired_bootstrap
from srrag.core.errors import UsageError
from srrag.core.figures import measured
from srrag.core.provenance import KEY, digest, fitted_on, including
from srrag.core.spec import spec
from srrag.lab.experiment.gold_sets import GoldSet, GoldSource, read_gold_set
from srrag.lab.measure.references import per_question
from srrag.lab.train.encoder.task import (
    EncoderSettings,
    EncoderTask,
    Floats,
    GoldMaterial,
    make_material,
)
from srrag.lab.train.encoder.training import PASSAGE, Towers, tower_folders, trained_pooling
from srrag.lab.train.group import RunTraining
from srrag.lab.train.loop import trained_weights
from srrag.model.embed import LoadedEncoder, TokenVectors, load
from srrag.model.encoder import FACTS, QUERY_TOWER, Encoder, trained_revision
from srrag.runner.progress import say
from srrag.storage.atomic_write import commit_json
from srrag.storage.manifest import seal

_KEPT = ("*.json", "vocab.txt", "*.model")
_MODULES = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]


def write_encoder(
    folder: Path, base: Encoder, max_tokens: int, weights: Path, facts: Mapping[str, Any]
) -> None:
    """Write a trained encoder into an empty `folder`, a second tower into a folder within it.

    Both are read as any folder is, by this package and by sentence-transformers.
    """
    towers = Towers(base, max_tokens, "cpu")
    for role, tensors in towers.weights(trained_weights(weights)).items():
        place = folder if role == PASSAGE else folder / QUERY_TOWER
        place.mkdir(parents=True, exist_ok=True)
        for pattern in _KEPT:
            for path in towers.folders[role].glob(pattern):
                if path.name not in (FACTS, "manifest.json"):
                    shutil.copyfile(path, place / path.name)
        save_file(tensors, place / "model.safetensors", {"format": "pt"})
        (place / "model.safetensors").chmod(0o644)
        _write_modules(place, towers.pooling, towers.dim)
        commit_json(place / FACTS, {**stated(base, towers.pooling), KEY: facts[KEY]})
    for place in (folder / QUERY_TOWER, folder):
        if place.is_dir():
            write_encoder_card(place, base, facts)


def stated(base: Encoder, pooling: str) -> dict[str, Any]:
    """Facts for a user of the folder."""
    return {
        "base": base_name(base),
        "pooling": pooling,
        "query_prefix": base.query_prefix,
        "passage_prefix": base.passage_prefix,
        "two_towers": bool(base.query_model),
    }


def base_name(base: Encoder) -> str:
    """What the encoder was made from: an id, or the name of a folder, wherever it lies."""
    return Path(base.model).name if Path(base.model).is_dir() else base.model


def write_encoder_card(folder: Path, base: Encoder, facts: Mapping[str, Any]) -> None:
    """Write the model card, then the manifest of the whole folder."""
    (folder / "README.md").write_text(encoder_card(base, facts), "utf-8")
    seal(folder, {"training": {key: value for key, value in facts.items() if key != KEY}})


def encoder_card(base: Encoder, facts: Mapping[str, Any]) -> str:
    """The model card, in Markdown."""
    lines = [
        "# Encoder of questions and passages",
        "",
        f"`{base_name(base)}`, trained by `{facts['command']}` on {facts['questions']} questions "
        f"with gold passages, {facts['steps']} steps.",
        "",
        "| | before | after | difference |",
        "|---|---|---|---|",
    ]
    for title, found in (("held out", facts["held_out"]), ("gate", facts["gate"])):
        for name, after in found["metrics"].items():
            gain = found["difference"][name]
            lines.append(
                f"| {title}: {name}, {after['n']} questions | "
                f"{found['baseline_metrics'][name]['value']:.3f} | {after['value']:.3f} | "
                f"{gain['value']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}] |"
            )
    two = f" embedder.query_model=FOLDER/{QUERY_TOWER}" if base.query_model else ""
    prefixes = [
        f" embedder.{name}={json.dumps(getattr(base, name))}"
        for name in ("query_prefix", "passage_prefix")
        if getattr(base, name)
    ]
    use = f"embedder=folder embedder.model=FOLDER{two}{''.join(prefixes)}"
    return "\n".join([*lines, "", f"`srrag build {use}`, and the same for `ask`.", ""])


def _write_modules(folder: Path, pooling: str, width: int) -> None:
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, (path, kind) in enumerate(_MODULES)
    ]
    commit_json(folder / "modules.json", modules)
    for path, _ in _MODULES[1:]:
        (folder / path).mkdir(exist_ok=True)
    modes = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    commit_json(
        folder / _MODULES[1][0] / "config.json",
        {
            "word_embedding_dimension": width,
            **{name: mode == pooling for name, mode in modes.items()},
        },
    )


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
        ).within(self.out)
        file = Path(task.state) / "material.json"
        material.write(file)
        return replace(task, material=str(file))
