from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from srrag.core.stage import Plan, Resources, Stage
from srrag.core.step import Build, Function, Place, Step, usable_cpus


@dataclass(frozen=True, kw_only=True)
class Map(Step):
    factor: int = 1

    writes: ClassVar[pa.Schema] = pa.schema([pa.field("x", pa.int64())])

    def open(self, at: Place) -> Function:
        return lambda batch: batch


@dataclass(frozen=True, kw_only=True)
class MapToFloat(Map):
    """As Map in all but the schema that it writes."""

    writes: ClassVar[pa.Schema] = pa.schema([pa.field("x", pa.float64())])


@dataclass(frozen=True, kw_only=True)
class Prompted(Map):
    """Its identity holds what its fields do not."""

    text: ClassVar[str] = "one"

    def identity(self) -> dict[str, Any]:
        return {"prompt.md": self.text}


@dataclass(frozen=True, kw_only=True)
class Sum(Build):
    of: str = "a"

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        return {}


def plan(*stages: Stage, source: str = "s0") -> Plan:
    return Plan("raw", source, stages)


A = Stage("a", Map(), ("raw",))
B = Stage("b", Map(factor=2), ("a",))
TOTAL = Stage("total", Sum(), ("a", "b"))
GRAPH = Stage("graph", Sum(of="total"), ("total",))


def test_stages_come_after_their_inputs() -> None:
    made = plan(GRAPH, TOTAL, B, A)
    assert [stage.name for stage in made.stages] == ["a", "b", "total", "graph"]
    assert [stage.name for stage in made.steps] == ["a", "b"]
    assert [stage.name for stage in made.builds] == ["total", "graph"]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([Stage("b", Map(), ("a",))], r"stages\.b\.inputs: there is no stage 'a'"),
        ([Stage("t", Sum(), ("raw", "x"))], r"stages\.t\.inputs: there is no stage 'x'"),
        ([A, Stage("c", Map(), ("raw", "a"))], r"stages\.c\.inputs: a step has exactly one input"),
        ([Stage("c", Map(), ())], "a step has exactly one input"),
        ([A, TOTAL, B, Stage("c", Map(), ("total",))], r"stages\.c\.inputs: .* read a build"),
        ([Stage("a", Map(), ("a",))], "cycle: a → a"),
        ([Stage("a", Map(), ("b",)), Stage("b", Map(), ("a",))], "cycle: (a → b → a|b → a → b)"),
    ],
)
def test_plans_that_cannot_be(stages: list[Stage], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(*stages)


def test_two_stages_of_one_name() -> None:
    with pytest.raises(ValueError, match="two stages 'a'"):
        plan(A, Stage("a", Map(factor=3), ("raw",)))


def test_the_fingerprint_of_an_unknown_stage() -> None:
    with pytest.raises(ValueError, match="'nowhere'"):
        plan(A).fingerprint("nowhere")


def prints(made: Plan, parts: Sequence[str] = ("p", "q")) -> dict[str, str]:
    return {stage.name: made.fingerprint(stage.name, parts) for stage in made.stages}


BASE = prints(plan(A, B, TOTAL, GRAPH))


def changed(made: Plan, parts: Sequence[str] = ("p", "q")) -> set[str]:
    return {name for name, value in prints(made, parts).items() if value != BASE[name]}


def test_fingerprints_are_those_of_any_other_run() -> None:
    assert changed(plan(GRAPH, TOTAL, B, A)) == set()
    assert len(set(BASE.values())) == 4


def test_a_field_changes_its_stage_and_all_behind_it() -> None:
    other = replace(B, run=Map(factor=3))
    assert changed(plan(A, other, TOTAL, GRAPH)) == {"b", "total", "graph"}
    assert changed(plan(replace(A, run=Map(factor=9)), B, TOTAL, GRAPH)) == set(BASE)
    assert changed(plan(A, B, replace(TOTAL, run=Sum(of="b")), GRAPH)) == {"total", "graph"}


def test_the_source_changes_everything() -> None:
    assert changed(plan(A, B, TOTAL, GRAPH, source="s1")) == set(BASE)


def test_the_schema_that_is_written_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = plan(A).fingerprint("a")
    monkeypatch.setattr(Map, "writes", MapToFloat.writes)
    assert plan(A).fingerprint("a") != before


def test_the_version_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Map, "version", 2)
    assert changed(plan(A, B, TOTAL, GRAPH)) == set(BASE)


def test_the_prompt_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage("a", Prompted(), ("raw",))
    before = plan(stage).fingerprint("a")
    monkeypatch.setattr(Prompted, "text", "two")
    assert plan(stage).fingerprint("a") != before


def test_resources_do_not_count() -> None:
    stages = [
        replace(stage, resources=Resources(cpus=8, gpus=1, threads=4, workers=9, batch_rows=1))
        for stage in (A, B, TOTAL, GRAPH)
    ]
    assert changed(plan(*stages)) == set()


def test_a_build_counts_the_parts_that_it_reads_not_their_order() -> None:
    made = plan(A, B, TOTAL, GRAPH)
    assert changed(made, ("q", "p")) == set()
    assert changed(made, ("p",)) == {"total", "graph"}
    assert changed(made, ("p", "q", "r")) == {"total", "graph"}


def test_where_a_stage_runs_reads_the_source_by_name() -> None:
    assert plan(A, source="given").fingerprint("raw") == "given"


def test_a_quota_affinity_and_the_environment_bound_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    quota = tmp_path / "cpu.max"
    assert usable_cpus(quota) == 8  # no control group
    quota.write_text("max 100000\n")
    assert usable_cpus(quota) == 8
    quota.write_text("250000 100000\n")
    assert usable_cpus(quota) == 2
    quota.write_text("50000 100000\n")
    assert usable_cpus(quota) == 1
    quota.unlink()
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert usable_cpus(quota) == 3
