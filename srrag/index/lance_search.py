"""The opened indexes of LanceDB, which search as those of this package do."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.core.hits import Ranked, rank, tied
from srrag.index.parts import Matrix
from srrag.index.words import WordIndex
from srrag.storage.atomic_write import read_json
from srrag.storage.mapped_table import map_table

SETTINGS = "lance.json"
TABLE = "windows"
TERMS = "terms.arrow"
NOTHING: Ranked = (pa.array([], pa.string()), np.zeros(0, np.float32))


def lancedb() -> Any:
    """The package; raises ValueError that says how to install it."""
    if importlib.util.find_spec("lancedb") is None:
        raise ValueError("index=lancedb needs: pip install 'srrag[lancedb]'")
    os.environ.setdefault("LANCE_LOG", "error")  # lancedb warns about each new table
    return importlib.import_module("lancedb")


def opened(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The table in a build's folder, and the build's settings."""
    settings: dict[str, Any] = read_json(folder / SETTINGS)
    return lancedb().connect(str(folder)).open_table(TABLE), settings


def of_grades(query: Any, grades: Sequence[str]) -> Any:
    """Restrict a query to some grades before it ranks; no grades means all."""
    if not grades:
        return query
    named = ", ".join(f"'{grade}'" for grade in grades)
    return query.where(f"grade IN ({named})", prefilter=True)


def best(fetch: Callable[[int], Ranked], k: int) -> Ranked:
    """The k best of a search that returns as many as requested.

    All ties with the last are fetched; the ranking decides them by id.
    """
    depth = k + 1
    while True:
        ids, scores = fetch(depth)
        if len(ids) < depth or not tied(scores[k - 1], scores[-1]):
            return rank(ids, scores, k)
        depth *= 2


def taken(query: Any, depth: int, column: str) -> tuple[pa.Array, np.ndarray]:
    """Unit ids and a column of numbers of the first hits."""
    found = query.select(["unit_id", column]).limit(depth).to_arrow()
    return found["unit_id"].combine_chunks(), np.asarray(found[column], np.float32)


class LanceDense:
    """Windows by the inner product of vectors, exact or by inverted lists."""

    def __init__(self, folder: Path) -> None:
        """Open the table; its files stay on disk."""
        self._table, settings = opened(folder)
        self.dimension = int(settings["dimension"])
        self._probes, self._refine = settings["probes"], settings["refine"]

    def search(self, queries: Matrix, k: int, grades: Sequence[str] = ()) -> list[Ranked]:
        """Return the k best units for each query (n, dimension); no grades means all."""
        return [best(self._fetch(query, grades), k) for query in queries]

    def _fetch(self, vector: np.ndarray, grades: Sequence[str]) -> Callable[[int], Ranked]:
        def fetch(depth: int) -> Ranked:
            query = self._table.search(vector).distance_type("dot")
            if self._probes:
                query = query.nprobes(self._probes)
            if self._refine:
                query = query.refine_factor(self._refine)
            ids, distances = taken(of_grades(query, grades), depth, "_distance")
            return ids, 1 - distances

        return fetch


class LanceSparse(WordIndex):
    """Windows by BM25, whose terms are those of this package's own index."""

    def __init__(self, folder: Path, title_weight: float) -> None:
        """Open the table, and map how many windows hold each term."""
        super().__init__()
        self._table, settings = opened(folder)
        self._rows, self._titled = int(settings["rows"]), bool(settings["titled"])
        self._title_weight = title_weight
        table = map_table(folder / TERMS)
        self._terms, self._counts = table["term"].chunk(0), np.asarray(table["windows"])

    def __len__(self) -> int:
        """Number of windows."""
        return self._rows

    def document_frequency(self, term: str) -> int:
        """How many windows hold an indexed term, by binary search."""
        low, high = 0, len(self._terms)
        while low < high:
            middle = (low + high) // 2
            if self._terms[middle].as_py() < term:
                low = middle + 1
            else:
                high = middle
        there = low < len(self._terms) and self._terms[low].as_py() == term
        return int(self._counts[low]) if there else 0

    def search(self, questions: Sequence[str], k: int, grades: Sequence[str] = ()) -> list[Ranked]:
        """Return the k best units of each question by BM25; no grades means all."""
        return [self._search(question, k, grades) for question in questions]

    def _search(self, question: str, k: int, grades: Sequence[str]) -> Ranked:
        terms = [term for term in dict.fromkeys(self.terms(question)) if term.isprintable()]
        if not terms:
            return NOTHING
        asked = self._asked(" ".join(terms))

        def fetch(depth: int) -> Ranked:
            query = self._table.search(asked, query_type="fts")
            return taken(of_grades(query, grades), depth, "_score")

        return best(fetch, k)

    def _asked(self, terms: str) -> Any:
        """BM25 of the text, plus that of the title by its weight."""
        kinds = importlib.import_module("lancedb.query")
        text = kinds.MatchQuery(terms, "text")
        if not self._titled or not self._title_weight:
            return text
        title = kinds.MatchQuery(terms, "title", boost=self._title_weight)
        return kinds.BooleanQuery([(kinds.Occur.SHOULD, each) for each in (text, title)])
