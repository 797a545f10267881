"""`srrag status root=…`: what stands in a root."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.build import headline
from srrag.errors import UsageError
from srrag.export.graph import DOCUMENT_TYPE, Graph, open_graph
from srrag.runner.progress import say
from srrag.runner.rejects import read_rejects, readable_rejects
from srrag.runner.summary import summarise
from srrag.storage.mirror import shown
from srrag.storage.store import Store


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Count the rows, rejects, grades and types of a finished build; name what it rejected."""
    if config["format"] not in ("table", "json"):
        raise UsageError(f"format={config['format']}: table or json")
    store = Store(config["root"])
    summary = headline(summarise(store, config["build"]))
    pointer = store.read_pointer(config["build"])
    summary["command"] = pointer["command"]
    summary["versions"] = pointer["versions"]
    artifacts = store.artifacts(config["build"])
    if "units" in artifacts:
        from srrag.units import Units

        summary["grades"] = _counts(Units(artifacts["units"]).documents["grade"])
    if "entities" in artifacts:
        summary |= _types(open_graph(artifacts))
    if "schema_growth" in artifacts:
        summary["schema_report"] = shown(artifacts["schema_growth"] / "report.md")
    text = readable(summary)
    if config["rejects"]:
        text += readable_rejects(read_rejects(store, config["build"])) + "\n"
    if config["format"] == "table":
        return {**summary, "text": text}
    say(text)
    return summary


def _types(graph: Graph) -> dict[str, Any]:
    """Nodes by type as in §2.1 of sr-rag: medical entities apart from documents and attributes."""
    types = pq.read_table(graph.entities, columns=["type"])["type"]
    is_value = pa.array(graph.attribute_nodes())
    is_core = pc.and_not(pc.not_equal(types, DOCUMENT_TYPE), is_value)
    return {
        "nodes": len(types),
        "core_entities": pc.sum(is_core).as_py() or 0,
        "entity_types": _counts(types.filter(is_core)),
        "attribute_types": _counts(types.filter(is_value)),
    }


def _counts(column: Any) -> dict[str, int]:
    counts = {item["values"]: item["counts"] for item in pc.value_counts(column).to_pylist()}
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def readable(summary: dict[str, Any]) -> str:
    """The figures, for a terminal."""
    lines = [f"build {summary['build']} in {summary['root']}", ""]
    # A node of the graph is an entity, a document or a value of an attribute.
    names = {"entities": "nodes"}
    for name in ("documents", "windows", "triples", "entities", "edges", "communities"):
        lines.append(f"  {names.get(name, name):<14}{summary[name]:>10,}")
    lines.append(f"  {'rejected':<14}{summary['rejected']:>10,}")
    for stage, reasons in summary["rejects"].items():
        for reason, count in reasons.items():
            lines.append(f"    {stage + ': ' + reason:<32}{count:>8,}")
    if "core_entities" in summary:
        core, nodes = summary["core_entities"], summary["nodes"]
        values = sum(summary["attribute_types"].values())
        lines.append(
            f"  nodes: {core:,} entities ({100 * core / max(1, nodes):.1f} %), "
            f"{nodes - core - values:,} documents, {values:,} values of attributes"
        )
    if growth := summary["figures"].get("schema_growth"):
        lines.append(
            f"  schema growth: {growth['accepted']:,} of {growth['proposed']:,} proposals accepted"
            + (f": {growth['elements']}" if growth["accepted"] else "")
            + f"; {summary['schema_report']}"
        )
    if standing := summary["figures"].get("standing"):
        told = (f"{name.replace('_', ' ')} {n:,}" for name, n in standing.items() if name != "ok")
        lines.append(f"  papers that are not in order: {', '.join(told) or 'none'}")
    for title in ("grades", "entity_types", "attribute_types"):
        counts = summary.get(title, {})
        total = max(1, sum(counts.values()))
        shown = (f"{k or 'none'} {v:,} ({100 * v / total:.1f} %)" for k, v in counts.items())
        lines.append(f"  {title.replace('_', ' ')}: {'  '.join(shown)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    from srrag.config.run_job import launch

    sys.exit(launch("status", run, sys.argv[1:]))
