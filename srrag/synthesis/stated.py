"""Findings by rules, of papers that no model has read: what their sentences say of an outcome."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from srrag.core.ids import content_id
from srrag.reading.prose import section_role
from srrag.reading.protocols import has_no_results
from srrag.reading.sentences import sentence_spans
from srrag.reading.statement import read_statement
from srrag.synthesis.comparisons import Parts, Row
from srrag.synthesis.names import NameMatcher
from srrag.synthesis.studies import StudyPaper

_LABEL = re.compile(r"(?:#{1,6} +|\*\*)?([A-Z][A-Za-z]+(?: [A-Za-z]+){0,3})(?:\*\*)?(?::|$)")
_DIRECTION = {"increased": "more", "decreased": "less"}


def stated(papers: Iterable[StudyPaper], parts: Parts, names: NameMatcher) -> Iterator[Row]:
    """Yield rows of FINDINGS: sentences that tell clearly which way an asked outcome went.

    A paper has to name an asked intervention. Plans, methods and background are left out, and
    conclusions are conclusions. Without an asked comparator it is a control group that is meant.
    """
    given, against = [*parts["I"]], [*parts["C"]]
    for paper in papers:
        whole = f"{paper.title} {paper.text}"
        if has_no_results(paper.title, paper.text) or not names.holds_any(given, whole):
            continue
        role = ""
        for low, high in sentence_spans(paper.text):
            sentence = paper.text[low:high]
            if label := _LABEL.match(sentence):
                role = section_role(label[1]) or role
            outcome = next((each for each in parts["O"] if names.holds(each, [sentence])), "")
            if not outcome or role in ("background", "method"):
                continue
            told = read_statement(sentence, outcome, given[0], "".join(against[:1]))
            if not told.clear:
                continue
            way = told.better_or_worse
            yield {
                "finding_id": content_id(paper.doc_id, str(low), outcome),
                "doc_id": paper.doc_id, "unit_id": paper.doc_id, "grade": paper.grade,
                "kind": "concluded" if role == "conclusion" else "found",
                "interventions": given[:1], "comparators": against[:1] or ["control"],
                "outcome": outcome, "times": [], "people": [],
                "direction": _DIRECTION.get(told.direction, way) if way == "unclear" else way,
                "effect": "", "interval": "", "p": "",
                "places": [{"start": low, "end": high}], "quote": sentence, "confidence": 0.5,
                "reject": None,
            }  # fmt: skip
