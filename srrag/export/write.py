"""Write the graph of a build, or a part of it, in the format of another tool."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lxml import etree

from srrag.core.errors import UsageError
from srrag.core.formats import write_run
from srrag.core.hits import unpack_hits
from srrag.core.pipeline import without_graph
from srrag.core.units import Units
from srrag.export.graph import GRADE_COLUMNS, Graph, open_graph
from srrag.export.graphrag import write_graphrag
from srrag.export.neo4j_csv import write_neo4j
from srrag.export.select import Selection, select_community, select_entity
from srrag.export.submission import faults_of, submission
from srrag.export.texts import open_texts
from srrag.export.youtu import write_nodes_and_edges, write_triples
from srrag.storage.atomic_write import commit_json
from srrag.storage.manifest import check_files
from srrag.storage.store import Store

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
# XML 1.0, section 2.2: what is no Char may not occur, not even as a character reference.
_FORBIDDEN = r"[\x{0}-\x{8}\x{B}\x{C}\x{E}-\x{1F}\x{FFFE}\x{FFFF}]"

_NODE = {
    "name": "string",
    "type": "string",
    "community": "string",
    "community_name": "string",
    "mentions": "int",
    "documents": "int",
    "best_grade": "string",
    **dict.fromkeys(GRADE_COLUMNS, "int"),
}
_EDGE = {"relation": "string", "kind": "string", "confidence": "double", "mentions": "int"}


def write_graphml(graph: Graph, path: Path) -> dict[str, int]:
    """Write nodes, then edges, element by element; return how many there are."""
    counts = {"entities": 0, "edges": 0}
    with etree.xmlfile(str(path), encoding="utf-8") as file:
        file.write_declaration()
        with file.element("graphml", nsmap={None: _NAMESPACE}):
            for domain, columns in (("node", _NODE), ("edge", _EDGE)):
                for name, kind in columns.items():
                    file.write(_key(domain, name, kind))
            with file.element("graph", id="G", edgedefault="directed"):
                for _, table in graph.entity_batches(topics=True):
                    file.write(*_nodes(legal(table)), "\n")
                    counts["entities"] += table.num_rows
                for _, table in graph.edge_batches():
                    file.write(*_edges(legal(table)), "\n")
                    counts["edges"] += table.num_rows
    return counts


def legal(table: pa.Table) -> pa.Table:
    """Put U+FFFD for every character that XML 1.0 forbids."""
    columns = [
        pc.replace_substring_regex(column, _FORBIDDEN, "\ufffd")
        if pa.types.is_string(column.type)
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _key(domain: str, name: str, kind: str) -> Any:
    attributes = {"id": f"{domain}_{name}", "for": domain, "attr.name": name, "attr.type": kind}
    return etree.Element("key", attributes)


def _nodes(table: pa.Table) -> Iterable[Any]:
    present = [name for name in _NODE if name in table.column_names]
    for row in table.to_pylist():
        yield _with_values(etree.Element("node", id=row["entity_id"]), "node", present, row)


def _edges(table: pa.Table) -> Iterable[Any]:
    for row in table.to_pylist():
        ends = {"source": row["head_id"], "target": row["tail_id"]}
        yield _with_values(etree.Element("edge", id=row["edge_id"], **ends), "edge", _EDGE, row)


def _with_values(element: Any, domain: str, names: Iterable[str], row: dict[str, Any]) -> Any:
    """Add a `data` element for each value that says something: no empty text, no zero count."""
    for name in names:
        if row[name]:
            etree.SubElement(element, "data", key=f"{domain}_{name}").text = str(row[name])
    return element


Parts = Mapping[str, list[Path]]
CHECKED = ("entities", "communities", "units")


@dataclass(frozen=True)
class ExportedGraph:
    """The content of an export: the graph or the selected part, and the build's parts."""

    graph: Graph
    parts: Parts
    selection: Selection | None


def _page(source: ExportedGraph, folder: Path, max_nodes: int) -> dict[str, int]:
    from srrag.export.page import write_page  # the library that lays out a page loads slowly

    # Nobody reads a whole graph: by default the page shows the largest community.
    selection = source.selection or select_community(source.graph)
    return write_page(source.graph, selection, folder / "graph.html", max_nodes)


Writer = Callable[[ExportedGraph, Path, int], dict[str, int]]
FORMATS: dict[str, Writer] = {
    "graphml": lambda s, out, _: write_graphml(s.graph, out / "graph.graphml"),
    "graphrag": lambda s, out, _: write_graphrag(s.graph, open_texts(s.parts), out),
    "neo4j": lambda s, out, _: write_neo4j(s.graph, out),
    "youtu": lambda s, out, _: write_triples(s.graph, out / "triples.json"),
    "json": lambda s, out, _: write_nodes_and_edges(
        s.graph, open_texts(s.parts), out / "graph.json"
    ),
    "html": _page,
}


