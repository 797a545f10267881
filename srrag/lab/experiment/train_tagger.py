"""Train taggers with several seeds, score them on expert labels, and write the best."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from srrag.algo.classification import Counts, figure_intervals, token_counts
from srrag.core.errors import UsageError, reading
from srrag.core.figures import measured, unmeasured
from srrag.core.provenance import KEY, fitted_on
from srrag.extract.find_mentions import FindByTagger
from srrag.lab.measure.pico import Extract, token_labels
from srrag.lab.train.group import RunTraining
from srrag.lab.train.loop import trained_weights
from srrag.lab.train.tagger.task import (
    Abstract,
    TaggerSettings,
    TaggerTask,
    fingerprint_of,
    read_abstracts,
    split,
)
from srrag.lab.train.tagger.training import base_folder, load_classifier
from srrag.model.read_weights import TOKENIZER
from srrag.model.tagger import FACTS, reading_json
from srrag.reading.mentions import read_mentions
from srrag.runner.progress import say
from srrag.storage.atomic_write import commit_json
from srrag.storage.manifest import seal


def write_tagger(
    out: Path,
    settings: TaggerSettings,
    weights: Path,
    lean: Sequence[float],
    facts: Mapping[str, Any],
) -> None:
    """Write the folder `out` in one move, in the place of an earlier one.

    `weights` is the last checkpoint of a training; `facts` are for the card and the manifest.
    """
    beside = out.with_name(f".{out.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    model = load_classifier(settings)
    parameters = dict(model.named_parameters())
    for name, tensor in trained_weights(weights).items():
        parameters[name].data.copy_(tensor)
    model.config._name_or_path = ""
    model.save_pretrained(beside)
    (beside / "model.safetensors").chmod(0o644)  # as all files beside it; the library says 600
    shutil.copyfile(base_folder(settings) / TOKENIZER, beside / TOKENIZER)
    fitted = {KEY: facts[KEY]} if KEY in facts else {}
    commit_json(beside / FACTS, {**reading_json(settings.reading(lean)), **fitted})
    write_card(beside, settings, facts)
    shutil.rmtree(out, ignore_errors=True)
    beside.rename(out)


def write_card(folder: Path, settings: TaggerSettings, facts: Mapping[str, Any]) -> None:
    """Write the model card, then the manifest of the whole folder."""
    (folder / "README.md").write_text(card(settings, facts), "utf-8")
    seal(folder, {"training": {key: value for key, value in facts.items() if key != KEY}})


def card(settings: TaggerSettings, facts: Mapping[str, Any]) -> str:
    """The model card, in Markdown."""
    held, expert = facts["held_out"], facts["expert"]
    lines = [
        "# PICO tagger",
        "",
        f"Labels the words of a medical text P (population, condition), I (intervention, "
        f"comparator), O (outcome) or none. `{settings.encoder}` with a linear map on top, trained "
        f"by `{facts['command']}`.",
        "",
        f"- Trained on {facts['training_abstracts']} crowd-labelled abstracts of EBM-NLP, "
        f"{settings.epochs} epochs; {facts['held_out_abstracts']} others were held out and chose "
        f"the seed ({facts['seed']}) and the lean ({', '.join(map(str, facts['lean']))} nats for "
        "P, I, O).",
        "- English abstracts of trials alone: other kinds of text, full texts and other languages "
        "were not looked at. One label a word: overlapping spans are lost. Not for clinical use.",
        "- EBM-NLP states no licence; the words of its abstracts belong to their publishers. "
        "Check both before you pass these weights on.",
        "",
        "| tokens of | macro F1 | P | I | O |",
        "|---|---|---|---|---|",
        _row("held-out crowd abstracts", held),
    ]
    if expert:
        macro = expert["tokens"]["metrics"]["token_macro_F1"]
        scored = expert["documents"]
        name = f"{scored} expert abstracts, 95 % interval [{macro['low']:.3f}, {macro['high']:.3f}]"
        lines += [
            _row(name, _values(expert["tokens"])),
            _row("the same, after the rules typed its mentions", _values(expert["mentions"])),
        ]
    return "\n".join(
        [*lines, "", "`srrag build mentions=tagger mentions.model=FOLDER` uses it.", ""]
    )


def _values(scored: Mapping[str, Any]) -> dict[str, float]:
    return {name: each["value"] for name, each in scored["metrics"].items()}


def _row(name: str, figures: Mapping[str, Any]) -> str:
    cells = (figures[key] for key in ("token_macro_F1", "P_F1", "I_F1", "O_F1"))
    return f"| {name} | " + " | ".join(f"{value:.3f}" for value in cells) + " |"


@dataclass(frozen=True, kw_only=True)
class TrainTaggerJob:
    """Taggers on the abstracts of `crowd`, a seed each; `expert` judges them and chooses none."""

    crowd: Path
    expert: Path | None
    settings: TaggerSettings
    seeds: Sequence[int]
    validation_share: float
    split_seed: int
    device: str
    out: Path
    resamples: int
    """Of the intervals of the figures."""
    command: str

    def run(self, train: RunTraining) -> dict[str, Any]:
        """Train a tagger for each seed, score all, and write the best on held-out abstracts."""
        started = time.perf_counter()
        with reading(*filter(None, (self.crowd, self.expert))):
            crowd = read_abstracts(self.crowd)
            expert = read_abstracts(self.expert) if self.expert else []
        try:
            training, held = split(crowd, self.validation_share, self.split_seed)
        except ValueError as error:
            raise UsageError(f"{self.crowd}: {error}") from error
        self._check_apart(crowd, expert)
        found = []
        for seed in self.seeds:
            task = self._task(crowd, seed)
            say(f"seed {seed}: {len(training)} abstracts to learn from, {len(held)} held out")
            found.append((task, result := train(task), self._stated(task, result, training, held)))
        chosen = max(range(len(found)), key=lambda i: found[i][2]["held_out"]["token_macro_F1"])
        # The expert file is read for figures only, when everything is chosen.
        for place, (task, result, facts) in enumerate(found):
            folder = self.out / ("model" if place == chosen else f"seed-{task.seed}")
            weights = Path(task.state) / result["weights"]
            write_tagger(folder, self.settings, weights, result["lean"], facts)
            if expert:
                facts["expert"] = score(folder, expert, self.resamples)
                write_card(folder, self.settings, facts)
        return {
            **summarise([facts for _, _, facts in found], chosen),
            "model": str(self.out / "model"),
            "revision": FindByTagger(model=str(self.out / "model")).revision,
            "rules": scored(expert, read_mentions, self.resamples) if expert else None,
            "out": str(self.out),
            "seconds": round(time.perf_counter() - started, 3),
        }

    def _stated(
        self,
        task: TaggerTask,
        result: dict[str, Any],
        training: Sequence[Abstract],
        held: Sequence[Abstract],
    ) -> dict[str, Any]:
        """The facts for model card and manifest; the expert figures come last."""
        return {
            "seed": task.seed,
            **{name: result[name] for name in ("lean", "held_out", "curve")},
            "training_abstracts": len(training),
            "held_out_abstracts": len(held),
            "crowd": {"file": Path(task.crowd).name, "fingerprint": task.fingerprint},
            "settings": task.plain()["settings"],
            "command": self.command,
            KEY: fitted_on(
                name="tagger",
                command=self.command,
                documents=[abstract.text for abstract in (*training, *held)],
            ),
            "expert": None,
        }

    def _check_apart(self, crowd: Sequence[Abstract], expert: Sequence[Abstract]) -> None:
        """Raise UsageError if the expert file contains a text of the training file."""
        texts = {abstract.text for abstract in crowd}
        for place, abstract in enumerate(expert, start=1):
            if abstract.text in texts:
                raise UsageError(f"{self.expert} line {place}: the text stands in {self.crowd}")

    def _task(self, crowd: Sequence[Abstract], seed: int) -> TaggerTask:
        """A training with its folder of checkpoints, which bears the name of what it is."""
        return TaggerTask(
            crowd=str(self.crowd.resolve()),
            fingerprint=fingerprint_of(crowd),
            settings=self.settings,
            share=self.validation_share,
            split_seed=self.split_seed,
            seed=seed,
            device=self.device,
        ).within(self.out)


def score(folder: Path, expert: Sequence[Abstract], resamples: int) -> dict[str, Any]:
    """Figures on the expert file: of the tagger's tokens, and of the mentions made of them."""
    tagger = FindByTagger(model=str(folder.resolve()))
    return {
        "documents": len(expert),
        "tokens": scored(expert, tagger.label, resamples),
        "mentions": scored(expert, tagger.read, resamples),
    }


