"""Run steps over a table as stages of a store, part by part: what is finished there is reused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from srrag.core.spec import fingerprint
from srrag.core.stage import Plan, Stage
from srrag.core.step import Step
from srrag.lab.experiment.running import Running
from srrag.runner.question_parts import write_source
from srrag.storage.store import Receipt, Store

PART_ROWS = 32


@dataclass(frozen=True)
class Staged:
    """The output of a step, rejected rows included, and the receipts of its parts."""

    table: pa.Table
    receipts: list[Receipt]


def run_stages(
    store: Store,
    running: Running,
    source: str,
    table: pa.Table,
    steps: Mapping[str, Step],
    reads: Mapping[str, str],
) -> dict[str, Staged]:
    """Run the steps on the missing parts; `reads` names the stage, or the source, that each reads.

    The caller holds the store's lock.
    """
    start = fingerprint(table.schema.to_string(show_schema_metadata=False))
    stages = [
        Stage(name, step, (reads[name],), running.resources(name, step))
        for name, step in steps.items()
    ]
    plan = Plan(source, start, stages)
    done = write_source(store, source, start, table, PART_ROWS)
    parts = list(dict.fromkeys(done))
    running.runner.run(plan, store, parts, replace(running.place, root=store.root))
    made = {}
    for name, step in steps.items():
        found = plan.fingerprint(name)
        tables = [store.read_part(name, found, part) for part in done]
        receipts = [store.read_receipt(name, found, part) for part in parts]
        made[name] = Staged(pa.concat_tables(tables or [step.writes.empty_table()]), receipts)
    return made
