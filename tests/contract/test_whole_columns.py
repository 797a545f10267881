"""No column of a relation that grows is joined into one array: strings end at 2 GiB, memory before.

A file may join what it holds of one part, one shard, one batch or one answer. What still joins a
whole column is listed with its reason; the list may only become shorter.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.conftest import REPOSITORY

OF_A_PART = {
    "index/dense_shards.py": 2, "index/encode.py": 1, "index/titles.py": 3, "index/tokens.py": 1,
    "index/lance.py": 3, "index/units.py": 2, "graph/name_vectors.py": 2,
    "runner/ingest.py": 3, "runner/part.py": 1, "runner/summary.py": 1, "runner/verify.py": 1,
    "storage/store.py": 1,
    "graph/facts.py": 1,
}  # fmt: skip
OF_AN_ANSWER = {
    "index/opened.py": 1, "core/units.py": 2, "storage/mapped_table.py": 3,
    "retrieve/branches.py": 1, "retrieve/iterate.py": 2, "systems/rasrag/search_tree.py": 1,
    "core/hits.py": 1, "core/pipeline.py": 1,
    "lab/experiment/judging.py": 1,
    "rerank/fuse_features.py": 1,
    "serve/graph_view.py": 1,
    "serve/ray/step_worker.py": 1, "serve/remote_steps.py": 2,
}  # fmt: skip
OF_A_LOG = {"engine/log/journal.py": 1}
"""Keys of one row group, and the few parts that are merged into one."""
OF_A_BUCKET = {
    "graph/entities.py": 11,
}
"""Facts are merged bucket by bucket, and a table of the graph is revised batch by batch."""
WHOLE_GRAPH = {
    "graph/communities.py": 2, "graph/nodes.py": 6,
    "graph/tree_graph.py": 10, "index/graph.py": 9,
}  # fmt: skip
"""Communities, tree and graph index are found in one process, and end at some 53 million names."""
WHOLE_EXPORT = {
    "export/graph.py": 4, "export/graphrag.py": 6,
    "export/youtu.py": 1,
}  # fmt: skip
"""An export holds the ids of what it exports, of the whole graph unless some is chosen."""
OF_A_BOOK = {
    "systems/ideprag/build_hypergraph.py": 9, "systems/ideprag/hypergraph.py": 1,
    "systems/rasrag/textbook_tree.py": 2,
}  # fmt: skip
"""Plans for textbooks and for hypergraphs of some thousand papers."""
JOINED = {
    **OF_A_PART, **OF_AN_ANSWER, **OF_A_LOG, **OF_A_BUCKET,
    **WHOLE_GRAPH, **WHOLE_EXPORT, **OF_A_BOOK,
}  # fmt: skip


def joins(path: Path) -> int:
    """How often a file joins the batches of a column or a table."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return sum(isinstance(node, ast.Attribute) and node.attr == "combine_chunks" for node in nodes)


def test_a_file_joins_no_more_than_is_listed() -> None:
    """What is new is a whole column, or gets its reason; what is gone makes a list shorter."""
    ours = REPOSITORY / "srrag"
    found = {path.relative_to(ours).as_posix(): joins(path) for path in ours.rglob("*.py")}
    assert {name: count for name, count in found.items() if count} == JOINED
