"""Count the rows of a build from its receipts and manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.schema import REJECTS
from srrag.llm.completion import Rules, Usage
from srrag.storage.atomic_write import read_json
from srrag.storage.store import Receipt, Store

PROPOSED = "proposed"
"""The reason of rows that are proposals for the schema, and no rejects to a reader."""
_MAX_CHARS = 300
_NAMED = 5
"""Stages that are named; more are counted."""
_TYPES = 8
"""Types that a terminal shows; JSON holds all."""


def read_rejects(store: Store, build: str) -> pa.Table:
    """The REJECTS table of a finished build, read from its parts; nothing keeps it."""
    found = [REJECTS.empty_table()]
    for name, entry in store.read_pointer(build)["stages"].items():
        for receipt in store.receipts(name, entry["fingerprint"], entry.get("parts", ())):
            if receipt.rejected:
                place = name, entry["fingerprint"], receipt.part
                found.append(_rejects(name, store.read_part(*place, checked=False)))
    return pa.concat_tables(found)


def readable_rejects(table: pa.Table, limit: int | None = None) -> str:
    """Name the rejected rows, one a line with reason and detail; "" if there are none.

    Proposals for the schema are left out. With a limit the rest is counted.
    """
    table = table.filter(pc.not_equal(table["reason"], PROPOSED))
    shown = table if limit is None else table.slice(0, limit)
    lines = [
        f"  {row['reason']}: {' '.join((row['detail'] or row['source']).split())[:_MAX_CHARS]}"
        for row in shown.to_pylist()
    ]
    if rest := table.num_rows - shown.num_rows:
        lines.append(f"  … and {rest:,} more: srrag status rejects=true lists all")
    return "\n".join(lines)


def _rejects(stage: str, table: pa.Table) -> pa.Table:
    rows = table.filter(pc.is_valid(table["reject"]))
    rejects = rows["reject"].combine_chunks()
    # Columns that identify a row: its id, and its file or document.
    source = "source" if "source" in rows.column_names else "doc_id"
    known = rows[source] if source in rows.column_names else rows[0]
    columns = [
        pa.array([stage] * rows.num_rows, pa.string()),
        rows[0].cast(pa.string()),
        known.cast(pa.string()),
        pc.struct_field(rejects, "reason"),
        pc.struct_field(rejects, "detail"),
    ]
    return pa.table(columns, schema=REJECTS)


def summarise(store: Store, build: str) -> dict[str, Any]:
    """Count the rows of a build from its receipts and manifests."""
    pointer = store.read_pointer(build)
    rows: dict[str, int] = {}
    rejected: dict[str, dict[str, int]] = {}
    proposals = 0
    seconds: dict[str, float] = {}
    figures: dict[str, Any] = {}
    usage: dict[str, Usage] = {}
    for name, entry in pointer["stages"].items():
        if "parts" not in entry:
            manifest = read_json(store.stage_dir(name, entry["fingerprint"]) / "manifest.json")
            figures[name] = manifest["figures"]
            seconds[name] = manifest["seconds"]
            if manifest.get("usage"):
                usage[name] = Usage.of(manifest["usage"])
            continue
        receipts = store.receipts(name, entry["fingerprint"], entry["parts"])
        reasons: Counter[str] = Counter()
        for receipt in receipts:
            reasons.update(receipt.reasons)
        proposals += reasons.pop(PROPOSED, 0)
        rows[name] = sum(receipt.rows_out - receipt.rejected for receipt in receipts)
        seconds[name] = round(sum(receipt.seconds for receipt in receipts), 3)
        if reasons:
            rejected[name] = dict(reasons.most_common())
        if any(receipt.usage for receipt in receipts):
            usage[name] = usage_of(receipts)
    engines = sorted(
        {entry["engine"] for entry in pointer["stages"].values() if entry.get("engine")}
    )
    return {
        "build": build,
        "root": str(store),
        "engines": engines,
        **calls_made(usage, rows.get("documents", 0)),
        "rows": rows,
        "rejected": sum(sum(reasons.values()) for reasons in rejected.values()),
        "rejects": rejected,
        "proposals": proposals,
        "figures": figures,
        "seconds_per_stage": seconds,
    }


def usage_of(receipts: Iterable[Receipt]) -> Usage:
    """Return the total usage of the prompts of some parts."""
    total = Usage()
    for receipt in receipts:
        if receipt.usage:
            total.add(Usage.of(receipt.usage))
    return total


def calls_made(usage: Mapping[str, Usage], documents: int) -> dict[str, Any]:
    """Return the figures of all stages that asked a model; zero if only rules answered."""
    total = Usage()
    for stage in usage.values():
        total.add(stage)
    tokens = total.tokens_in + total.tokens_out
    cached = total.cached_tokens_in + total.cached_tokens_out
    return {
        "tokens_in": total.tokens_in,
        "tokens_out": total.tokens_out,
        "tokens_per_document": round(tokens / documents, 1) if documents else 0.0,
        "cached_share": round(cached / tokens, 4) if tokens else 0.0,
        "calls": total.calls,
        "retries": total.retries,
        "usage": {name: stage.as_dict() for name, stage in usage.items()},
    }


def headline(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Move the most important figures to the top."""
    rows, figures = summary["rows"], summary["figures"]
    first = {
        "documents": rows.get("documents", 0),
        "windows": rows.get("windows", 0),
        "triples": rows.get("triples", 0),
        "entities": figures.get("entities", {}).get("entities", 0),
        "edges": figures.get("entities", {}).get("edges", 0),
        "communities": figures.get("communities", {}).get("communities", 0),
    }
    return {**first, **summary}


