"""Made-up answers of two systems, kits of them and filled sheets: what the tests share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from srrag.lab.review.figures import KEYS
from srrag.lab.review.kit import Kit, make_kit
from tests.judged import PASSAGE, answers

NASTY = '</script><img src=x onerror="window.hacked=1">{{ 7*7 }}'


def rows(system: str, count: int = 6) -> list[dict[str, Any]]:
    """Rows of ANSWERS: each cites the second of three pieces of evidence."""
    evidence = [
        PASSAGE | {"evidence_id": f"e{n}", "text": f"## Results\nText {n} {NASTY}", "grade": grade}
        | {"title": f"Trial {n}", "source_id": f"doc-{n}", "pmid": f"1000{n}", "section": "Results"}
        for n, grade in ((1, "A"), (2, "B"), (3, ""))
    ]  # fmt: skip
    said = {"text": "It helps.", "evidence_ids": ["e2"]}
    found: list[dict[str, Any]] = answers(
        *(
            {"query_id": f"q{n}", "text": f"Question {n}?", "sentences": [said]}
            | {"answer": f"{system} says: it helps. [2]\n\nMore {NASTY}", "evidence": evidence}
            for n in range(count)
        )
    ).to_pylist()
    return found


def gold(count: int = 6) -> list[dict[str, Any]]:
    """Reference answers; every third question is of another condition."""
    return [
        {"query_id": f"q{n}", "text": "", "ideal_answer": f"=Reference {n}\x07"}
        | {"strata": {"condition": "knee" if n % 3 else "hip"}}
        for n in range(count)
    ]


def kit(*systems: str, questions: int = 3, seed: int = 0) -> Kit:
    """A kit of these systems, of one by default."""
    named = {name: rows(name) for name in systems or ("one",)}
    return make_kit(named, gold(), questions=questions, strata="condition", seed=seed)


def filled(folder: Path, made: Kit, rater: str, values: dict[str, list[int | None]]) -> Path:
    """A sheet as the page saves it; items that `values` lacks are left out."""
    ratings = [
        {"item": item, **dict(zip(KEYS, given, strict=True)), "comment": ""}
        for item, given in values.items()
    ]
    content = {"kind": "srrag review", "layout": 1, "sample": made.sample}
    path = folder / f"{rater}.json"
    path.write_text(json.dumps({**content, "rater": rater, "ratings": ratings}))
    return path
