"""`srrag ask question=…`: one question through a pipeline, with graded citations."""

from __future__ import annotations

from functools import partial
from typing import Any

from srrag.config import factory
from srrag.experiment.degraded import named, step_keys
from srrag.library.terminal import ask_aloud, check_question


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Answer `question` from the build in `root`."""
    question = check_question(config["question"])
    bound = factory.pipeline_run(config, factory.answering(config))
    naming = partial(named, keys=step_keys(config["pipeline"]))
    return ask_aloud(bound, question, factory.place(config), naming, trace=config["trace"])
