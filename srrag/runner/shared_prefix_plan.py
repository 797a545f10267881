"""Pipelines as stages: what several begin with is one stage, and runs once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from srrag.pipeline import TRACE, Pipeline, PipelineSlice, added
from srrag.runner.engines import engines_of
from srrag.schema import QUESTIONS
from srrag.spec import fingerprint, spec
from srrag.stage import Plan, Resources, Stage
from srrag.step import LLMStep, Step

SOURCE = "questions"
FOLDER = "answers"
"""What the name of each stage begins with: by that `forget` and `prune` know them."""

Resourcing = Callable[[str, Step], Resources]
"""What a worker takes of a stage that ranks or answers ("ranking", "answers")."""


class SegmentPlan(Plan):
    """The stages of pipelines on one build: cut where they part, and where a ranking ends.

    A step that asks a model is a stage of its own, so that what its calls took is known.
    A stage's fingerprint is that of all steps up to its end, each with what it reads of the
    build: it is the same wherever else the pipeline is cut. So what stands is found again by
    any other run, alone or beside other pipelines.
    """

    def __init__(
        self,
        pipelines: Sequence[Pipeline],
        contents: Mapping[str, Sequence[Any]],
        resources: Resourcing,
    ) -> None:
        """Cut the pipelines; `contents` says what identifies each stage of the build."""
        source = fingerprint(_columns(QUESTIONS), str(TRACE))
        hashes = _Hashes(contents)
        chains = [hashes.along(pipeline, source) for pipeline in pipelines]
        ends = _ends(pipelines, chains)
        self._prefixes = {SOURCE: source}
        self.paths: list[tuple[str, ...]] = []
        """Of each pipeline the names of its stages, in order."""
        stages: dict[str, Stage] = {}
        for pipeline, chain in zip(pipelines, chains, strict=True):
            path = [SOURCE]
            start = 0
            for end in range(1, len(chain)):
                if chain[end] not in ends:
                    continue
                segment = PipelineSlice(
                    steps=pipeline.steps[start:end], before=pipeline.steps[:start]
                )
                name = f"{FOLDER}-{type(segment.steps[-1]).__name__}-{chain[end][:8]}"
                taken = resources(_kind(segment, end <= len(pipeline.rank)), segment)
                stages.setdefault(name, Stage(name, segment, (path[-1],), taken))
                self._prefixes[name] = chain[end]
                path.append(name)
                start = end
            self.paths.append(tuple(path[1:]))
        super().__init__(SOURCE, source, list(stages.values()))

    def fingerprint(self, stage: str, parts: Sequence[str] = ()) -> str:
        """The fingerprint of all steps up to the end of a stage."""
        return self._prefixes[stage]

    def only(self, names: Collection[str]) -> SegmentPlan:
        """The same plan with some of its stages."""
        plan = copy.copy(self)
        plan.stages = [stage for stage in self.stages if stage.name in names]
        return plan


class _Hashes:
    """Fingerprints of steps, each worked out once: that of a model hashes its files."""

    def __init__(self, contents: Mapping[str, Sequence[Any]]) -> None:
        self.contents = {name: fingerprint(held) for name, held in contents.items()}
        self.known: dict[str, str] = {}

    def along(self, pipeline: Pipeline, source: str) -> list[str]:
        """The fingerprint of the questions, and after each step."""
        chain = [source]
        for step in pipeline.steps:
            chain.append(fingerprint(chain[-1], self.of(step)))
        return chain

    def of(self, step: Step) -> str:
        """That of one step: what it is, what it reads of the build, what it adds."""
        key = repr(step)  # names the paths too, which are no part of the spec
        if key not in self.known:
            read = {name: self.contents.get(name) for name in step.needs()}
            kinds = {item.name: str(item.type) for item in added(step)}
            self.known[key] = fingerprint(spec(step), step.identity(), read, kinds)
        return self.known[key]


def _ends(pipelines: Sequence[Pipeline], chains: Sequence[Sequence[str]]) -> set[str]:
    """Where a stage ends: with a pipeline or its ranking, around calls, and before they part."""
    after: dict[str, set[str]] = {}
    ends: set[str] = set()
    for pipeline, chain in zip(pipelines, chains, strict=True):
        ends |= {chain[len(pipeline.rank)], chain[-1]}
        for step, pair in zip(pipeline.steps, pairwise(chain), strict=True):
            ends |= set(pair) if engines_of([step]) else set()
        for one, other in pairwise(chain):
            after.setdefault(one, set()).add(other)
    return ends | {one for one, others in after.items() if len(others) > 1}


def _kind(segment: PipelineSlice, ranks: bool) -> str:
    """Ranking takes an encoder or a reranker; what only asks a model waits for the engine."""
    return "ranking" if ranks and not isinstance(segment.steps[-1], LLMStep) else "answers"


def _columns(schema: Any) -> str:
    return str(schema.to_string(show_schema_metadata=False))
