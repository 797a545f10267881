"""The system that is evaluated and the one that it is compared with: their names and settings."""

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
    """What the two systems are called: after their pipelines, stored answers after their files.

    Two of the same name stay apart: by the folder of their files, else by a number. The second
    is "" where nothing is compared.
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
    """The job with its baseline as the pipeline.

    Its command repeats it alone: it would write over the comparison if it kept where that goes.
    """
    other = with_pipeline("evaluate", config, config["baseline"])
    kept = [item for item in other["overrides"] if key_of(item) not in _OF_THE_COMPARISON]
    return {**other, "overrides": kept}


def _pipeline(overrides: list[str]) -> str:
    """The pipeline that was chosen last, else that of `srrag evaluate`'s file."""
    defaults = OmegaConf.load(str(files("conf") / "evaluate.yaml")).defaults
    chosen = [str(each["pipeline"]) for each in defaults if "pipeline" in each]
    chosen += [item.partition("=")[2] for item in overrides if key_of(item) == "pipeline"]
    return chosen[-1]


def _short(name: str) -> str:
    return name.strip()[:_NAME_CHARS]
