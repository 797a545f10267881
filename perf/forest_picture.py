"""The forest plot of a report, without failed rows and controls, as a picture for the README.

python -m perf.forest_picture RESULTS METRIC [docs/pictures/forest.png]
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image

from jobs.cli import main as srrag


def main(results: str, metric: str, out: str = "docs/pictures/forest.png") -> None:
    """Report on a copy of the results with the rows that answered, and keep its plot."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "results")
        shutil.copytree(results, copy)
        told = json.loads((copy / "rows.json").read_text("utf-8"))
        shown = [row for row in told["rows"] if _shown(row)]
        (copy / "rows.json").write_text(json.dumps({**told, "rows": shown}), "utf-8")
        srrag(["report", f"results={copy}", f"out={folder}/report"])
        stem = metric.lower().replace("@", "_")
        (plot,) = Path(folder, "report", "plots").glob(f"*-{stem}.png")
        with Image.open(plot) as picture:
            small = picture.convert("RGB").quantize(32, dither=Image.Dither.NONE)
            small.save(out, optimize=True)


def _shown(row: dict[str, object]) -> bool:
    return row["state"] == "done" and not str(row["name"]).startswith(("control", "unaided"))


if __name__ == "__main__":
    main(*sys.argv[1:4])