def scored(expert: Sequence[Abstract], extract: Extract, resamples: int) -> dict[str, Any]:
    """Return `metrics`: token figures as `evaluate.pico` counts them, drawn by abstract."""
    counts: Counts = np.stack(
        [token_counts(a.labels, token_labels(a.text, extract(a.text))) for a in expert]
    )
    found = figure_intervals(counts, resamples=resamples)
    return {"metrics": {name: measured(each, len(expert)) for name, each in found.items()}}


def summarise(found: Sequence[dict[str, Any]], chosen: int) -> dict[str, Any]:
    """Return the main figures, then those of every seed."""
    first: dict[str, Any] = {
        "metrics": {"token_macro_F1": unmeasured("train.expert is null: nobody judged it")},
        "seed": found[chosen]["seed"],
        "settings": found[chosen]["settings"],
    }
    if found[chosen]["expert"]:
        # By the mentions, as the rules are scored; `tokens` are what the tagger labels alone.
        macro = [_macro(facts["expert"]["mentions"]) for facts in found]
        first |= {
            "metrics": found[chosen]["expert"]["mentions"]["metrics"],
            "mean_over_seeds": round(sum(macro) / len(macro), 4),
            "lowest": min(macro),
            "highest": max(macro),
        }
    kept = ("seed", "lean", "held_out", "expert", "curve")
    return {**first, "seeds": [{key: facts[key] for key in kept} for facts in found]}


def _macro(scored_: dict[str, Any]) -> float:
    value: float = scored_["metrics"]["token_macro_F1"]["value"]
    return value


def readable(found: Sequence[dict[str, Any]]) -> str:
    """Macro F1 a seed, for a terminal."""
    lines = ["token macro-F1   held out   expert, tokens   expert, mentions"]
    for facts in found:
        cells = [f"{facts['held_out']['token_macro_F1']:.4f}"]
        if expert := facts["expert"]:
            cells += [f"{_macro(expert[name]):.4f}" for name in ("tokens", "mentions")]
        lines.append(f"  seed {facts['seed']:<10}" + "       ".join(cells))
    return "\n".join(lines)
