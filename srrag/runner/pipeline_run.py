"""Run one pipeline, or several that share stages, over many questions of a finished build."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.core.pipeline import TRACE, Pipeline, PipelineSlice, added, bind
from srrag.core.schema import QUESTIONS
from srrag.core.spec import canonical, fingerprint, spec
from srrag.core.stage import Plan, Resources, Stage
from srrag.core.step import LLMStep, Place, Step, within
from srrag.llm.completion import AnswersAwaited, Usage, one_line
from srrag.runner.engines import engines_of
from srrag.runner.ingest import part_names, write_source
from srrag.runner.progress import say
from srrag.runner.runner import Runner, discard_lost
from srrag.runner.summary import usage_of
from srrag.storage.atomic_write import read_json
from srrag.storage.store import Receipt, Store

EMBEDDERS = {"float32": "minilm", "bfloat16": "minilm_bf16", "int8": "minilm_int8"}
"""The arithmetics of the packaged model, and the files of conf/embedder that have them."""

_BACKENDS = {"torch": "minilm", "torch-bf16": "minilm_bf16", "torch-int8": "minilm_int8"}


def settled_embedder(root: Path) -> str | None:
    """The embedder that was settled for a root; None where `srrag init` settled none.

    Where the marker is damaged or missing, the one that a finished build encoded with.
    """
    try:
        found = Store(root).settled().get("embedder")
    except (OSError, ValueError):
        found = built_embedder(root)
    return found if found in EMBEDDERS.values() else None


def built_embedder(root: Path) -> str | None:
    """The arithmetic of a finished build's vectors, if they are the packaged model's."""
    store = Store(root)
    for name in store.builds():
        with suppress(OSError, ValueError, LookupError, TypeError):
            entry = read_json(store.pointer_path(name))["stages"]["vectors"]
            folder = store.stage_dir("vectors", entry["fingerprint"])
            spec = read_json(folder / "manifest.json")["spec"]
            encoder = spec.get("encoder", {})  # a specification leaves out what is the default
            ours = encoder.get("model", "minilm") == "minilm"
            if spec["_target_"] == "EncodeWindows" and ours:
                return _BACKENDS.get(encoder.get("backend", "torch"))
    return None


def keeps_graph(root: Path, build: str) -> bool:
    """Whether a build has a graph, and so an update that names no plan makes it anew."""
    store = Store(root)
    try:
        return "entities" in store.read_pointer(build)["stages"]
    except (OSError, ValueError):  # no such build, or a damaged one, whose graph repair brings back
        return store.pointer_path(build).exists() and (root / "stages" / "entities").is_dir()


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
        source = fingerprint(QUESTIONS.to_string(show_schema_metadata=False), str(TRACE))
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


PART_QUESTIONS = 64


def default_resources(kind: str, step: Step) -> Resources:
    """Return the default resources, the same for every stage."""
    return Resources()


@dataclass(frozen=True)
class Sweep:
    """Pipelines on the artifacts of one finished build; a step that they share runs once."""

    store: Store
    build: str
    pipelines: tuple[Pipeline, ...]
    runner: Runner
    resources: Resourcing = default_resources

    @cached_property
    def plan(self) -> SegmentPlan:
        """Return the plan; a stage's identity includes that of every artifact it reads."""
        needs = {name for pipeline in self.pipelines for name in pipeline.needs()}
        used = self.store.contents(self.build, needs)
        return SegmentPlan(self.pipelines, used, self.resources)

    def place(self, at: Place) -> Place:
        """Bind the artifacts; raises ValueError if a pipeline needs a stage that is not built."""
        needs = (name for pipeline in self.pipelines for name in pipeline.needs())
        return bind(self.store, self.build, needs, at)

    def run(self, questions: pa.Table, at: Place) -> None:
        """Run the missing stages of all pipelines together."""
        if questions.num_rows == 0:
            raise ValueError("there is no question")
        at = self.place(at)
        source, asked = self.plan.fingerprint(SOURCE), questions.cast(QUESTIONS)
        parts = write_source(self.store, SOURCE, source, asked, PART_QUESTIONS)
        parts = list(dict.fromkeys(parts))
        discard_lost(self.plan, self.store, parts, at)
        self.runner.run(self.plan, self.store, parts, at)

    def run_each(self, questions: pa.Table, at: Place) -> dict[int, str]:
        """Run the missing stages; a pipeline that fails does not stop the others.

        Returns the reason for each failed pipeline, by its number.
        """
        try:
            self.run(questions, at)
            return {}
        except AnswersAwaited:
            raise
        except Exception as error:
            say(f"{one_line(error)}; each configuration is now run alone")
        at, parts = self.place(at), list(dict.fromkeys(self.parts(questions)))
        failed: dict[int, str] = {}
        broken: dict[str, str] = {}
        for number, path in enumerate(self.plan.paths):
            known = next((broken[name] for name in path if name in broken), None)
            if known is None:
                try:
                    self.runner.run(self.plan.only(path), self.store, parts, at)
                    continue
                except AnswersAwaited:
                    raise
                except Exception as error:
                    known = one_line(error)
                    broken[next(name for name in path if self._lacks(name, parts))] = known
            failed[number] = known
        return failed

    def _lacks(self, stage: str, parts: Sequence[str]) -> bool:
        return not set(parts) <= self.store.parts(stage, self.plan.fingerprint(stage))

    def table(self, number: int, questions: pa.Table) -> pa.Table:
        """Return the output of a pipeline, one row a question, in the order of the questions.

        The later columns of a rejected row are empty. Rows are matched by id and text, because a
        stage with another cut may also hold rows that were rejected here.
        """
        segment, parts = self.pipelines[number].whole, self.parts(questions)
        tables = [questions]
        for stage in self.plan.paths[number]:
            fingerprint = self.plan.fingerprint(stage)
            read = (self.store.read_part(stage, fingerprint, part) for part in dict.fromkeys(parts))
            tables.append(pa.concat_tables(read))
        last: dict[tuple[str, str], tuple[int, int]] = {}
        for at, table in enumerate(tables):
            last |= {key: (at, row) for row, key in enumerate(_keys(table))}
        places = np.array([last[key] for key in _keys(questions)])
        kept, order = [], []
        for at, table in enumerate(tables):
            here = np.flatnonzero(places[:, 0] == at)
            kept.append(segment.filled(table.take(pa.array(places[here, 1]))))
            order.append(here)
        return pa.concat_tables(kept).take(pa.array(np.argsort(np.concatenate(order))))

    def stands(self, number: int, questions: pa.Table) -> bool:
        """Whether a pipeline is finished."""
        parts = self.parts(questions)
        return not any(self._lacks(stage, parts) for stage in self.plan.paths[number])

    def receipts(self, number: int, questions: pa.Table) -> list[tuple[Stage, list[Receipt]]]:
        """Return the receipts of each stage of a pipeline, shared stages included."""
        parts = dict.fromkeys(self.parts(questions))
        path = (stage for stage in self.plan.steps if stage.name in self.plan.paths[number])
        return [
            (stage, self.store.receipts(stage.name, self.plan.fingerprint(stage.name), parts))
            for stage in path
        ]

    def usage(self, number: int, questions: pa.Table) -> Usage:
        """Return the usage of answering these questions, in this run and earlier ones."""
        receipts = self.receipts(number, questions)
        return usage_of(receipt for _, listed in receipts for receipt in listed)

    @staticmethod
    def parts(questions: pa.Table) -> list[str]:
        """Return the names of the parts of the questions."""
        return part_names(questions, PART_QUESTIONS)


