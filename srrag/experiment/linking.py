"""`srrag evaluate bench=linking`: a vocabulary's terms in abstracts against indexers' headings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from srrag.errors import UsageError, reading
from srrag.evaluate.linking import linking_table, read_indexed
from srrag.evaluate.splits import questions_of
from srrag.mentions.vocabulary import Vocabulary
from srrag.runner.progress import say


def evaluate_linking(config: dict[str, Any], path: Path) -> dict[str, Any]:
    """Link the documents of `docs.jsonl`, without synonyms and with them."""
    started = time.perf_counter()
    folder = str(config["bench"]["mesh"])
    with reading(path / "docs.jsonl"):
        documents = read_indexed(path / "docs.jsonl")
    keyed = [{"query_id": each["title"], **each} for each in documents]
    documents = list(questions_of(keyed, config["bench"]["split"]))
    try:
        matchers = {
            name: Vocabulary(folder=folder, synonyms=synonyms).open()
            for name, synonyms in (("names", False), ("names and synonyms", True))
        }
    except ValueError as error:
        raise UsageError(f"bench.{error}") from error
    figures = linking_table(documents, matchers)
    lines = [f"{len(documents)} documents"]
    for name, each in figures.items():
        told = "  ".join(f"{key} {value:.3f}" for key, value in each.items())
        lines.append(f"  {name:<44}{told}")
    say("\n".join([*lines, ""]))
    return {
        "documents": len(documents),
        "linking": figures,
        "seconds": round(time.perf_counter() - started, 3),
    }
