"""Questions of a textbook: learning outcomes, whose gold is a section, and known items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from srrag.core.spec import content_id
from srrag.lab.datasets import json_lines
from srrag.lab.measure.references import read_qrels

Kind = Literal["outcomes", "known_items"]
KINDS: tuple[Kind, ...] = ("outcomes", "known_items")
HALVES = ("develop", "blind")


@dataclass(frozen=True)
class TextbookQuestion:
    """A question, the sections (documents) that answer it, and their chapter.

    `sentence` is the text that a unit must contain to answer a known item; "" asks for any unit of
    the section.
    """

    query_id: str
    kind: Kind
    text: str
    sections: tuple[str, ...]
    chapter: str
    sentence: str = ""


def read_textbook(
    folder: Path, sample: bool | None = None, known: str | None = None
) -> list[TextbookQuestion]:
    """Read outcomes.jsonl and known_items.jsonl of a folder, with their qrels.

    `sample` takes the outcomes so marked (true), the others (false), or all (null). `known` takes
    half of the known items by the hash of their id: develop, blind, or null for all. Raises
    ValueError that names file and line, and for settings that leave no question of a kind.
    """
    if known is not None and known not in HALVES:
        raise ValueError(f"bench.known={known}: one of {', '.join(HALVES)}, or null for all")
    if sample is not None and not isinstance(sample, bool):
        raise ValueError(f"bench.sample={sample}: true, false, or null for all")
    found: list[TextbookQuestion] = []
    for kind in KINDS:
        wanted, half = (sample, None) if kind == "outcomes" else (None, known)
        kept = [
            row
            for row, mark in _read(folder, kind)
            if wanted in (None, mark) and half in (None, half_of(row.query_id))
        ]
        if not kept:
            raise ValueError(f"{folder / kind}.jsonl: no question is left")
        found += kept
    seen: set[str] = set()
    for each in found:
        if each.query_id in seen:
            raise ValueError(f"{folder}: question {each.query_id!r} is there twice")
        seen.add(each.query_id)
    return found


def half_of(query_id: str) -> str:
    """`develop` or `blind`, by the hash of a question's id."""
    return HALVES[int(content_id("textbook", query_id)[:15], 16) % 2]


def read_chapters(folder: Path) -> dict[str, str]:
    """Map each section (document) of chapters.jsonl to its chapter, "<book> <number>"."""
    path = folder / "chapters.jsonl"
    chapters: dict[str, str] = {}
    for place, row in json_lines.rows(path, "a chapter"):
        try:
            name = f"{row['book']} {row['chapter_no']}"
            chapters |= {str(section["id"]): name for section in row["sections"]}
        except (KeyError, TypeError) as error:
            raise ValueError(f"{place}: not a chapter ({error!r})") from error
    return chapters


def _read(folder: Path, kind: Kind) -> Iterator[tuple[TextbookQuestion, bool]]:
    """Yield each question of a kind and whether it is marked as in the sample."""
    path, chapters = folder / f"{kind}.jsonl", read_chapters(folder)
    qrels = read_qrels(folder / "qrels" / f"{kind}.tsv")
    keys = ("id", "text", *(("sentence",) if kind == "known_items" else ()))
    for place, row in json_lines.rows(path, "a question", keys):
        query_id, text = str(row["id"]), str(row["text"])
        sentence = str(row["sentence"]) if kind == "known_items" else ""
        gold = tuple(name for name, grade in qrels.get(query_id, {}).items() if grade > 0)
        if not gold or gold[0] not in chapters:
            raise ValueError(f"{place}: no section of chapters.jsonl answers {query_id!r}")
        question = TextbookQuestion(query_id, kind, text, gold, chapters[gold[0]], sentence)
        yield question, bool(row.get("sample"))
