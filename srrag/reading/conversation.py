"""What was said before a question, as prompts tell it: it tells what is meant, no evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from srrag.llm.completion import quoted

_LABEL = re.compile(r"E(\d{1,3})")


def label(place: int) -> str:
    """The name of an earlier paper at a place, from 0; no number of a sentence looks like it."""
    return f"E{place + 1}"


def places_of(labels: Sequence[str]) -> set[int]:
    """The places of the papers that labels name; what is no label names none."""
    found = (_LABEL.fullmatch(each.strip("[] ")) for each in labels)
    return {int(each[1]) - 1 for each in found if each}


def key_of(document: Mapping[str, Any]) -> str:
    """How answers name a document's paper to readers, by which a later turn finds it again."""
    return f"PMID {document['pmid']}" if document["pmid"] else str(document["source_id"])


def said(conversation: Mapping[str, Any], evidence: Sequence[Mapping[str, Any]] = ()) -> str:
    """What was asked and answered, the papers cited then, and the message, a line each.

    A paper that is among the `evidence` has its number there.
    """
    now = {key_of(item): n for n, item in reversed([*enumerate(evidence, 1)])}
    lines = []
    for turn in conversation["turns"]:
        lines.append(f"Earlier question: {quoted(turn['question'])}")
        if turn["answer"]:
            lines.append(f"Earlier answer: {quoted(turn['answer'])}")
    for place, paper in enumerate(conversation["papers"]):
        number = now.get(paper["key"])
        shown = f"; now paper {number}" if number else "; not shown now" if evidence else ""
        lines.append(f"{label(place)}: {quoted(paper['line'])}{shown}")
    return "\n".join([*lines, f"Message: {quoted(conversation['asked'])}"])
