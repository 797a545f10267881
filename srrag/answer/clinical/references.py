"""The cited papers as references: plain text, RIS and BibTeX, by what the library knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from srrag.answer.clinical.paper import CitedPaper
from srrag.core.standing import mark

_TEX = {"\\": r"\textbackslash{}", **{each: f"\\{each}" for each in "&%$#_{}"},
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}  # fmt: skip
_PUBMED = "https://pubmed.ncbi.nlm.nih.gov/{}/"


def as_ris(papers: Sequence[CitedPaper]) -> str:
    """Records of RIS: title, year, PMID with its link, grade as a note; no author is known."""
    return "".join(_record(paper) for paper in papers)


def _record(paper: CitedPaper) -> str:
    item = paper.item
    fields = [("TY", "JOUR"), ("TI", _line(paper.title or item["source_id"]))]
    fields += [("PY", str(item["year"]))] if item["year"] else []
    fields += [("AN", item["pmid"]), ("UR", _PUBMED.format(item["pmid"]))] if _pmid(item) else []
    fields += [("ID", _line(item["source_id"])), ("N1", _line(_note(paper)))]
    return "".join(f"{name}  - {text}\r\n" for name, text in [*fields, ("ER", "")])


def as_bibtex(papers: Sequence[CitedPaper]) -> str:
    """Entries of BibTeX, keyed by PMID or the library's own id."""
    return "\n".join(_entry(paper) for paper in papers)


def _entry(paper: CitedPaper) -> str:
    item = paper.item
    key = f"pmid{item['pmid']}" if _pmid(item) else re.sub(r"[^\w-]", "", item["source_id"])
    fields = {"title": f"{{{_tex(paper.title or item['source_id'])}}}"}
    if item["year"]:
        fields["year"] = str(item["year"])
    if _pmid(item):
        fields |= {"pmid": item["pmid"], "url": _PUBMED.format(item["pmid"])}
    fields["note"] = _tex(_note(paper))
    lines = "".join(f"  {name} = {{{text}}},\n" for name, text in fields.items())
    return f"@article{{{key or item['doc_id']},\n{lines}}}\n"


def reference_line(paper: CitedPaper) -> str:
    """A reference as a line of text: its numbers, title, year, PMID and grade."""
    item = paper.item
    marks = "".join(f"[{number}]" for number in paper.cited)
    parts = [paper.title or item["source_id"], str(item["year"] or ""),
             f"PMID {item['pmid']}" if _pmid(item) else "", _note(paper)]  # fmt: skip
    return f"{marks} " + ". ".join(part.rstrip(".") for part in parts if part) + "."


def _note(paper: CitedPaper) -> str:
    item = paper.item
    grade = f"Grade {item['grade']} ({item['study']})" if item["grade"] else "No grade"
    told = mark(item)
    return f"{grade}; {told}" if told else grade


def _pmid(item: Any) -> bool:
    return bool(re.fullmatch(r"\d+", item["pmid"] or ""))


def _line(text: str) -> str:
    return " ".join(text.split())


def _tex(text: str) -> str:
    return "".join(_TEX.get(char, char) for char in _line(text))
