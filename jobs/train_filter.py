"""`srrag train_filter`: learn p(a passage holds evidence | question) from judged pairs."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from srrag.algo.classification import best_threshold
from srrag.config import factory
from srrag.errors import reading
from srrag.experiment.filter_settings import check, read_base, read_candidates, seed_list
from srrag.model.filter import Base, Decision, Floats, load_filter, pair_cosines
from srrag.provenance import KEY, fitted_on
from srrag.runner.progress import say
from srrag.spec import fingerprint
from srrag.storage.atomic_write import commit_json, read_json
from srrag.train.filter.choose import ChosenSettings, Result, Trained, Trainer, choose_and_train
from srrag.train.filter.decide import TradeOff, at_threshold, decide, trade_off
from srrag.train.filter.judge import PAIRED, Scored, judge_filter
from srrag.train.filter.pairs import JudgedPairs, check_both_classes, read_judged
from srrag.train.filter.report import card, write_card, write_figures, write_model
from srrag.train.filter.settings import FilterSettings, FilterTask
from srrag.train.filter.training import read_training, run_plain
from srrag.train.group import Alone

FILES = {"pairs": "train.jsonl", "test": "dev.jsonl"}


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Train, choose and calibrate on held-out questions, judge on the test file, write it all."""
    started = time.perf_counter()
    train = config["train"]
    base, candidates = read_base(train), read_candidates(train)
    check(config)
    files = [Path(train[key] or Path(train["data"]) / name) for key, name in FILES.items()]
    with reading(*files):
        test = read_judged(files[1])
        pairs = read_training(str(files[0]), str(files[1]))
        for some in (pairs, test):
            check_both_classes(some)
    out = Path(config["out"] or default_out(config))
    config["out"] = str(out)

    def make(settings: FilterSettings, seed: int, fold: int | None) -> FilterTask:
        return task(config, base, settings, pairs, seed, fold)

    choice = choose_and_train(
        pairs, make, candidates, seed_list(train), trainer(config), train["folds"]
    )
    cosines = [pair_cosines(some.questions, some.passages) for some in (pairs, test)]
    given = Material(pairs, test, *cosines)
    finished = [finish(config, base, choice, n, given) for n in range(len(choice.trained))]
    summary = summarise(config, choice, finished)
    say(readable(summary))
    return {**summary, "out": str(out), "seconds": round(time.perf_counter() - started, 3)}


def default_out(config: dict[str, Any]) -> Path:
    """Under the root, or in the working folder."""
    root = config["root"]
    return Path("train_filter") if root is None else Path(root) / "jobs" / "train_filter"


def task(
    config: dict[str, Any],
    base: Base,
    settings: FilterSettings,
    pairs: JudgedPairs,
    seed: int,
    fold: int | None,
) -> FilterTask:
    """A training, with a folder of checkpoints that bears the name of what it is."""
    train = config["train"]
    found = FilterTask(
        pairs=str(Path(pairs.path).resolve()),
        other=str(Path(train["test"] or Path(train["data"]) / FILES["test"]).resolve()),
        fingerprint=pairs.fingerprint,
        base=base,
        settings=settings,
        folds=train["folds"],
        fold=-1 if fold is None else fold,
        share=0.0 if fold is None else float(train["validation_share"]),
        split_seed=train["split_seed"],
        seed=seed,
        device=config["profile"]["device"],
        state="",
    )
    state = Path(config["out"]).resolve() / "state" / fingerprint(found.identity())
    return dataclasses.replace(found, state=str(state))


def trainer(config: dict[str, Any]) -> Trainer:
    """Trainings in this process, or on Ray: trials for the folds, workers for the others."""
    # Without a root and model calls there is no log and no cost.
    place = factory.place(
        {**config, "root": None, "budget": dict.fromkeys(("max_tokens", "max_usd"))}
    )

    def here(task: FilterTask) -> Result:
        import torch

        torch.set_num_threads(place.threads)
        state = Path(task.state)
        done = state / "result.json"
        if not done.exists():
            say(f"training: seed {task.seed}, fold {task.fold}")
            commit_json(done, run_plain(task.plain(), Alone(state / "state.json")))
        found: Result = read_json(done)
        return found

    workers = config["train"]["workers"]
    if not workers:
        return Trainer(lambda tasks: [here(task) for task in tasks], here)
    from srrag.runner.ray.train import train_on_ray
    from srrag.runner.ray.tune import tune_on_ray

    factory.runner(config).connect()  # type: ignore[attr-defined]

    def compare(tasks: Sequence[FilterTask]) -> list[Result]:
        plain = [task.plain() for task in tasks]
        name = f"tune-{fingerprint([task.identity() for task in tasks])}"
        return tune_on_ray(run_alone, plain, folder=Path(config["out"]) / "state", name=name)

    def there(task: FilterTask) -> Result:
        state, gpu = Path(task.state), task.device != "cpu"
        return train_on_ray(
            run_plain, task.plain(), workers=workers, folder=state, name="ray", use_gpu=gpu
        )

    return Trainer(compare, there)


def run_alone(plain: dict[str, Any]) -> Result:
    """One training in a process of its own, with its checkpoints; for Ray Tune."""
    return run_plain(plain, Alone(Path(plain["state"]) / "state.json"))