def open_exported(
    store: Store, build: str, *, community: str = "", entity: str = "", hops: int = 1,
    whole: bool = False,
) -> ExportedGraph:  # fmt: skip
    """Open the graph of a build, checked against its hashes, and select a part of it.

    The part is a community, or the nodes within `hops` of an entity. With `whole`, the graph stays
    whole beside the selection, as a page needs it.
    """
    stages = store.read_pointer(build)["stages"]
    artifacts = store.artifacts(build)
    for stage in CHECKED:
        if stage in artifacts:
            check_files(artifacts[stage])
    parts = {
        stage: [store.part_path(stage, entry["fingerprint"], part) for part in entry["parts"]]
        for stage, entry in stages.items()
        if "parts" in entry
    }
    if "entities" not in artifacts:
        raise UsageError(without_graph(store, build))
    graph = open_graph(artifacts)
    selection = None
    if entity:
        selection = select_entity(graph, entity, hops)
    elif community:
        selection = select_community(graph, community)
    if selection is not None and not whole:
        graph = graph.select(selection.rows)
    return ExportedGraph(graph, parts, selection)


def write_atomically(
    out: Path, write: Callable[[Path], dict[str, int]]
) -> tuple[list[str], dict[str, int]]:
    """Write into a folder beside `out`, then move each file over its namesake in `out`.

    A reader sees the old file or the new one; a run that fails leaves what was there.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as made:
        folder = Path(made)
        counts = write(folder)
        files = sorted(path.name for path in folder.iterdir())
        out.mkdir(exist_ok=True)
        for file in files:
            (folder / file).replace(out / file)
    return files, counts


_SHOWN = 3


def tags(names: list[str]) -> dict[str, str]:
    """The run tag of each row: its name in letters that TREC allows.

    Raises ValueError if two rows would have one tag.
    """
    made = {name: re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-") or "run" for name in names}
    for name, tag in made.items():
        if twin := next((n for n, t in made.items() if t == tag and n != name), None):
            raise ValueError(f"rows {name!r} and {twin!r} have the same run tag {tag!r}")
    return made


def write_trec_runs(answers: Mapping[str, pa.Table], units: Units, folder: Path) -> dict[str, int]:
    """Write `TAG.trec` for each row: documents by PMID (their own id without one), best first.

    Raises ValueError that names a row without a ranking.
    """
    lines = 0
    for name, tag in tags(list(answers)).items():
        table = answers[name]
        if "hits" not in table.column_names:
            raise ValueError(f"row {name!r} holds no ranking: column 'hits' is missing")
        ids, _, _ = unpack_hits(table["hits"])
        listed = ids.to_pylist()
        articles = dict(zip(listed, units.article_keys(listed).to_pylist(), strict=True))
        rows = _alive(table, ["query_id", "hits"])
        write_run(folder / f"{tag}.trec", rows, articles, tag)
        lines += sum(len({articles[hit["unit_id"]] for hit in row["hits"]}) for row in rows)
    return {"runs": len(answers), "lines": lines}


def write_submissions(answers: Mapping[str, pa.Table], team: str, folder: Path) -> dict[str, int]:
    """Write `TAG.json` for each row, a checked submission to TREC BioGen.

    Raises ValueError that names row, topic and fault of an answer that the track would refuse.
    """
    counts = {"runs": len(answers), "topics": 0, "citations_without_pmid": 0}
    counts["sentences_without_pmid"] = 0
    for name, tag in tags(list(answers)).items():
        table = answers[name]
        missing = {"sentences", "evidence"} - set(table.column_names)
        if missing:
            raise ValueError(f"row {name!r} holds no answers: column {min(missing)!r} is missing")
        rows = _alive(table, ["query_id", "sentences", "evidence"])
        made = submission(rows, team, tag)
        if faults := faults_of(made.entries):
            more = f" (and {len(faults) - _SHOWN} more)" if len(faults) > _SHOWN else ""
            raise ValueError(f"row {name!r}: {'; '.join(faults[:_SHOWN])}{more}")
        commit_json(folder / f"{tag}.json", made.entries)
        counts["topics"] += len(made.entries)
        counts["citations_without_pmid"] += made.citations_without_pmid
        counts["sentences_without_pmid"] += made.sentences_without_pmid
    return counts


def _alive(table: pa.Table, names: list[str]) -> list[dict[str, Any]]:
    """These columns of the rows that did not fail."""
    alive = table.filter(table["reject"].is_null())
    rows: list[dict[str, Any]] = alive.select(names).to_pylist()
    return rows
