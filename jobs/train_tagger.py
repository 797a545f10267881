"""`srrag train_tagger`: fine-tune an encoder to tag P, I and O, and score it on expert labels."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from srrag.algo.token_f1 import Counts, figures, macro_f1_interval, token_counts
from srrag.config import factory
from srrag.errors import UsageError, reading
from srrag.evaluate.pico import Extract, token_labels
from srrag.extract.find_mentions import FindByTagger
from srrag.mentions.find import read_mentions
from srrag.runner.progress import say
from srrag.spec import fingerprint
from srrag.train.group import Alone
from srrag.train.tagger.abstracts import Abstract, fingerprint_of, read_abstracts, split
from srrag.train.tagger.folder import write_card, write_tagger
from srrag.train.tagger.task import TaggerSettings, TaggerTask
from srrag.train.tagger.training import run_plain

SETTINGS = (
    "encoder", "revision", "epochs", "learning_rate", "head_factor", "weight_decay",
    "dropout", "frozen_layers", "batch_tokens", "window", "context", "precision",
)  # fmt: skip
Fit = Callable[[TaggerTask], dict[str, Any]]


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Train a tagger for each seed, score them all, and write the best on held-out abstracts."""
    started = time.perf_counter()
    train = config["train"]
    settings, seeds = read_settings(config)
    with reading(*(Path(train[name]) for name in ("crowd", "expert") if train[name])):
        crowd = read_abstracts(Path(train["crowd"]))
        expert = read_abstracts(Path(train["expert"])) if train["expert"] else []
    try:
        training, held = split(crowd, train["validation_share"], train["split_seed"])
    except ValueError as error:
        raise UsageError(f"{train['crowd']}: {error}") from error
    check_apart(train, crowd, expert)
    out, fit = Path(config["out"]), fitter(config)
    found = []
    for seed in seeds:
        task = make_task(config, settings, crowd, seed)
        say(f"seed {seed}: {len(training)} abstracts to learn from, {len(held)} held out")
        found.append((task, result := fit(task), stated(config, task, result, training, held)))
    chosen = max(range(len(found)), key=lambda i: found[i][2]["held_out"]["token_macro_F1"])
    # The expert file is read for figures only, when everything is chosen.
    for place, (task, result, facts) in enumerate(found):
        folder = out / ("model" if place == chosen else f"seed-{task.seed}")
        weights = Path(task.state) / result["weights"]
        write_tagger(folder, settings, weights, result["lean"], facts)
        if expert:
            facts["expert"] = score(folder, expert, config["resamples"])
            write_card(folder, settings, facts)
    say(readable([facts for _, _, facts in found]))
    return {
        **summarise([facts for _, _, facts in found], chosen),
        "model": str(out / "model"),
        "revision": FindByTagger(model=str(out / "model")).revision,
        "rules": scored(expert, read_mentions, config["resamples"]) if expert else None,
        "out": str(out),
        "seconds": round(time.perf_counter() - started, 3),
    }


def stated(
    config: dict[str, Any],
    task: TaggerTask,
    result: dict[str, Any],
    training: Sequence[Abstract],
    held: Sequence[Abstract],
) -> dict[str, Any]:
    """What model card and manifest say of a training; the expert figures come last."""
    return {
        "seed": task.seed,
        **{name: result[name] for name in ("lean", "held_out", "curve")},
        "training_abstracts": len(training),
        "held_out_abstracts": len(held),
        "crowd": {"file": Path(task.crowd).name, "fingerprint": task.fingerprint},
        "settings": task.plain()["settings"],
        "command": config["command"],
        "expert": None,
    }


def read_settings(config: dict[str, Any]) -> tuple[TaggerSettings, list[int]]:
    """Settings and seeds; raises UsageError that names what is wrong."""
    train = config["train"]
    seeds = train["seeds"] if isinstance(train["seeds"], list) else [train["seeds"]]
    whole = all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds)
    if not seeds or not whole or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise UsageError(f"train.seeds={train['seeds']}: different whole numbers from 0 are needed")
    if train["workers"] and not hasattr(factory.runner(config), "connect"):
        raise UsageError(f"train.workers={train['workers']}: workers need profile=ray")
    return factory.make_as(TaggerSettings, {key: train[key] for key in SETTINGS}, "train"), seeds


