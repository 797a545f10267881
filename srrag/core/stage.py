"""A Stage: a named Step or Build, its input stages and its resources. A Plan: stages in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter

from srrag.core.spec import fingerprint, segment_id, spec
from srrag.core.step import Build, Place, Step


@dataclass(frozen=True)
class Resources:
    """The resources of one worker of a stage, and the maximum number of workers.

    `cpus` are Ray's logical CPUs (a share for scheduling), `threads` the real threads it may use;
    0 leaves it those of the process that runs the plan, `profile.threads`.
    """

    cpus: float = 0.25
    gpus: float = 0.0
    threads: int = 0
    workers: int = 1
    batch_rows: int = 512


@dataclass(frozen=True)
class Stage:
    """A unit of the build plan. A Step has one input stage, a Build any number."""

    name: str
    run: Step | Build
    inputs: tuple[str, ...]
    resources: Resources = field(default_factory=Resources)

    def placed(self, at: Place) -> Place:
        """A place with the threads that this stage may use there."""
        return replace(at, threads=self.resources.threads or at.threads)

    @property
    def step(self) -> Step:
        """The Step of a stage that maps parts."""
        assert isinstance(self.run, Step)
        return self.run


class Plan:
    """Stages in topological order, with their fingerprints.

    The fingerprint of a Step covers configuration only: its spec, its output schema and the
    fingerprints of its inputs. A Build reads all parts, so its fingerprint adds their names.
    """

    def __init__(self, source: str, source_fingerprint: str, stages: Sequence[Stage]) -> None:
        """Order the stages; raises ValueError that names an unknown or repeated name or a cycle."""
        self.source = source
        self.stages = _ordered(source, stages)
        self._fingerprints = {source: source_fingerprint}
        for stage in self.steps:
            self._fingerprints[stage.name] = fingerprint(
                spec(stage.run),
                stage.run.identity(),
                stage.step.writes.to_string(show_schema_metadata=False),
                [self._fingerprints[name] for name in stage.inputs],
            )

    @property
    def steps(self) -> list[Stage]:
        """The stages that map parts, in order."""
        return [stage for stage in self.stages if isinstance(stage.run, Step)]

    @property
    def builds(self) -> list[Stage]:
        """The stages that read whole relations, in order."""
        return [stage for stage in self.stages if isinstance(stage.run, Build)]

    def fingerprint(self, stage: str, parts: Sequence[str] = ()) -> str:
        """The fingerprint of a stage; a Build's needs the names of the parts that it reads."""
        if stage in self._fingerprints:
            return self._fingerprints[stage]
        found = next((item for item in self.stages if item.name == stage), None)
        if found is None:
            raise ValueError(f"there is no stage {stage!r}")
        return fingerprint(
            spec(found.run),
            found.run.identity(),
            [self.fingerprint(name, parts) for name in found.inputs],
            segment_id(sorted(parts)),
        )


def _ordered(source: str, stages: Sequence[Stage]) -> list[Stage]:
    by_name: Mapping[str, Stage] = {stage.name: stage for stage in stages}
    if len(by_name) < len(stages):
        names = [stage.name for stage in stages]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"stages: there are two stages {twice!r}")
    for stage in stages:
        for name in stage.inputs:
            if name != source and name not in by_name:
                raise ValueError(f"stages.{stage.name}.inputs: there is no stage {name!r}")
        if isinstance(stage.run, Step):
            if len(stage.inputs) != 1:
                raise ValueError(f"stages.{stage.name}.inputs: a step has exactly one input")
            if stage.inputs[0] != source and isinstance(by_name[stage.inputs[0]].run, Build):
                raise ValueError(f"stages.{stage.name}.inputs: a step cannot read a build")
    sorter = TopologicalSorter(
        {name: [i for i in stage.inputs if i != source] for name, stage in by_name.items()}
    )
    try:
        order = list(sorter.static_order())
    except CycleError as error:
        raise ValueError(f"stages form a cycle: {' → '.join(error.args[1])}") from error
    return [by_name[name] for name in order]
