"""Execute the notebooks of docs/notebooks in an empty folder and store what they show.

python -m perf.notebooks                      # needs srrag[docs]
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

BOOKS = Path("docs/notebooks")


def main() -> None:
    """Execute one after the other: the second opens what the first built."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("own_papers", "two_pipelines"):
            path = BOOKS / f"{name}.ipynb"
            book = nbformat.read(path, as_version=4)
            NotebookClient(book, timeout=600, resources={"metadata": {"path": folder}}).execute()
            for cell in book.cells:
                cell.metadata.pop("execution", None)
                # Progress and warnings go to stderr, and are no result.
                if "outputs" in cell:
                    cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
            nbformat.write(book, path)


if __name__ == "__main__":
    main()
