"""Write the graph of a build, or a part of it, in the format of another tool."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from srrag.core.bind import without_graph
from srrag.core.errors import UsageError
from srrag.export.graph import Graph, open_graph
from srrag.export.graphml import write_graphml
from srrag.export.graphrag import write_graphrag
from srrag.export.neo4j_csv import write_neo4j
from srrag.export.select import Selection, select_community, select_entity
from srrag.export.texts import open_texts
from srrag.export.youtu import write_nodes_and_edges, write_triples
from srrag.storage.manifest import check_files
from srrag.storage.store import Store

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
