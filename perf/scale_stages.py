"""What each stage of a build takes, measured on a root and extrapolated to PubMed.

    python -m perf.scale_stages ROOT [docs/scale.md]

ROOT is a finished build of abstracts (docs/scale.md says of which). Rows and bytes are counted from
receipts and folders; seconds are those that the stages noted of themselves, in one process on one
core. With a file, the table replaces the one between its marks.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from srrag.storage.atomic_write import read_json
from srrag.storage.store import Store

PUBMED = 38_000_000
"""Abstracts."""
MARKS = "<!-- stages -->", "<!-- end of stages -->"


@dataclass(frozen=True)
class StageCost:
    """What a stage made: rows (0 where it counts none), bytes on disk, seconds."""

    name: str
    rows: int
    bytes: int
    seconds: float


def measured(root: Path, build: str = "default") -> tuple[int, list[StageCost]]:
    """The documents of a build, and the cost of each stage."""
    store = Store(root)
    costs, documents, known = [], 0, set[int]()
    for name, entry in store.read_pointer(build)["stages"].items():
        folder = store.stage_dir(name, entry["fingerprint"])
        states = [file.stat() for file in folder.rglob("*") if file.is_file()]
        size = sum(state.st_size for state in states if state.st_ino not in known)
        known.update(state.st_ino for state in states)  # a link is no new byte
        if "parts" in entry:
            receipts = store.receipts(name, entry["fingerprint"], entry["parts"])
            rows = sum(receipt.rows_out - receipt.rejected for receipt in receipts)
            seconds = sum(receipt.seconds for receipt in receipts)
            documents = rows if name == "documents" else documents
        else:
            rows, seconds = 0, read_json(folder / "manifest.json")["seconds"]
        costs.append(StageCost(name, rows, size, seconds))
    return documents, costs


def table(documents: int, costs: list[StageCost]) -> str:
    """Markdown: a row a stage, for 1,000 documents and for PubMed."""
    lines = [
        "| stage | rows | MB | s | PubMed: rows | TB | CPU hours |",
        "|---|---|---|---|---|---|---|",
    ]
    whole = StageCost("all", 0, sum(c.bytes for c in costs), sum(c.seconds for c in costs))
    for cost in (*costs, whole):
        thousand, more = documents / 1000, PUBMED / documents
        rows = f"{cost.rows / thousand:,.0f}" if cost.rows else ""
        many = f"{cost.rows * more / 1e6:,.0f} M" if cost.rows else ""
        lines.append(
            f"| {cost.name} | {rows} | {cost.bytes / thousand / 1e6:.2f} "
            f"| {cost.seconds / thousand:.2f} | {many} | {cost.bytes * more / 1e12:.3f} "
            f"| {cost.seconds * more / 3600:,.1f} |"
        )
    return "\n".join(lines)


def read_table(text: str) -> dict[str, StageCost]:
    """What a thousand documents make and take by stage, from a page that holds the table."""
    found = {}
    for line in text.partition(MARKS[0])[2].partition(MARKS[1])[0].splitlines():
        name, *cells = (cell.strip().replace(",", "") for cell in line.strip("| ").split("|"))
        if len(cells) == 6 and re.fullmatch(r"[\d.]+", cells[1]):
            rows, size, seconds = (float(cell or 0) for cell in cells[:3])
            found[name] = StageCost(name, int(rows), round(size * 1e6), seconds)
    return found


def replaced(text: str, marks: tuple[str, str], told: str) -> str:
    """A page with this text between two marks; raises ValueError if it lacks them."""
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise ValueError(f"the page has no {' … '.join(marks)}")
    return f"{before}{begin}\n{told}\n{end}{after}"


def main() -> None:
    """Print the table, or write it into a page."""
    text = table(*measured(Path(sys.argv[1])))
    print(text)
    if len(sys.argv) > 2:
        page = Path(sys.argv[2])
        page.write_text(replaced(page.read_text("utf-8"), MARKS, text), "utf-8")


if __name__ == "__main__":
    main()
