"""The terms on which an evaluation or a sweep scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.config.factory import step_keys
from srrag.core.errors import UsageError, check_numbers
from srrag.lab.experiment.running import Running
from srrag.lab.measure.references import resource_path
from srrag.llm.completion import Rules


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
