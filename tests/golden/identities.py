"""What everything is known by: fingerprints of stages and pipelines, keys of paid answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.config.compose import configure
from srrag.config.words import choices
from srrag.core.spec import fingerprint, spec
from srrag.engine.base import key_of
from srrag.engine.openai.engine import HttpEngine
from srrag.engine.vllm.engine import VllmEngine
from tests.golden.cases import CASES

FILE = Path(__file__).parent / "identities.json"
ENGINES = {
    "http": HttpEngine(model="m", revision="r", seed=1),
    "vllm": VllmEngine(model="Qwen/Qwen3-8B", revision="c0ffee"),
}


def identities() -> dict[str, Any]:
    """Fingerprints of the build with a graph and of every pipeline, keys of every golden prompt."""
    return {"build": stages(), "pipelines": pipelines(), **completions()}


def stages() -> dict[str, str]:
    """The stages of the build with a graph, over two parts."""
    config = configure("build", ["root=R", "plan=graph"])
    plan = factory.plan(config, factory.make(config["corpus"], "corpus"))
    return {stage.name: plan.fingerprint(stage.name, ["p1", "p2"]) for stage in plan.stages}


def pipelines() -> dict[str, str]:
    """Every pipeline; without what a step learned, which lies in a root."""
    made = {}
    for name in choices("pipeline"):
        config = configure("ask", [f"pipeline={name}", "root=R", "question=x"])
        pipeline = factory.make(config["pipeline"], "pipeline")
        try:
            made[name] = fingerprint(spec(pipeline), pipeline.identity())
        except (OSError, ValueError):
            made[name] = fingerprint(spec(pipeline))
    return made


def completions() -> dict[str, dict[str, list[str]]]:
    """The keys under which each golden prompt's answers stand in the log."""
    return {
        name: {
            task: [key_of(engine, prompt).hex() for prompt in case(lambda text: text)]
            for task, case in sorted(CASES.items())
        }
        for name, engine in ENGINES.items()
    }