def check_apart(
    train: dict[str, Any], crowd: Sequence[Abstract], expert: Sequence[Abstract]
) -> None:
    """Raise UsageError if the file to score on holds a text that is learned from."""
    texts = {abstract.text for abstract in crowd}
    for place, abstract in enumerate(expert, start=1):
        if abstract.text in texts:
            raise UsageError(f"{train['expert']} line {place}: the text stands in {train['crowd']}")


def make_task(
    config: dict[str, Any], settings: TaggerSettings, crowd: Sequence[Abstract], seed: int
) -> TaggerTask:
    """A training with its folder of checkpoints, which bears the name of what it is."""
    train = config["train"]
    task = TaggerTask(
        crowd=str(Path(train["crowd"]).resolve()),
        fingerprint=fingerprint_of(crowd),
        settings=settings,
        share=float(train["validation_share"]),
        split_seed=train["split_seed"],
        seed=seed,
        device=config["profile"]["device"],
        state="",
    )
    state = Path(config["out"]).resolve() / "state" / fingerprint(task.identity())
    return TaggerTask(**{**vars(task), "state": str(state)})


def fitter(config: dict[str, Any]) -> Fit:
    """Trainings in this process, or on the workers of Ray Train."""
    # Without a root and model calls there is no log and no cost.
    place = factory.place(
        {**config, "root": None, "budget": dict.fromkeys(("max_tokens", "max_usd"))}
    )
    workers = config["train"]["workers"]
    if not workers:

        def here(task: TaggerTask) -> dict[str, Any]:
            import torch

            torch.set_num_threads(place.threads)
            return run_plain(task.plain(), Alone(Path(task.state) / "state.json"))

        return here
    from srrag.runner.ray.train import train_on_ray

    factory.runner(config).connect()  # type: ignore[attr-defined]

    def there(task: TaggerTask) -> dict[str, Any]:
        state = Path(task.state)
        gpu = task.device != "cpu"
        return train_on_ray(
            run_plain, task.plain(), workers=workers, folder=state, name="ray", use_gpu=gpu
        )

    return there


def score(folder: Path, expert: Sequence[Abstract], resamples: int) -> dict[str, Any]:
    """Figures on the expert file: of the tagger's tokens, and of the mentions made of them."""
    tagger = FindByTagger(model=str(folder.resolve()))
    return {
        "documents": len(expert),
        "tokens": scored(expert, tagger.label, resamples),
        "mentions": scored(expert, tagger.read, resamples),
    }


def scored(expert: Sequence[Abstract], extract: Extract, resamples: int) -> dict[str, Any]:
    """Token figures as `evaluate.pico` counts them, with the interval of the macro F1."""
    counts: Counts = np.stack(
        [token_counts(a.labels, token_labels(a.text, extract(a.text))) for a in expert]
    )
    low, high = macro_f1_interval(counts, resamples=resamples)
    rounded = {name: round(value, 4) for name, value in figures(counts.sum(0)).items()}
    return {**rounded, "interval": [round(low, 4), round(high, 4)]}


def summarise(found: Sequence[dict[str, Any]], chosen: int) -> dict[str, Any]:
    """Return the main figures, then those of every seed."""
    first: dict[str, Any] = {"seed": found[chosen]["seed"], "settings": found[chosen]["settings"]}
    if found[chosen]["expert"]:
        # By the mentions, as the rules are scored; `tokens` are what the tagger labels alone.
        macro = [facts["expert"]["mentions"]["token_macro_F1"] for facts in found]
        first = {
            "token_macro_F1": found[chosen]["expert"]["mentions"]["token_macro_F1"],
            "mean_over_seeds": round(sum(macro) / len(macro), 4),
            "lowest": min(macro),
            "highest": max(macro),
            **first,
        }
    kept = ("seed", "lean", "held_out", "expert", "curve")
    return {**first, "seeds": [{key: facts[key] for key in kept} for facts in found]}


def readable(found: Sequence[dict[str, Any]]) -> str:
    """Macro F1 a seed, for a terminal."""
    lines = ["token macro-F1   held out   expert, tokens   expert, mentions"]
    for facts in found:
        cells = [f"{facts['held_out']['token_macro_F1']:.4f}"]
        if expert := facts["expert"]:
            cells += [f"{expert[name]['token_macro_F1']:.4f}" for name in ("tokens", "mentions")]
        lines.append(f"  seed {facts['seed']:<10}" + "       ".join(cells))
    return "\n".join(lines)


if __name__ == "__main__":
    from srrag.config.run_job import launch

    sys.exit(launch("train_tagger", run, sys.argv[1:]))
