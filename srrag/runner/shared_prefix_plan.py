"""Plan pipelines as stages; a prefix that several share is one stage and runs once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from srrag.core.pipeline import TRACE, Pipeline, PipelineSlice, added
from srrag.core.schema import QUESTIONS
from srrag.core.spec import fingerprint, spec
from srrag.core.stage import Plan, Resources, Stage
from srrag.core.step import LLMStep, Step
from srrag.runner.engines import engines_of

SOURCE = "questions"
FOLDER = "answers"
"""The prefix of each stage's name, by which `forget` and `prune` recognise the stages."""

Resourcing = Callable[[str, Step], Resources]
"""Returns the resources of a worker for a kind of stage ("ranking" or "answers")."""


class SegmentPlan(Plan):
    """The stages of pipelines on one build, cut where pipelines diverge and where a ranking ends.

    A step that asks a model is its own stage, so that the cost of its calls is known. The
    fingerprint of a stage covers all steps up to its end and what each reads of the build, so it
    does not depend on where else a pipeline is cut. Any later run, of one pipeline or many, finds
    and reuses it.
    """

    def __init__(
        self,
        pipelines: Sequence[Pipeline],
        contents: Mapping[str, Sequence[Any]],
        resources: Resourcing,
    ) -> None:
        """Cut the pipelines; `contents` maps each stage of the build to its identity."""
        source = fingerprint(_columns(QUESTIONS), str(TRACE))
        hashes = _Hashes(contents)
        chains = [hashes.along(pipeline, source) for pipeline in pipelines]
        ends = _ends(pipelines, chains)
        self._prefixes = {SOURCE: source}
        self.paths: list[tuple[str, ...]] = []
        """The names of the stages of each pipeline, in order."""
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
        """Return the fingerprint of all steps up to the end of a stage."""
        return self._prefixes[stage]

    def only(self, names: Collection[str]) -> SegmentPlan:
        """Return the plan with only some of its stages."""
        plan = copy.copy(self)
        plan.stages = [stage for stage in self.stages if stage.name in names]
        return plan


class _Hashes:
    """A cache of the fingerprints of steps; a model's fingerprint hashes its files."""

    def __init__(self, contents: Mapping[str, Sequence[Any]]) -> None:
        self.contents = {name: fingerprint(held) for name, held in contents.items()}
        self.known: dict[str, str] = {}

    def along(self, pipeline: Pipeline, source: str) -> list[str]:
        """Return the fingerprint of the questions, then the one after each step."""
        chain = [source]
        for step in pipeline.steps:
            chain.append(fingerprint(chain[-1], self.of(step)))
        return chain

    def of(self, step: Step) -> str:
        """Return the fingerprint of a step: its spec, its inputs and the columns it adds."""
        key = repr(step)  # also distinguishes paths, which the spec omits
        if key not in self.known:
            read = {name: self.contents.get(name) for name in step.needs()}
            kinds = {item.name: str(item.type) for item in added(step)}
            self.known[key] = fingerprint(spec(step), step.identity(), read, kinds)
        return self.known[key]


def _ends(pipelines: Sequence[Pipeline], chains: Sequence[Sequence[str]]) -> set[str]:
    """Return where stages end: at the end of a ranking or pipeline, around calls, at branches."""
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
    """Return "ranking" for encoders and rerankers, "answers" for steps that wait for an engine."""
    return "ranking" if ranks and not isinstance(segment.steps[-1], LLMStep) else "answers"


def _columns(schema: Any) -> str:
    return str(schema.to_string(show_schema_metadata=False))
