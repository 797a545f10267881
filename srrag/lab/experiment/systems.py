"""The evaluated system and its baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from srrag.config import factory
from srrag.config.compose import with_pipeline
from srrag.config.places import CONF
from srrag.core.pipeline import Pipeline
from srrag.lab.experiment.configurations import key_of
from srrag.lab.experiment.degraded import step_keys

_OF_THE_COMPARISON = ("out", "bench.answers", "bench.baseline_answers")
_NAME_CHARS = 100


@dataclass(frozen=True)
class System:
    """A pipeline that is evaluated, or stored answers of one.

    `make` builds the pipeline and raises UsageError. `overrides` repeat the evaluation of this
    system alone; `keys` maps the class of each step to its configuration key.
    """

    name: str
    overrides: tuple[str, ...]
    keys: Mapping[str, str]
    make: Callable[[], Pipeline]

    def answering(self) -> Pipeline:
        """Build the pipeline; raises UsageError if it only ranks."""
        return factory.that_answers(self.make())


def systems_of(config: dict[str, Any]) -> list[System]:
    """Return the system, and its baseline if the configuration names one."""
    name, against = system_names(config["bench"], config["overrides"], config["baseline"])
    found = [_system(name, config, "pipeline")]
    if against:
        found.append(_system(against, _baseline(config) if config["baseline"] else config))
    return found


def _system(name: str, config: dict[str, Any], key: str = "baseline") -> System:
    keys, make = step_keys(config["pipeline"]), partial(factory.pipeline, config, key)
    return System(name, tuple(config["overrides"]), keys, make)


def system_names(
    bench: Mapping[str, Any], overrides: Sequence[str], baseline: str | None
) -> tuple[str, str]:
    """Name the two systems after their pipelines, or after the files of stored answers.

    If the names are equal, the folder of the files or a number is added. The second name is ""
    without a baseline.
    """
    given = map(bench.get, ("answers", "baseline_answers"))
    paths = [Path(str(path)) if path else None for path in given]
    first, second = (_short(path.stem) if path else "" for path in paths)
    first = first or _short(_pipeline(overrides))
    second = second or _short(str(baseline or ""))
    if first == second and all(paths):
        first, second = (_short("/".join(path.parts[-2:])) for path in paths if path)
    return first, f"{second} (2)" if first == second else second


def _baseline(config: dict[str, Any]) -> dict[str, Any]:
    """Compose the job with the baseline as the pipeline.

    Its command has no output path, so that repeating it does not overwrite the comparison.
    """
    other = with_pipeline("evaluate", config, config["baseline"])
    kept = [item for item in other["overrides"] if key_of(item) not in _OF_THE_COMPARISON]
    return {**other, "overrides": kept}


def _pipeline(overrides: Sequence[str]) -> str:
    """Return the last pipeline among the overrides, else the default of `srrag evaluate`."""
    defaults = OmegaConf.load(CONF / "evaluate.yaml").defaults
    chosen = [str(each["pipeline"]) for each in defaults if "pipeline" in each]
    chosen += [item.partition("=")[2] for item in overrides if key_of(item) == "pipeline"]
    return chosen[-1]


def _short(name: str) -> str:
    return name.strip()[:_NAME_CHARS]
