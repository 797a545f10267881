"""`srrag ask question=…`: one question through a pipeline, with graded citations."""

from __future__ import annotations

from functools import partial
from typing import Any

from srrag.config import factory
from srrag.config.factory import named, step_keys
from srrag.core.step import instances
from srrag.library.terminal import ask_aloud, check_question
from srrag.rerank.betr import RerankBETR
from srrag.runner.pipeline_run import DEFAULT
from srrag.runner.progress import say


def schema() -> dict[str, Any]:
    """The JSON Schema of the answer, which the HTTP API, Python and MCP return too."""
    from srrag.answer.record import AnswerRecord

    return AnswerRecord.schema()


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Answer `question` from the build in `root`."""
    question = check_question(config["question"])
    bound = factory.pipeline_run(config, factory.answering(config))
    for step in instances(bound.pipeline, RerankBETR):
        if step.takes_packaged():
            seen = len(step.calibration().fitted.questions)
            say(f"grades weigh as fitted on {seen:,} public questions; `srrag fit_betr` fits yours")
    naming = partial(named, keys=step_keys(config["pipeline"]))
    chosen = [item for item in config["overrides"] if item.startswith("pipeline=")]
    name = chosen[-1].removeprefix("pipeline=") if chosen else DEFAULT
    place, trace = factory.place(config), config["trace"]
    return ask_aloud(bound, question, place, naming, name=name, trace=trace).json
