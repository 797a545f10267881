"""Where the stages and trainings of an experiment run, and the terms on which it scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.config import factory
from srrag.config.factory import step_keys
from srrag.core.errors import UsageError, check_numbers
from srrag.core.figures import printed
from srrag.core.pipeline import Pipeline
from srrag.core.spec import fingerprint
from srrag.core.stage import Plan, Resources, Stage
from srrag.core.step import Place, Step
from srrag.lab.measure.references import resource_path
from srrag.lab.train.group import Alone, RunTraining, TrainingTask, Trials
from srrag.llm.completion import Rules
from srrag.runner.ingest import write_source
from srrag.runner.pipeline_run import PipelineRun
from srrag.runner.runner import Runner, discard_lost
from srrag.storage.store import Receipt, Store

PART_ROWS = 32


@dataclass(frozen=True)
class Staged:
    """The output of a step, rejected rows included, and the receipts of its parts."""

    table: pa.Table
    receipts: list[Receipt]


def run_stages(
    store: Store,
    running: Running,
    source: str,
    table: pa.Table,
    steps: Mapping[str, Step],
    reads: Mapping[str, str],
) -> dict[str, Staged]:
    """Run the steps on the missing parts; `reads` names the stage, or the source, that each reads.

    The caller holds the store's lock.
    """
    start = fingerprint(table.schema.to_string(show_schema_metadata=False))
    stages = [
        Stage(name, step, (reads[name],), running.resources(name, step))
        for name, step in steps.items()
    ]
    plan = Plan(source, start, stages)
    done = write_source(store, source, start, table, PART_ROWS)
    parts = list(dict.fromkeys(done))
    running.discard_lost(plan, store, parts)
    running.runner.run(plan, store, parts, replace(running.place, root=store.root))
    made = {}
    for name, step in steps.items():
        found = plan.fingerprint(name)
        tables = [store.read_part(name, found, part) for part in done]
        receipts = [store.read_receipt(name, found, part) for part in parts]
        made[name] = Staged(pa.concat_tables(tables or [step.writes.empty_table()]), receipts)
    return made


def check_workers(workers: int, runner: Runner) -> None:
    """Raise UsageError if a training has workers, and the profile no Ray."""
    if workers and not hasattr(runner, "connect"):
        raise UsageError(f"train.workers={workers}: workers need profile=ray")


def trainer(
    run_plain: Callable[..., dict[str, Any]], runner: Any, workers: int, threads: int
) -> RunTraining:
    """Trainings in this process, or with `workers` on the runner's Ray, which this joins.

    `run_plain` takes a task as plain values and the `Group` of its workers; without `threads` it
    uses no torch.
    """
    if not workers:

        def here(task: TrainingTask) -> dict[str, Any]:
            if threads:
                import torch

                torch.set_num_threads(threads)
            return run_alone(run_plain, task.plain())

        return here
    from srrag.runner.ray.train import train_on_ray

    runner.connect()

    def there(task: TrainingTask) -> dict[str, Any]:
        gpu = task.device != "cpu"
        return train_on_ray(
            run_plain,
            task.plain(),
            workers=workers,
            folder=Path(task.state),
            name="ray",
            use_gpu=gpu,
        )

    return there


def trials(
    run_plain: Callable[..., dict[str, Any]], runner: Any, workers: int, threads: int
) -> Trials:
    """Trainings in this process; with `workers` on Ray, what is compared as a task each.

    A run after a kill goes on from the checkpoints of each.
    """
    train = trainer(run_plain, runner, workers, threads)
    if not workers:
        return Trials(lambda tasks: [train(task) for task in tasks], train)
    from srrag.runner.ray.nodes import over_ray

    def compare(tasks: Sequence[TrainingTask]) -> list[dict[str, Any]]:
        gpus = float(any(task.device != "cpu" for task in tasks))
        return over_ray(partial(run_alone, run_plain), [task.plain() for task in tasks], gpus)

    return Trials(compare, train)


def run_alone(run_plain: Callable[..., dict[str, Any]], plain: dict[str, Any]) -> dict[str, Any]:
    """One training in a process of its own, with its checkpoints."""
    return run_plain(plain, Alone(Path(plain["state"]) / "state.json"))


def readable(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """Figures of each set of questions beside the baseline's, with the difference, for a terminal.

    The baseline is what is there without the training: a cosine, or the encoder as it was.
    """
    lines = []
    for title, found in sets.items():
        lines.append(title)
        for name, each in found["metrics"].items():
            base, gain = (found[key].get(name) for key in ("baseline_metrics", "difference"))
            beside = f"   baseline {base['value']:.4f}" if base else ""
            span = (
                f"   {gain['value']:+.4f} [{gain['low']:+.4f}, {gain['high']:+.4f}]" if gain else ""
            )
            lines.append(f"  {name:<20}{printed(each)}{beside}{span}")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Running:
    """Where stages run, and with which resources."""

    runner: Runner
    resources: Callable[[str, Any], Resources]
    place: Place
    _begun: set[tuple[str, ...]] = field(default_factory=set, init=False, compare=False, repr=False)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Running:
        """Make it of the profile of a configuration; raises UsageError."""
        resources = partial(factory.resources, config)
        return cls(factory.runner(config), resources, factory.place(config))

    def bound(self, root: str | None, build: str, pipeline: Pipeline) -> PipelineRun:
        """Bind a pipeline to a build of a root, as `factory.bound` does."""
        return factory.bound(root, build, pipeline, self.runner, self.resources)

    def discard_lost(self, plan: Plan, store: Store, parts: Sequence[str]) -> None:
        """Remove the parts that lost answers, each once: rows that share one grant it one retry."""
        steps = tuple(plan.fingerprint(stage.name) for stage in plan.stages)
        new = [part for part in parts if (*steps, part) not in self._begun]
        discard_lost(plan, store, new, self.place)
        self._begun.update((*steps, part) for part in new)


@dataclass(frozen=True)
class Terms:
    """A benchmark and a build, where stages run, who judges, and how intervals are drawn.

    `bench` are the settings of the benchmark, which differ by its kind. `in_sample` says what
    becomes of questions that a part was fitted on ("apart" or "allow"). `make` builds an object
    that few kinds of benchmarks need, such as "embedder"; it raises UsageError.
    """

    bench: Mapping[str, Any]
    path: Path
    root: str | None
    build: str
    out: Path | None
    running: Running
    resamples: int
    seed: int
    in_sample: str
    controls: bool | str
    engine: Mapping[str, Any]
    """The settings of the engine that judges."""
    keys: Mapping[str, str]
    """The key of each step of the pipeline, by the name of its class."""
    make: Callable[[str], Any]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Terms:
        """Read them from the configuration of a job; raises UsageError that names a wrong key."""
        check_numbers(config, resamples=1, seed=0)
        if config["bench"]["path"] is None:
            raise UsageError("bench.path= is missing: there is nothing to measure")
        return cls(
            bench=config["bench"],
            path=resource_path(config["bench"]["path"]),
            out=Path(config["out"]) if config["out"] else None,
            running=Running.of(config),
            keys=step_keys(config["pipeline"]),
            make=lambda key: factory.make(config[key], key),
            **{
                name: config[name]
                for name in (
                    "root",
                    "build",
                    "resamples",
                    "seed",
                    "in_sample",
                    "controls",
                    "engine",
                )
            },
        )

    @property
    def resampling(self) -> dict[str, Any]:
        """The number of resamples and the seed of the intervals."""
        return {"resamples": self.resamples, "seed": self.seed}

    @property
    def name(self) -> str:
        """The benchmark in results: its kind and the end of its path."""
        return f"{self.bench['kind']} {'/'.join(Path(self.bench['path']).parts[-2:])}"

    @property
    def by_rules(self) -> bool:
        """Whether rules judge, and no model."""
        return isinstance(self.make("engine"), Rules)

    @property
    def judge(self) -> str:
        """The name of the judging model, or of the rules."""
        name = str(self.make("engine").name)
        return f"{name} (lexical, no model)" if self.by_rules else name