@dataclasses.dataclass(frozen=True)
class Material:
    """What was learned from and what judges, with the packaged encoder's cosines of both."""

    pairs: JudgedPairs
    test: JudgedPairs
    cosines: Floats
    test_cosines: Floats


def finish(
    config: dict[str, Any], base: Base, choice: ChosenSettings, place: int, given: Material
) -> dict[str, Any]:
    """Calibrate a training, write its folder, and judge it as its user will run it."""
    train, out, trained = config["train"], Path(config["out"]), choice.trained[place]
    held, cosines = given.pairs.select(trained.held), given.cosines[trained.held]
    beside = cosines if train["fuse"] else None
    decision = decide(held, trained.logits, beside, train["answer_precision"])
    folder = out / ("model" if place == choice.best else f"seed-{trained.task.seed}")
    facts = {
        "settings": dataclasses.asdict(choice.settings),
        "seed": trained.task.seed,
        "data": data_facts(given, trained),
        "validation_AUROC": trained.AUROC,
        "curve": trained.result["curve"],
        "command": config["command"],
        KEY: fitted_on(
            name="evidence filter", command=config["command"], questions=given.pairs.questions
        ),
    }
    write_model(folder, base, trained.weights, decision, facts)
    loaded = load_filter(folder, config["profile"]["device"])
    found = loaded.probabilities(given.test.questions, given.test.passages)
    held_found = decision.fusion.probabilities(trained.logits, cosines)
    curves = {
        "held out": trade_off(held, held_found, decision.threshold),
        "test": trade_off(given.test, found, decision.threshold),
    }
    stated = facts | judged(given, found, decision, curves, train["resamples"])
    write_card(folder, card(base, decision, stated))
    if place == choice.best:
        curve = trained.result["curve"]
        write_figures(out, given.test, found, given.test_cosines, curves, decision, curve)
    return stated


def judged(
    given: Material,
    found: Floats,
    decision: Decision,
    curves: dict[str, TradeOff],
    resamples: int,
) -> dict[str, Any]:
    """Figures of probabilities on the test file, beside the cosine's, and those of abstaining."""
    limit = best_threshold(given.pairs.labels, given.cosines)
    least = decision.answer_threshold
    return {
        **judge_filter(
            Scored(given.test, found, decision.threshold),
            Scored(given.test, given.test_cosines, limit),
            given.test.seen_passages(given.pairs),
            resamples,
        ),
        "decision": dataclasses.asdict(decision),
        "adaptive": {
            "answer_threshold": least,
            **{name: at_threshold(curve, least) for name, curve in curves.items()},
        },
    }


def data_facts(given: Material, trained: Trained) -> dict[str, Any]:
    """Describe the training and the test data."""
    pairs, test = given.pairs, given.test
    whole = read_judged(Path(pairs.path))
    learned = pairs if trained.held.all() else pairs.select(~trained.held)
    return {
        "training_file": Path(pairs.path).name,
        "training_fingerprint": pairs.fingerprint,
        "training_pairs": len(learned),
        "training_questions": learned.num_questions,
        "training_yes_share": round(float(learned.labels.mean()), 4),
        "validation_pairs": int(trained.held.sum()),
        "left_out_pairs": len(whole) - len(pairs),
        "file": Path(test.path).name,
        "fingerprint": test.fingerprint,
        "seen_passages": int(test.seen_passages(pairs).sum()),
    }


def summarise(
    config: dict[str, Any], choice: ChosenSettings, finished: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The job's figures: those of the filter that is kept, and the spread over the seeds."""
    kept = finished[choice.best]
    names = kept["metrics"]
    table = np.array([[one["metrics"][name] for name in names] for one in finished])
    return {
        **kept["metrics"],
        **{k: v for k, v in kept.items() if k not in ("curve", "command", KEY)},
        "compared": choice.compared,
        "folds": config["train"]["folds"],
        "seeds": {
            "metrics": [{"seed": one["seed"], **one["metrics"]} for one in finished],
            "differences": [{k: one["difference"][k] for k in PAIRED} for one in finished],
            "mean": dict(zip(names, table.mean(axis=0).round(4).tolist(), strict=True)),
            "least": dict(zip(names, table.min(axis=0).tolist(), strict=True)),
        },
        "model": str(Path(config["out"]) / "model"),
        "revision": load_filter(Path(config["out"]) / "model").revision,
    }


def readable(summary: dict[str, Any]) -> str:
    """The figures, for a terminal."""
    parts_ = [("all test pairs", summary)]
    if "new_passages" in summary:
        parts_.append(("passages that training has not seen", summary["new_passages"]))
    lines = []
    for title, found in parts_:
        lines += [f"{title}: {found['pairs']} of {found['questions']} questions"]
        for name, value in found["metrics"].items():
            low, high = found["intervals"][name]
            base = found["baseline"]["metrics"].get(name)
            beside = "" if base is None else f"   cosine {base:.4f}"
            lines.append(f"  {name:<10}{value:8.4f}   [{low:.4f}, {high:.4f}]{beside}")
        for name, gain in found["difference"].items():
            span = f"[{gain['low']:+.4f}, {gain['high']:+.4f}]"
            lines.append(f"  {name} above the cosine's: {gain['value']:+.4f}   {span}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    from srrag.config.run_job import launch

    sys.exit(launch("train_filter", run, sys.argv[1:]))
