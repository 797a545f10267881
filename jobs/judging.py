"""Run judges over cases: stages like any other, so that what was judged is not judged again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobs import parts
from jobs.launch import UsageError
from srrag.completion import Rules, Usage
from srrag.evaluate.judgements import CASES, metrics_of
from srrag.ids import content_id, segment_id
from srrag.runner.summary import usage_of
from srrag.spec import canonical, fingerprint
from srrag.stage import Plan, Stage
from srrag.step import Step
from srrag.store import Receipt, Store

PART_CASES = 32
PREPARED = {"claims": "claims", "guesses": "questions"}
"""Columns that a stage adds to the cases."""


def judges(nodes: Mapping[str, Any]) -> dict[str, Step]:
    """The judges by name; one that is null is left out. Raises UsageError if none is left."""
    made = {name: parts.make(node, f"bench.judges.{name}") for name, node in nodes.items() if node}
    if not any(map(metrics_of, made.values())):
        raise UsageError("bench.judges: there is no judge")
    for name, step in made.items():
        if (source := source_of(step)) not in ("cases", *made):
            raise UsageError(f"bench.judges.{name} reads {source}; leave bench.judges.{source} in")
    return made


def source_of(step: Step) -> str:
    """The stage whose output a judge reads: the cases, or what another step made of them."""
    return next((stage for column, stage in PREPARED.items() if column in step.reads), "cases")


def judge(
    config: dict[str, Any], cases: pa.Table, steps: Mapping[str, Step]
) -> tuple[dict[str, pa.Table], Usage]:
    """The judgements of each judge; what was judged before is not judged again."""
    store = _store(config)
    plan = Plan(
        "cases",
        fingerprint(CASES.to_string(show_schema_metadata=False)),
        [
            Stage(name, step, (source_of(step),), parts.resources(config, name, step))
            for name, step in steps.items()
        ],
    )
    at = replace(parts.place(config), root=store.root)
    with store.lock():
        starts = range(0, cases.num_rows, PART_CASES)
        source = plan.fingerprint("cases")
        names = [_write_part(store, source, cases.slice(n, PART_CASES)) for n in starts]
        parts.runner(config).run(plan, store, list(dict.fromkeys(names)), at)
        judged = {
            name: pa.concat_tables(
                store.read_part(name, plan.fingerprint(name), part) for part in names
            )
            for name, step in steps.items()
            if metrics_of(step)
        }
        receipts = [
            store.read_receipt(name, plan.fingerprint(name), part)
            for name in steps
            for part in dict.fromkeys(names)
        ]
    return judged, usage_of(receipts)


def judge_name(config: dict[str, Any]) -> str:
    """Who judges; of the rules, what they are."""
    engine = parts.make(config["engine"], "engine")
    return f"{engine.name} (lexical, no model)" if isinstance(engine, Rules) else str(engine.name)


def _store(config: Mapping[str, Any]) -> Store:
    """Where judgements stand: `forget` deletes a root's folder of them as a whole."""
    if config["root"] is not None:
        store = Store(Path(config["root"]) / "jobs" / "judged")
    elif config["out"] is not None:
        store = Store(Path(config["out"]) / "judged")
    else:
        raise UsageError("root= or out= is missing: what is judged is kept there")
    store.root.mkdir(parents=True, exist_ok=True)
    store.create()
    return store


def _write_part(store: Store, source: str, table: pa.Table) -> str:
    started = time.perf_counter()
    part = segment_id(content_id(canonical(row)) for row in table.to_pylist())
    if part not in store.parts("cases", source):
        size = table.num_rows

        def receipt(sha256: str, num_bytes: int) -> Receipt:
            seconds = round(time.perf_counter() - started, 4)
            return Receipt(part, size, 0, 0, size, 0, sha256, num_bytes, seconds)

        store.write_part("cases", source, table, receipt)
    return part
