"""What the graph page opens with: the best connected entities, and the concepts that clear its bar.

python -m perf.top_concepts ROOT [20]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from srrag.serve.concepts_shown import COLUMNS
from srrag.serve.graph_view import GraphView

BEFORE = ("Population", "Condition", "Intervention", "Outcome")


def main(root: str, count: int = 20) -> None:
    """Print both lists, each name with its relations or papers."""
    view = GraphView(Path(root), "default")
    for kind in BEFORE:
        rows = view.walk.rows_of_type(kind)
        top = rows[np.argsort(-view.degrees[rows], kind="stable")][:count]
        named = [f"{view.entity_names[int(row)].as_py()} ({view.degrees[row]})" for row in top]
        print(f"before, {kind}, {len(rows)} entities:", "; ".join(named), end="\n\n")
    for column, name in enumerate(COLUMNS):
        shown = view.walk.most_studied(column, count)
        named = [f"{view.walk.label(rows)[0]} ({view.walk.count(rows)})" for rows in shown]
        clear = int((view.walk.good & (view.walk.columns == column)).sum())
        print(f"after, {name}, {clear} entities:", "; ".join(named), end="\n\n")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
