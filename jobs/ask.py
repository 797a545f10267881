"""`srrag ask question=…`: one question through a pipeline, with graded citations."""

from __future__ import annotations

from functools import partial
from typing import Any

from srrag.config import factory
from srrag.lab.experiment.degraded import named, step_keys
from srrag.library.root import DEFAULT
from srrag.library.terminal import ask_aloud, check_question


def schema() -> dict[str, Any]:
    """The JSON Schema of the answer, which the HTTP API, Python and MCP return too."""
    from srrag.answer.record import AnswerRecord

    return AnswerRecord.schema()


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Answer `question` from the build in `root`."""
    question = check_question(config["question"])
    bound = factory.pipeline_run(config, factory.answering(config))
    naming = partial(named, keys=step_keys(config["pipeline"]))
    chosen = [item for item in config["overrides"] if item.startswith("pipeline=")]
    name = chosen[-1].removeprefix("pipeline=") if chosen else DEFAULT
    place, trace = factory.place(config), config["trace"]
    return ask_aloud(bound, question, place, naming, name=name, trace=trace).json
