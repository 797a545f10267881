"""Gold windows of a question set that names documents and verbatim quotes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from srrag.core.spec import content_id
from srrag.core.units import Units
from srrag.lab.datasets import json_lines
from srrag.lab.measure.retrieval import Qrels

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
                {"doc": g["doc"], "quote": g["quote"], "relevance": int(g["relevance"])}
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
    windows = windows_by_document(units)
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


def windows_by_document(units: Units) -> Mapping[str, list[tuple[str, str]]]:
    """The windows of each document, by the corpus's own id, with texts whose white space is one."""
    ids, texts = (units.units[name].to_pylist() for name in ("unit_id", "text"))
    found: dict[str, list[tuple[str, str]]] = {}
    for name, unit_id, text in zip(units.document_keys(ids).to_pylist(), ids, texts, strict=True):
        found.setdefault(name, []).append((unit_id, " ".join(text.split())))
    return found
