"""Run judges over cases as stages of a store, so that finished judgements are reused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.config import factory
from srrag.core.errors import UsageError
from srrag.core.schema import empty_value
from srrag.core.step import LLMStep, Step
from srrag.engine.base import Model
from srrag.lab.experiment.running import Running, run_stages
from srrag.lab.measure.judgements import JUDGEMENTS, PREPARED, Judgement
from srrag.lab.measure.judging_steps import Measure, Preparation, metrics_of
from srrag.llm.completion import Usage
from srrag.runner.summary import usage_of
from srrag.storage.store import Store


def judges(nodes: Mapping[str, Any]) -> dict[str, Step]:
    """Return the judges by name without those set to null; raises UsageError if none is left.

    Judges ignore `engine.seed` and `engine.temperature`, which only sample answers, so that all
    rows have the same judges.
    """
    named = nodes if isinstance(nodes, Mapping) else {"judges": nodes}
    for name, node in named.items():
        if node and not isinstance(node, Mapping):
            raise UsageError(f"bench.judges: {name}={node} is no judge; null leaves one out")
    made = {name: _made(name, node) for name, node in named.items() if node}
    if not any(map(metrics_of, made.values())):
        raise UsageError("bench.judges: there is no judge")
    sources(made)
    return made


def _made(name: str, node: Any) -> Step:
    step: Step = factory.make(node, f"bench.judges.{name}")
    if isinstance(step, LLMStep) and isinstance(step.engine, Model):
        return replace(step, engine=step.engine.started)
    return step


def sources(steps: Mapping[str, Step]) -> dict[str, str]:
    """Return the stage whose output each step reads.

    A preparation reads the output of the preparation before it. A judge reads the last preparation
    that fills one of its columns, so that failures of other preparations do not affect it. Raises
    UsageError for a column that no earlier step fills; to a preparation it may be empty.
    """
    found: dict[str, str] = {}
    prepared = ["cases"]
    filled_by: dict[str, str] = {}
    for name, step in steps.items():
        missing = [c for c in step.reads if c in PREPARED and c not in filled_by]
        if missing and not isinstance(step, Preparation):
            raise UsageError(f"bench.judges.{name} reads {missing[0]}, which no step before fills")
        if isinstance(step, Preparation):
            found[name] = prepared[-1]
            prepared.append(name)
            filled_by |= dict.fromkeys(step.fills, name)
        else:
            read = [filled_by[column] for column in step.reads if column in filled_by]
            found[name] = max(read, key=prepared.index, default="cases")
    return found


def judge(
    store: Store, running: Running, cases: pa.Table, steps: Mapping[str, Step]
) -> tuple[dict[str, pa.Table], Usage]:
    """Return the JUDGEMENTS of each judge and the usage; judges only cases new to the store."""
    reads = sources(steps)
    with store.lock():
        staged = run_stages(store, running, "cases", cases, steps, reads)
    made = {name: each.table for name, each in staged.items()}
    judged = {
        name: pa.concat_tables(
            [made[name], *_lost_before(name, steps, reads, made | {"cases": cases})]
        )
        for name, step in steps.items()
        if metrics_of(step)
    }
    return judged, usage_of(each for one in staged.values() for each in one.receipts)


def _lost_before(
    judge: str, steps: Mapping[str, Step], reads: Mapping[str, str], made: Mapping[str, pa.Table]
) -> Iterator[pa.Table]:
    """Yield the judgements of the cases that an earlier step rejected, as if it had no answer.

    So a case counts as failed in the metrics that its gold allows; without gold, or where the judge
    is more than a Measure, in all.
    """
    step, blank = steps[judge], {item.name: empty_value(item.type) for item in JUDGEMENTS}
    after: list[Preparation] = []
    name = judge
    while (name := reads[name]) != "cases":
        preparation = steps[name]
        assert isinstance(preparation, Preparation)
        after.insert(0, preparation)
        before = {row["query_id"]: row for row in made[reads[name]].to_pylist()}
        rows: list[Judgement] = []
        for lost in made[name].filter(made[name]["reject"].is_valid()).to_pylist():
            case = before[lost["query_id"]]
            for each in after:
                case |= each.take(case, None, lost["reject"]["reason"])
            if isinstance(step, Measure) and case["reject"] is None:
                rows += step.measure(case)
            else:
                rows.append({**blank, "query_id": lost["query_id"], "reject": lost["reject"]})
        yield pa.Table.from_pylist(rows, schema=JUDGEMENTS)


def judged_in(root: str | Path | None, out: str | Path | None) -> Store:
    """Open the store of judgements below a root, else below `out`; creates it.

    `forget` deletes that folder as a whole. Raises UsageError if neither is given.
    """
    if root is not None:
        store = Store(Path(root) / "jobs" / "judged")
    elif out is not None:
        store = Store(Path(out) / "judged")
    else:
        raise UsageError("root= or out= is missing: what is judged is kept there")
    store.root.mkdir(parents=True, exist_ok=True)
    store.create()
    return store
