"""`srrag status root=…`: what stands in a root."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.build import headline
from srrag.runner.build import summarise
from srrag.runner.progress import say
from srrag.store import Store


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Count the rows, rejects, grades and types of a finished build."""
    store = Store(config["root"])
    summary = headline(summarise(store, config["build"]))
    pointer = store.read_pointer(config["build"])
    summary["command"] = pointer["command"]
    summary["versions"] = pointer["versions"]
    artifacts = store.artifacts(config["build"])
    if "units" in artifacts:
        from srrag.index.units import Units

        summary["grades"] = _counts(Units(artifacts["units"]).documents["grade"])
    if "entities" in artifacts:
        types = pq.read_table(artifacts["entities"] / "entities.parquet", columns=["type"])
        summary["entity_types"] = _counts(types["type"])
    say(readable(summary))
    return summary


def _counts(column: Any) -> dict[str, int]:
    counts = {item["values"]: item["counts"] for item in pc.value_counts(column).to_pylist()}
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def readable(summary: dict[str, Any]) -> str:
    """The figures, for a terminal."""
    lines = [f"build {summary['build']} in {summary['root']}", ""]
    for name in ("documents", "windows", "triples", "entities", "edges", "communities"):
        lines.append(f"  {name:<14}{summary[name]:>10,}")
    lines.append(f"  {'rejected':<14}{summary['rejected']:>10,}")
    for stage, reasons in summary["rejects"].items():
        for reason, count in reasons.items():
            lines.append(f"    {stage + ': ' + reason:<32}{count:>8,}")
    for title in ("grades", "entity_types"):
        if title in summary:
            shown = "  ".join(f"{k or 'none'} {v:,}" for k, v in summary[title].items())
            lines.append(f"  {title.replace('_', ' ')}: {shown}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    from jobs.launch import launch

    sys.exit(launch("status", run, sys.argv[1:]))
