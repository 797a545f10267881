"""The evaluated system and its baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from srrag.config import factory
from srrag.config.compose import with_pipeline
from srrag.config.places import CONF
from srrag.core.errors import UsageError, reading
from srrag.core.pipeline import Pipeline
from srrag.lab.experiment.configurations import Configuration, key_of
from srrag.lab.measure.cases import read_answers

_OF_THE_COMPARISON = ("out", "bench.answers", "bench.baseline_answers")
_NAME_CHARS = 100


def systems_of(
    config: dict[str, Any], asked: Callable[[Pipeline], Pipeline]
) -> list[Configuration]:
    """Return the system, and its baseline if the configuration names one; raises UsageError.

    `asked` returns the part of a pipeline to run; it raises ValueError if it cannot be scored.
    """
    bench = config["bench"]
    name, against = system_names(bench, config["overrides"], config["baseline"])
    found = [_system(name, config, asked, "pipeline", bench.get("answers"))]
    if against:
        other = baseline_of(config) if config["baseline"] else config
        found.append(_system(against, other, asked, "baseline", bench.get("baseline_answers")))
    return found


def _system(
    name: str, config: dict[str, Any], asked: Callable[[Pipeline], Pipeline], key: str, path: object
) -> Configuration:
    """A row of stored answers, if there is a path, or of the pipeline; `key` is for messages."""
    overrides = tuple(config["overrides"])
    if path:
        file = Path(str(path))
        if not file.exists():
            raise UsageError(f"answers: {file} does not exist")
        with reading(file):
            return Configuration(name, overrides, overrides, config, None, read_answers(file))
    pipeline = factory.pipeline(config, key)
    try:
        pipeline = asked(pipeline)
    except ValueError as error:
        raise UsageError(str(error)) from error
    run = factory.pipeline_run(config, pipeline)
    return Configuration(name, overrides, overrides, config, run)


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


def baseline_of(config: dict[str, Any]) -> dict[str, Any]:
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
