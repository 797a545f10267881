"""Names and settings of the evaluated system and of its baseline."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from srrag.config.compose import with_pipeline
from srrag.experiment.configurations import key_of

_OF_THE_COMPARISON = ("out", "bench.answers", "bench.baseline_answers")
_NAME_CHARS = 100


def system_names(config: Mapping[str, Any]) -> tuple[str, str]:
    """Name the two systems after their pipelines, or after the files of stored answers.

    If the names are equal, the folder of the files or a number is added. The second name is ""
    without a baseline.
    """
    bench = config["bench"]
    given = map(bench.get, ("answers", "baseline_answers"))
    paths = [Path(str(path)) if path else None for path in given]
    first, second = (_short(path.stem) if path else "" for path in paths)
    first = first or _short(_pipeline(config["overrides"]))
    second = second or _short(str(config["baseline"] or ""))
    if first == second and all(paths):
        first, second = (_short("/".join(path.parts[-2:])) for path in paths if path)
    return first, f"{second} (2)" if first == second else second


def baseline_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the job's configuration with the baseline as the pipeline.

    Its command has no output path, so that repeating it does not overwrite the comparison.
    """
    other = with_pipeline("evaluate", config, config["baseline"])
    kept = [item for item in other["overrides"] if key_of(item) not in _OF_THE_COMPARISON]
    return {**other, "overrides": kept}


def _pipeline(overrides: list[str]) -> str:
    """Return the last pipeline among the overrides, else the default of `srrag evaluate`."""
    defaults = OmegaConf.load(str(files("conf") / "evaluate.yaml")).defaults
    chosen = [str(each["pipeline"]) for each in defaults if "pipeline" in each]
    chosen += [item.partition("=")[2] for item in overrides if key_of(item) == "pipeline"]
    return chosen[-1]


def _short(name: str) -> str:
    return name.strip()[:_NAME_CHARS]
