"""What a fitted file was fitted on: short hashes of questions, documents and pairs.

Each file learned from data has such a block under the key `fitted_on`. An evaluation compares it
with the questions of its benchmark, so that nobody takes a figure on fitted questions for one on
unseen questions.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from srrag.core.spec import content_id

KEY = "fitted_on"
"""The key of the block in a fitted file."""
DIGITS = 10
"""Hex digits of a sha256 that are kept: of 10,000 × 10,000 different texts 1 in 10,000 collides."""
_KINDS = ("questions", "documents", "pairs")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Fitted:
    """The training data of a fitted part, as hashes; `known` is False if they were not recorded."""

    name: str
    command: str = ""
    questions: frozenset[str] = frozenset()
    documents: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()
    known: bool = True


NOT_KNOWN = Fitted("unnamed part", known=False)


@dataclass(frozen=True)
class Overlap:
    """Places in the given questions and documents that a fitted part has seen."""

    questions: tuple[int, ...]
    documents: tuple[int, ...]


def digest(*texts: str) -> str:
    """Return the first DIGITS of the sha256 of a text, or of a pair, without case and marks."""
    parts = (
        " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold())) for text in texts
    )
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:DIGITS]


def fitted_on(
    *,
    name: str,
    command: str,
    questions: Iterable[str] = (),
    documents: Iterable[str] = (),
    pairs: Iterable[tuple[str, str]] = (),
) -> dict[str, Any]:
    """Return the block that a fitted file keeps under KEY, as JSON.

    `name` says what was fitted, `command` how, `questions` and `pairs` are texts, `documents` texts
    or ids. Data that chose a threshold belong here as much as data that trained weights.
    """
    seen = {
        "questions": {digest(each) for each in questions},
        "documents": {digest(each) for each in documents},
        "pairs": {digest(*each) for each in pairs},
    }
    return {"name": name, "command": command, **_hashed(seen)}


def including(block: Mapping[str, Any], earlier: Iterable[Fitted]) -> dict[str, Any]:
    """Add to a block what the parts have seen that were fitted on from there."""
    parts = list(earlier)
    seen = {
        kind: set(str(block.get(kind, "")).split()).union(*(getattr(each, kind) for each in parts))
        for kind in _KINDS
    }
    return {**block, **_hashed(seen)}


def _hashed(seen: Mapping[str, set[str]]) -> dict[str, Any]:
    counts = {kind: len(found) for kind, found in seen.items() if found}
    return {"counts": counts} | {kind: " ".join(sorted(seen[kind])) for kind in counts}


def unknown(name: str) -> dict[str, Any]:
    """Return the block of a part whose training data nobody knows."""
    return {"name": name, "unknown": True}


def read_fitted(told: Mapping[str, Any], name: str, where: object = "") -> Fitted:
    """Read the block of a fitted file; without one nothing is known.

    `name` is that of a part without a block, `where` names the file. Raises ValueError for a block
    that `fitted_on` did not write.
    """
    block = told.get(KEY)
    if block is None:
        return Fitted(name, known=False)
    try:
        if block.get("unknown"):
            return Fitted(str(block["name"]), known=False)
        seen = {kind: frozenset(str(block.get(kind, "")).split()) for kind in _KINDS}
        counts = {kind: len(found) for kind, found in seen.items() if found}
        if counts != block["counts"]:
            raise ValueError(f"it counts {block['counts']} and holds {counts}")
        name = str(block["name"])
        return Fitted(
            name, str(block["command"]), seen["questions"], seen["documents"], seen["pairs"]
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{where}: {KEY}: not what it was fitted on ({error!r})") from error


@functools.cache
def packaged_fit(package: str, file: str, name: str) -> Fitted:
    """Read the block of a JSON file that comes with the package."""
    text = files(package).joinpath(file).read_text("utf-8")
    return read_fitted(json.loads(text), name, file)


def learned_id(text: str, where: object) -> str:
    """Return the content id of a fitted JSON file without its block, for identities.

    Raises ValueError that names the file, `where`, if it is no JSON object.
    """
    try:
        told = dict(json.loads(text))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: not a JSON object ({error})") from error
    return content_id(json.dumps({k: v for k, v in told.items() if k != KEY}, sort_keys=True))


def overlap(fitted: Fitted, questions: Sequence[str], documents: Sequence[str] = ()) -> Overlap:
    """Find which questions (texts) and documents (texts or ids) a fitted part has seen."""
    asked = (n for n, text in enumerate(questions) if digest(text) in fitted.questions)
    read = (n for n, text in enumerate(documents) if digest(text) in fitted.documents)
    return Overlap(tuple(asked), tuple(read))