def _anew(summary: Mapping[str, Any]) -> str:
    """What its command would make again with this version."""
    anew, stages = summary["made_anew"], {*summary["rows"], *summary["figures"]}
    if anew is None:
        return "whether this version would make a stage again cannot be told from its command"
    if not anew:
        return "this version makes no stage again"
    told = f"{len(anew)} of {len(stages)} stages" if len(anew) > _NAMED else ", ".join(anew)
    asks = any(each != Rules().name for each in summary["engines"])
    paid = "; `srrag build … estimate=true` says what a model would be asked" if asks else ""
    return f"this version would make again: {told}{paid}"


def readable(summary: Mapping[str, Any]) -> str:
    """The figures, for a terminal."""
    lines = [f"build {summary['build']} in {summary['root']}", ""]
    # A node of the graph is an entity, a document or a value of an attribute.
    names = {"entities": "nodes"}
    graph = ("entities", "edges", "communities") if "entities" in summary["figures"] else ()
    facts = ("triples",) if "triples" in summary["rows"] else ()
    for name in ("documents", "windows", *facts, *graph):
        lines.append(f"  {names.get(name, name):<14}{summary[name]:>10,}")
    if not graph:
        lines.append(f"  {'graph':<14}{'none':>10}  plan=graph adds it")
    lines.append(f"  {'rejected':<14}{summary['rejected']:>10,}")
    for stage, reasons in summary["rejects"].items():
        for reason, count in reasons.items():
            lines.append(f"    {stage + ': ' + reason:<32}{count:>8,}")
    if summary["proposals"]:
        lines.append(f"  {'proposals':<14}{summary['proposals']:>10,}  for the schema")
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
    if standing := dict(summary["figures"].get("standing", {})):
        without_id = standing.pop("without_id")
        told = (f"{name.replace('_', ' ')} {n:,}" for name, n in standing.items() if name != "ok")
        lines.append(f"  papers that are not in order: {', '.join(told) or 'none'}")
        lines.append(f"  papers without PMID, PMCID or DOI: {without_id:,}")
    if (version := summary.get("versions", {}).get("srrag")) and "made_anew" in summary:
        lines.append(f"  made by srrag {version}; {_anew(summary)}")
    for title in ("grades", "entity_types", "attribute_types"):
        if not (counts := summary.get(title)):
            continue
        total = sum(counts.values())
        shown = [f"{k or 'none'} {v:,} ({100 * v / total:.1f} %)" for k, v in counts.items()]
        more = f"  and {len(shown) - _TYPES} more" if len(shown) > _TYPES else ""
        lines.append(f"  {title.replace('_', ' ')}: {'  '.join(shown[:_TYPES])}{more}")
    return "\n".join(lines) + "\n"
