"""Retrieval metrics on BEIR qrels, and gold windows of questions that name verbatim quotes."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import ir_measures
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from ir_measures import RR, P, R, Success, nDCG

from srrag.core.spec import content_id
from srrag.core.units import Units
from srrag.lab.datasets import json_lines

Qrels = dict[str, dict[str, int]]
Run = Mapping[str, Mapping[str, float]]

CUTOFFS = (10,)
DEEP = (100, 300)
"""Where recall is measured beside the cut-offs: how much a reranker could still find."""

_MISS = "miss@"


def measures(cutoffs: Sequence[int] = CUTOFFS) -> dict[str, Any]:
    """Return ir-measures objects by our metric names; the miss rate is 1 - success.

    Each metric has all cut-offs in ascending order, recall those of DEEP too. Raises ValueError for
    a cut-off that is not a whole number above 0, and for an empty list.
    """
    wrong = [k for k in cutoffs if isinstance(k, bool) or not isinstance(k, int) or k < 1]
    if wrong or not cutoffs:
        raise ValueError(f"cut-offs {list(cutoffs)}: whole numbers above 0 are needed")
    depths = sorted(set(cutoffs))
    recalled = sorted({*depths, *DEEP})
    kinds = {"nDCG": nDCG, "recall": R, "MRR": RR, "P": P, "miss": Success}
    return {
        f"{name}@{k}": kind @ k
        for name, kind in kinds.items()
        for k in (recalled if name == "recall" else depths)
    }


def lower_is_better(name: str) -> bool:
    """Whether less of a metric is better."""
    return name.startswith(_MISS)


def read_qrels(path: Path) -> Qrels:
    """Read BEIR qrels (query-id, corpus-id, score); raises ValueError that names file and line."""
    qrels: Qrels = {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t")
        next(rows, None)
        for number, row in enumerate(rows, start=2):
            try:
                query, document, score = row[0], row[1], int(row[2])
            except (IndexError, ValueError) as error:
                raise ValueError(f"{path}:{number}: not query-id, corpus-id, score") from error
            qrels.setdefault(query, {})[document] = score
    if not qrels:
        raise ValueError(f"{path}: there is no judgement")
    return qrels


def per_question(
    qrels: Qrels, run: Run, cutoffs: Sequence[int] = CUTOFFS
) -> dict[str, npt.NDArray[np.float64]]:
    """Return each metric's values, shape (questions,), ordered by the sorted judged ids.

    A question that the run lacks (it failed, or retrieval found nothing) counts 0, never NaN; its
    miss counts 1.
    """
    order = {query: place for place, query in enumerate(sorted(qrels))}
    asked = measures(cutoffs)
    values = {name: np.zeros(len(order)) for name in asked}
    names = {str(measure): name for name, measure in asked.items()}
    found = {query: dict(documents) for query, documents in run.items() if documents}
    for metric in ir_measures.iter_calc(list(asked.values()), qrels, found):
        if metric.query_id in order:
            values[names[str(metric.measure)]][order[metric.query_id]] = metric.value
    for name in filter(lower_is_better, values):
        values[name] = 1.0 - values[name]
    return values


def coverage(
    statements: Mapping[str, Sequence[Collection[str]]], run: Run, depth: int = 10
) -> npt.NDArray[np.float64]:
    """Share of each question's must-have statements that the first `depth` documents support.

    `statements` lists, for each statement of a question, the documents that support it. Values have
    the order of the sorted questions (coverage@k of rethinking-rag, section 2.2). Raises ValueError
    for a question without a statement.
    """
    shares = []
    for query in sorted(statements):
        if not statements[query]:
            raise ValueError(f"question {query}: there is no statement to cover")
        ranked = run.get(query, {})
        best = set(sorted(ranked, key=lambda name: -ranked[name])[:depth])
        shares.append(
            sum(not best.isdisjoint(s) for s in statements[query]) / len(statements[query])
        )
    return np.array(shares, np.float64)


SPLITS = ("train", "test")
_TEST_IN = 3

Question = TypeVar("Question", bound=Mapping[str, Any])


def questions_of(questions: Iterable[Question], split: str | None) -> list[Question]:
    """Return the questions of `train` or `test`, or all for None; ValueError for another split.

    The hash of the id puts a third of the questions into `test`, so a question keeps its side when
    others are added.
    """
    if split is None:
        return list(questions)
    if split not in SPLITS:
        raise ValueError(f"bench.split={split}: one of {', '.join(SPLITS)}, or null for all")
    return [row for row in questions if split_of(row["query_id"]) == split]


def split_of(query_id: str) -> str:
    """`train` or `test`."""
    return "test" if int(content_id(query_id)[:15], 16) % _TEST_IN == 0 else "train"


_PACKAGE = "pkg://"


def resource_path(path: str) -> Path:
    """Resolve `pkg://package/file` to the file in an installed package; keep any other path."""
    if not path.startswith(_PACKAGE):
        return Path(path)
    package, _, inner = path.removeprefix(_PACKAGE).partition("/")
    return Path(str(files(package))) / inner


def read_gold(path: Path) -> Iterator[dict[str, Any]]:
    """Yield questions, one JSON object a line; `gold` defaults to [].

    Raises ValueError that names the line.
    """
    first: dict[str, str] = {}
    for place, row in json_lines.rows(path, "a question with `gold`", ("query_id", "text")):
        try:
            gold = [
                {"doc": str(g["doc"]), "quote": g["quote"], "relevance": int(g["relevance"])}
                for g in ([] if row.get("gold") is None else row["gold"])
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{place}: not a question with `gold`") from error
        question = {"query_id": str(row["query_id"]), "text": str(row["text"])}
        if (before := first.setdefault(question["query_id"], place)) != place:
            raise ValueError(f"{place}: id was first seen in {before}")
        yield {**row, **question, "gold": gold}


def window_qrels(questions: list[dict[str, Any]], units: Units) -> Qrels:
    """Make window qrels: a window that holds a gold quote gets the relevance of the quote.

    Raises ValueError that names the question whose quote is in no window.
    """
    qrels: Qrels = {}
    for query_id, quotes in quote_windows(questions, units).items():
        judged: dict[str, int] = {}
        for relevance, found in quotes:
            for unit_id in found:
                judged[unit_id] = max(judged.get(unit_id, 0), relevance)
        if judged:
            qrels[query_id] = judged
    return qrels


def quote_windows(
    questions: list[dict[str, Any]], units: Units
) -> dict[str, list[tuple[int, list[str]]]]:
    """Return relevance and windows of each gold quote, by question; raises as `window_qrels`."""
    named = {gold["doc"] for question in questions for gold in question["gold"]}
    windows = windows_by_document(units, named)
    quotes: dict[str, list[tuple[int, list[str]]]] = {}
    for question in questions:
        listed = quotes.setdefault(question["query_id"], [])
        for gold in question["gold"]:
            quote = " ".join(gold["quote"].split())
            held = windows.get(gold["doc"], [])
            found = [unit_id for unit_id, text in held if quote and quote in text]
            if not found:
                of = f"window of {gold['doc']} holds its quote"
                if gold["doc"] not in windows:
                    of = f"document {gold['doc']!r} is here; build its corpus into another root"
                raise ValueError(f"question {question['query_id']}: no {of}")
            listed.append((int(gold["relevance"]), found))
    return quotes


def must_have(
    quotes: dict[str, list[tuple[int, list[str]]]],
) -> dict[str, list[list[str]]]:
    """Return, by question, the windows of each quote of relevance 2; others are left out."""
    found = {query: [w for grade, w in each if grade >= 2] for query, each in quotes.items()}
    return {query: each for query, each in found.items() if each}


def windows_by_document(
    units: Units, names: Collection[str]
) -> Mapping[str, list[tuple[str, str]]]:
    """The windows of the documents with these ids of the corpus, by id; their blanks are single."""
    papers = units.documents.select(["doc_id", "source_id"])
    papers = papers.filter(pc.is_in(papers["source_id"], pa.array(sorted(names), pa.string())))
    all_ids = units.units.select(["unit_id", "doc_id"])
    held = pc.is_in(all_ids["doc_id"], pa.array(papers["doc_id"].to_pylist(), pa.string()))
    ids = all_ids.filter(held)["unit_id"].to_pylist()
    texts = units.take(ids, ("text",))["text"].to_pylist()
    found: dict[str, list[tuple[str, str]]] = {}
    for name, unit_id, text in zip(units.document_keys(ids).to_pylist(), ids, texts, strict=True):
        found.setdefault(name, []).append((unit_id, " ".join(text.split())))
    return found
