"""`srrag evaluate bench=linking`: a vocabulary's terms in abstracts against indexers' headings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError, reading
from srrag.core.figures import printed
from srrag.lab.measure.linking import linking_figures, read_indexed
from srrag.lab.measure.splits import questions_of
from srrag.reading.vocabulary import Vocabulary
from srrag.runner.progress import say


def evaluate_linking(
    path: Path, mesh: str, split: Any, *, resamples: int, seed: int
) -> dict[str, Any]:
    """Link the documents of `docs.jsonl` to the vocabulary `mesh`, without synonyms and with."""
    started = time.perf_counter()
    with reading(path / "docs.jsonl"):
        documents = read_indexed(path / "docs.jsonl")
    keyed = [{"query_id": each["title"], **each} for each in documents]
    documents = list(questions_of(keyed, split))
    try:
        matchers = {
            name: Vocabulary(folder=mesh, synonyms=synonyms).open()
            for name, synonyms in (("names", False), ("synonyms", True))
        }
    except ValueError as error:
        raise UsageError(f"bench.{error}") from error
    figures = linking_figures(documents, matchers, resamples=resamples, seed=seed)
    lines = [f"  {name:<40}{printed(each)}" for name, each in figures.items()]
    say("\n".join([f"{len(documents)} documents", *lines, ""]))
    return {
        "documents": len(documents),
        "metrics": figures,
        "seconds": round(time.perf_counter() - started, 3),
    }
