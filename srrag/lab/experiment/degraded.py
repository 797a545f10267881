"""Helping steps that failed while answers went on, and the command-line keys that may fix them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from srrag.answer.record import degraded

_RAISE = re.compile(r"Raise (?P<key>[\w.]+) of (?P<step>\w+)")


def step_keys(config: Any, at: str = "pipeline") -> dict[str, str]:
    """The key of each step of a pipeline's configuration, by the name of its class."""
    found: dict[str, str] = {}
    if isinstance(config, Mapping):
        if isinstance(target := config.get("_target_"), str):
            found[target.rpartition(".")[2]] = at
        for name, item in config.items():
            found = step_keys(item, f"{at}.{name}") | found
    return found


def named(row: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Return an answered row with the full configuration key in the fault of each lost step."""

    def whole(match: re.Match[str]) -> str:
        if match["key"].startswith("engine."):
            return f"Raise {match['key']}"
        return f"Raise {keys.get(match['step'], match['step'])}.{match['key']}"

    return {**row} | {
        name: [{**each, "fault": _RAISE.sub(whole, each.get("fault") or "")} for each in row[name]]
        for name in ("trace", "search_trace", "rounds")
        if row.get(name)
    }


def lost_steps(rows: Iterable[Mapping[str, Any]], keys: Mapping[str, str]) -> dict[str, Any]:
    """Count the answered rows that went on without each step, with its first fault."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for row in rows:
        lost = degraded(named(row, keys))
        counts.update({each.step for each in lost})
        for each in lost:
            first.setdefault(each.step, each.fault)
    return {
        step: {"questions": count, "first": first[step]} for step, count in counts.most_common()
    }


def answer_counts(answers: pa.Table, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return both counts of a table of answers; stored answers may lack the columns."""
    names = ("trace", "search_trace", "rounds", "support", "unsupported", "reject")
    rows = answers.select([name for name in names if name in answers.column_names]).to_pylist()
    alive = [row for row in rows if row.get("reject") is None]
    if "trace" not in answers.column_names:
        return support_counts(alive)
    return {**support_counts(alive), "degraded": lost_steps(alive, keys)}


def support_counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum what became of checked sentences; empty if the pipeline checks none."""
    told = [row for row in rows if "support" in row]
    if not told:
        return {}
    total: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for row in told:
        total.update(row["support"])
        faults.update(each["fault"] for each in row["unsupported"])
    return {"support": {**total, "faults": dict(faults.most_common())}}
