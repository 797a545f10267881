"""From a folder of ten PDF files to a cited answer: commands, seconds, and what was read.

python -m perf.first_answer D, with D the folder of the public test sets. Sections of an open
textbook are set as PDF files, half of them in two columns, and two are pictures of text.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from srrag.units import Units
from tests.e2e.command import srrag_process
from tests.papers import paper_pdf, recovered, scanned_pdf

QUESTION = "Which adverse effects do nonsteroidal anti-inflammatory drugs have?"


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = write_papers(arguments.data / "textbook" / "sections.jsonl", folder / "papers")
        began = time.perf_counter()
        built, _ = run("build", "corpus=folder", f"corpus.path={folder / 'papers'}", folder)
        built_s = time.perf_counter() - began
        answer, _ = run("ask", f"question={QUESTION}", "", folder)
        figures = {
            "commands": 2,
            "build_s": round(built_s, 1),
            "ask_s": round(time.perf_counter() - began - built_s, 1),
            "cpu_s": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, 1),
            "documents": built["documents"],
            "rejected": built["rejected"],
            "sentences": len(answer["sentences"]),
            "cited": sum(bool(each["citations"]) for each in answer["sentences"]),
            "character_f1": read_back(folder / "root", texts),
        }
    print(json.dumps(figures), file=sys.stdout)


def run(job: str, first: str, second: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Run a job as a process, as a user does."""
    return srrag_process(job, *filter(None, (first, second)), f"root={folder / 'root'}")


def write_papers(source: Path, folder: Path) -> dict[str, str]:
    """Set eight sections as text, in one or two columns, and two as pictures; texts by file."""
    folder.mkdir()
    texts: dict[str, str] = {}
    for line in source.read_text("utf-8").splitlines():
        section = json.loads(line)
        parts = [(each["heading_path"], each["text"]) for each in section["paragraphs"]]
        if len(parts) < 12 or not section["section_title"].isascii():
            continue
        number = len(texts)
        shown = [(" ".join(path[-1:]) or "Text", text) for path, text in parts[:30]]
        name = f"paper-{number}.pdf"
        if number < 8:
            body = paper_pdf(section["section_title"], shown, columns=1 + number % 2)
        else:
            body = scanned_pdf("\n".join(text for _, text in shown[:3]))
        (folder / name).write_bytes(body)
        texts[name] = "\n".join(f"{heading}\n{text}" for heading, text in shown)
        if len(texts) == 10:
            break
    return texts


def read_back(root: Path, texts: dict[str, str]) -> dict[str, float]:
    """The character F1 of each document's text against its source."""
    from srrag.storage.store import Store

    store = Store(root)
    entry = store.read_pointer("default")["stages"]["documents"]
    found = {}
    for part in entry["parts"]:
        table = store.read_part(
            "documents", entry["fingerprint"], part, ["source", "text", "reject"]
        )
        for row in table.to_pylist():
            if row["reject"] is None:
                found[row["source"]] = round(recovered(texts[row["source"]], row["text"]), 4)
    assert Units(store.artifacts("default")["units"]).documents.num_rows == len(found)
    return found


if __name__ == "__main__":
    main()
