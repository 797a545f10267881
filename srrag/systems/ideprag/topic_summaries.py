"""A model's summaries of the topics of a hypergraph (Eq. 4 of EbmKG)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.core.spec import content_id
from srrag.llm.completion import PromptFile
from srrag.llm.describe import (
    DESCRIPTIONS,
    Answers,
    Description,
    Topic,
    describe,
    read_descriptions,
)
from srrag.systems.ideprag.hypergraph import HyperTopics

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "topic.md", Description)
BATCH = 256


@dataclass
class Summaries:
    """The summary of each topic ("" without an answer), and all descriptions by key."""

    texts: list[str] = field(default_factory=list)
    by_key: dict[str, Description] = field(default_factory=dict)
    calls: int = 0
    kept: int = 0
    unanswered: int = 0

    def instead(self, table: pa.Table) -> pa.Table:
        """The topics with the summaries in their texts, where there is one."""
        columns = (table[name].to_pylist() for name in ("name", "label", "text"))
        rows = zip(*columns, self.texts, strict=True)
        told = [f"{name}: {label}. {text}" if text else was for name, label, was, text in rows]
        place = table.column_names.index("text")
        return table.set_column(place, "text", pa.array(told, pa.string()))

    def figures(self) -> dict[str, int]:
        """What was asked."""
        names = ("calls", "kept", "unanswered")
        return {f"topics_{name}": getattr(self, name) for name in names}


def known_descriptions(former: Path | None) -> dict[str, Description]:
    """The descriptions of a previous version, by key."""
    path = None if former is None else former / DESCRIPTIONS
    return read_descriptions(path) if path is not None and path.is_file() else {}


def summarise(
    topics: HyperTopics,
    heads: list[tuple[str, str]],
    findings: pa.Table,
    central: npt.NDArray[np.int64],
    answer: Answers,
    max_chars: int,
    known: Mapping[str, Description],
) -> Summaries:
    """Summarise the evidence of each topic, the most central piece first.

    `heads` are the entity and the label of each topic. A topic with the same evidence as one in
    `known` keeps its summary. More evidence than `max_chars` is summarised in portions first.
    """
    total = Summaries()
    for start in range(0, len(topics), BATCH):
        batch = range(start, min(start + BATCH, len(topics)))
        keys = [_key(heads[n], _members(topics, n), findings) for n in batch]
        asked = [n for n, key in zip(batch, keys, strict=True) if key not in known]
        facts = [_facts(_members(topics, n), int(central[n]), findings) for n in asked]
        told = [Topic(heads[n], each) for n, each in zip(asked, facts, strict=True)]
        part = describe(told, answer, max_chars, PROMPT)
        new = dict(zip(asked, part.found, strict=True))
        total.calls += part.calls
        total.unanswered += sum(each is None for each in part.found)
        total.kept += len(keys) - len(asked)
        for n, key in zip(batch, keys, strict=True):
            found = known.get(key) or new[n]
            if found is not None:
                total.by_key[key] = found
            total.texts.append("" if found is None else found.summary)
    return total


def _members(topics: HyperTopics, number: int) -> npt.NDArray[np.int64]:
    return topics.members[topics.offsets[number] : topics.offsets[number + 1]]


def _key(head: tuple[str, str], members: npt.NDArray[np.int64], findings: pa.Table) -> str:
    return content_id(*head, *findings["evidence_id"].take(pa.array(members)).to_pylist())


def _facts(members: npt.NDArray[np.int64], central: int, findings: pa.Table) -> list[str]:
    order = [central, *members[members != central].tolist()]
    return [str(text) for text in findings["text"].take(pa.array(order)).to_pylist()]
