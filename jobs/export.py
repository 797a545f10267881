"""`srrag export`: the graph, a page of a part of it, or the runs of results, for other tools."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srrag.errors import UsageError, check_numbers, reading
from srrag.export.graph import Graph, open_graph
from srrag.export.graphml import write_graphml
from srrag.export.graphrag import write_graphrag
from srrag.export.neo4j_csv import IMPORT, write_neo4j
from srrag.export.runs import write_submissions, write_trec_runs
from srrag.export.select import Selection, select_community, select_entity
from srrag.export.texts import open_texts
from srrag.export.youtu import write_nodes_and_edges, write_triples
from srrag.report.results import read_results
from srrag.runner.progress import say
from srrag.storage.manifest import check_files
from srrag.storage.store import Store
from srrag.units import Units

Parts = Mapping[str, list[Path]]
CHECKED = ("entities", "communities", "units")


@dataclass(frozen=True)
class Source:
    """What there is to export: the graph or what was selected of it, and the build's parts."""

    graph: Graph
    parts: Parts
    selection: Selection | None


def _page(source: Source, folder: Path, max_nodes: int) -> dict[str, int]:
    from srrag.export.page import write_page  # the library that lays out a page loads slowly

    # Nobody looks at a whole graph: without a wish, the largest community is shown.
    selection = source.selection or select_community(source.graph)
    return write_page(source.graph, selection, folder / "graph.html", max_nodes)


Writer = Callable[[Source, Path, int], dict[str, int]]
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
RUNS = ("trec", "biogen")
"""Formats that export the rows of results, not the graph."""


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Write the graph of a build, or a community or neighbourhood, into the folder `out`."""
    started = time.perf_counter()
    name = str(config["format"])
    if name not in (*FORMATS, *RUNS):
        raise UsageError(f"format={name}: one of {', '.join((*FORMATS, *RUNS))}")
    if (config["results"] is None) == (name in RUNS):
        needs = f"format={name} exports the graph" if name in FORMATS else "results= is missing"
        raise UsageError(f"results={config['results']}: {needs}")
    check_numbers(config, hops=0, max_nodes=1)
    if config["community"] and config["entity"]:
        raise UsageError("community and entity: name one of them")
    out = Path(config["out"])
    if out.exists() and not out.is_dir():
        raise UsageError(f"out={out} is a file; out names the folder that the files go into")
    files, counts = write_atomically(out, _writer(config, name))
    summary: dict[str, Any] = {"format": name, **counts, "out": str(out), "files": files}
    if name == "neo4j":
        summary["import"] = IMPORT
    summary["seconds"] = round(time.perf_counter() - started, 3)
    say(f"{', '.join(f'{v:,} {k}' for k, v in counts.items())} → {', '.join(files)} in {out}")
    return summary


def _writer(config: Mapping[str, Any], name: str) -> Callable[[Path], dict[str, int]]:
    """What writes the files of a format into a folder."""
    if name in FORMATS:
        source = _source(config)
        return lambda folder: FORMATS[name](source, folder, int(config["max_nodes"]))
    path = Path(config["results"])
    with reading(path):
        results = read_results(path)
        answers = {row.name: table for row in results.rows if (table := results.answers(row.name))}
    if not answers:
        raise UsageError(f"results={path}: no row of it kept its answers")
    if name == "biogen":
        team = str(config["team"])
        return lambda folder: write_submissions(answers, team, folder)
    units = Units(Store(config["root"]).artifacts(config["build"])["units"])
    return lambda folder: write_trec_runs(answers, units, folder)


def _source(config: Mapping[str, Any]) -> Source:
    """Open the graph of the build, checked against its hashes, and select what was asked for."""
    store = Store(config["root"])
    stages = store.read_pointer(config["build"])["stages"]
    artifacts = store.artifacts(config["build"])
    for stage in CHECKED:
        if stage in artifacts:
            check_files(artifacts[stage])
    parts = {
        stage: [store.part_path(stage, entry["fingerprint"], part) for part in entry["parts"]]
        for stage, entry in stages.items()
        if "parts" in entry
    }
    graph = open_graph(artifacts)
    selection = None
    if config["entity"]:
        selection = select_entity(graph, str(config["entity"]), int(config["hops"]))
    elif config["community"]:
        selection = select_community(graph, str(config["community"]))
    if selection is not None and config["format"] != "html":
        graph = graph.select(selection.rows)
    return Source(graph, parts, selection)


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


if __name__ == "__main__":
    from srrag.config.run_job import launch

    sys.exit(launch("export", run, sys.argv[1:]))
