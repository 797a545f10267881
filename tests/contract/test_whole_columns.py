"""No column of a relation that grows is joined into one array: strings end at 2 GiB, memory before.

A file may join what it holds of one part, one shard, one batch or one answer. What still joins a
whole column is listed with its reason; the list may only become shorter.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

WATCHED = ("index", "graph", "storage", "runner", "retrieve", "units.py")
OF_A_PART = {
    "index/dense_shards.py": 2, "index/encode.py": 1, "index/titles.py": 3, "index/tokens.py": 1,
    "index/lance.py": 3, "index/units.py": 2,
    "runner/carry_over.py": 3, "runner/part.py": 2, "runner/rejects.py": 1, "runner/verify.py": 1,
    "graph/facts.py": 1,
}  # fmt: skip
OF_AN_ANSWER = {
    "index/lance_search.py": 1, "units.py": 2, "storage/mapped_table.py": 3,
    "retrieve/branches.py": 1, "retrieve/iterate.py": 2, "retrieve/search_tree.py": 1,
}  # fmt: skip
OF_A_BUCKET = {"graph/grouping.py": 7, "graph/incremental_merge.py": 3, "graph/partition.py": 5}
"""Facts are merged bucket by bucket, and a table of the graph is revised batch by batch."""
WHOLE_GRAPH = {
    "graph/communities.py": 4, "graph/name_vectors.py": 1, "graph/nodes.py": 6,
    "graph/synonyms.py": 1, "graph/tree_graph.py": 10, "index/graph.py": 9,
}  # fmt: skip
"""Communities, tree and graph index are found in one process, and end at some 53 million names."""
OF_A_BOOK = {
    "index/hypergraph.py": 9, "index/hypergraph_reader.py": 1, "index/textbook_tree.py": 1,
    "index/tree_reader.py": 1,
}  # fmt: skip
"""Plans for textbooks and for hypergraphs of some thousand papers."""
JOINED = {**OF_A_PART, **OF_AN_ANSWER, **OF_A_BUCKET, **WHOLE_GRAPH, **OF_A_BOOK}


def joins(path: Path) -> int:
    """How often a file joins the batches of a column or a table."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return sum(isinstance(node, ast.Attribute) and node.attr == "combine_chunks" for node in nodes)


def watched() -> list[Path]:
    found = []
    for name in WATCHED:
        path = REPOSITORY / "srrag" / name
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return found


@pytest.mark.parametrize("path", watched(), ids=lambda p: str(p.relative_to(REPOSITORY / "srrag")))
def test_a_file_joins_no_more_than_is_listed(path: Path) -> None:
    name = path.relative_to(REPOSITORY / "srrag").as_posix()
    assert joins(path) == JOINED.get(name, 0), "a whole column, or a list that can be shorter"


def test_every_listed_file_is_there() -> None:
    names = {path.relative_to(REPOSITORY / "srrag").as_posix() for path in watched()}
    assert names >= JOINED.keys()
