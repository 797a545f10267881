"""`srrag status root=…`: what stands in a root."""

from __future__ import annotations

from typing import Any

from srrag.core.errors import UsageError
from srrag.export.graph import node_types, open_graph, value_counts
from srrag.library.build import made_anew
from srrag.runner.progress import say
from srrag.runner.summary import headline, read_rejects, readable, readable_rejects, summarise
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
    summary["made_anew"] = made_anew(store, config["build"])
    artifacts = store.artifacts(config["build"])
    if "units" in artifacts:
        from srrag.core.units import Units

        summary["grades"] = value_counts(Units(artifacts["units"]).documents["grade"])
    if "entities" in artifacts:
        summary |= node_types(open_graph(artifacts))
    if "schema_growth" in artifacts:
        summary["schema_report"] = shown(artifacts["schema_growth"] / "report.md")
    text = readable(summary)
    if config["rejects"]:
        text += readable_rejects(read_rejects(store, config["build"])) + "\n"
    if config["format"] == "table":
        return {**summary, "text": text}
    say(text)
    return summary
