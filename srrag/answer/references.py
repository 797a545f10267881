"""The papers that an answer cites, as lines of text and for reference managers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from srrag.answer.evidence import Paper
from srrag.reading.prose import plain

_TEX = {"\\": r"\textbackslash{}", **{each: f"\\{each}" for each in "&%$#_{}"},
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}  # fmt: skip
_PUBMED = "https://pubmed.ncbi.nlm.nih.gov/{}/"


def as_ris(papers: Sequence[Paper]) -> str:
    """Records of RIS: title, year, PMID with its link, grade as a note; no author is known."""
    return "".join(_record(paper) for paper in papers)


def _record(paper: Paper) -> str:
    fields = [("TY", "JOUR"), ("TI", _title(paper))]
    fields += [("PY", str(paper.year))] if paper.year else []
    fields += [("AN", paper.pmid), ("UR", _PUBMED.format(paper.pmid))] if _pmid(paper) else []
    fields += [("ID", _one_line(paper.source_id)), ("N1", _one_line(_note(paper)))]
    return "".join(f"{name}  - {text}\r\n" for name, text in [*fields, ("ER", "")])


def as_bibtex(papers: Sequence[Paper]) -> str:
    """Entries of BibTeX, keyed by PMID or the library's own id."""
    return "\n".join(_entry(paper) for paper in papers)


def _entry(paper: Paper) -> str:
    key = f"pmid{paper.pmid}" if _pmid(paper) else re.sub(r"[^\w-]", "", paper.source_id)
    fields = {"title": f"{{{_tex(_title(paper))}}}"}
    if paper.year:
        fields["year"] = str(paper.year)
    if _pmid(paper):
        fields |= {"pmid": paper.pmid, "url": _PUBMED.format(paper.pmid)}
    fields["note"] = _tex(_note(paper))
    lines = "".join(f"  {name} = {{{text}}},\n" for name, text in fields.items())
    return f"@article{{{key or f'evidence{paper.numbers[0]}'},\n{lines}}}\n"


def reference_line(paper: Paper, cited: set[int]) -> str:
    """A reference as a line of text: numbers that the answer cites, title, year, PMID, grade."""
    marks = "".join(f"[{number}]" for number in paper.numbers if number in cited)
    parts = [_title(paper), str(paper.year or ""), f"PMID {paper.pmid}" if _pmid(paper) else "",
             _note(paper)]  # fmt: skip
    return f"{marks} " + ". ".join(part.rstrip(".") for part in parts if part) + "."


def _note(paper: Paper) -> str:
    grade = f"Grade {paper.grade} ({paper.study})" if paper.grade else "No grade"
    return f"{grade}; {paper.status}" if paper.status else grade


def _title(paper: Paper) -> str:
    return _one_line(plain(paper.title) or paper.source_id)


def _pmid(paper: Paper) -> bool:
    return re.fullmatch(r"\d+", paper.pmid) is not None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _tex(text: str) -> str:
    return "".join(_TEX.get(char, char) for char in _one_line(text))