def _keys(table: pa.Table) -> Iterator[tuple[str, str]]:
    return zip(table["query_id"].to_pylist(), table["text"].to_pylist(), strict=True)


DEFAULT = "hybrid_maxsim"
"""The pipeline of a question that names none."""


@dataclass(frozen=True)
class PipelineRun:
    """A pipeline on the artifacts of one finished build."""

    store: Store
    build: str
    pipeline: Pipeline
    runner: Runner
    resources: Resourcing = default_resources

    @cached_property
    def alone(self) -> Sweep:
        """Return the sweep of this one pipeline."""
        return Sweep(self.store, self.build, (self.pipeline,), self.runner, self.resources)

    def place(self, at: Place) -> Place:
        """Bind the artifacts; raises ValueError if the pipeline needs a stage that is not built."""
        return bind(self.store, self.build, self.pipeline.needs(), at)

    def run(self, questions: pa.Table, at: Place) -> pa.Table:
        """Answer the questions that lack an answer; returns all rows in the given order."""
        self.alone.run(questions, at)
        return self.alone.table(0, questions)

    def usage(self, questions: pa.Table) -> Usage:
        """Return the usage of answering these questions, in this run and earlier ones."""
        return self.alone.usage(0, questions)


def check_pipeline(store: Store, build: str, pipeline: Pipeline) -> None:
    """Raise ValueError if a step encodes questions unlike the build encoded what it searches."""
    encoding = [step for step in within(pipeline) if getattr(step, "encoder", None) is not None]
    stages = store.read_pointer(build)["stages"] if encoding else {}
    for step in encoding:
        stage = getattr(step, "encoded", "vectors")
        if stage not in stages:
            continue
        folder = store.stage_dir(stage, stages[stage]["fingerprint"])
        built = read_json(folder / "manifest.json")["spec"].get("encoder", {})
        asks, has = (_canonical(each) for each in (spec(step.encoder), built))  # type: ignore[attr-defined]
        if asks != has:
            raise ValueError(f"embedder: the questions' is {asks}, the build's is {has}")


def _canonical(encoder: dict[str, Any]) -> str:
    return canonical({key: value for key, value in encoder.items() if not key.startswith("_")})
