"""The abbreviations that a corpus defines, each with its most frequent long form by documents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from srrag.core.step import Build, Place
from srrag.reading.concepts import FILE, abbreviations
from srrag.storage.manifest import read_live


@dataclass(frozen=True, kw_only=True)
class BuildAbbreviations(Build):
    """Find "long form (ABC)" in all documents (Schwartz and Hearst 2003).

    Of several long forms of an abbreviation, the one in the most documents wins; ties go to the
    first by name. Case, and a plural s of the short form, count.
    """

    documents: str = "documents"

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `abbreviations.json`: the long form of each short one."""
        counts: Counter[tuple[str, str]] = Counter()
        for table in read_live(inputs[self.documents], ("doc_id", "text")):
            for text in table["text"].to_pylist():
                counts.update(set(abbreviations(text)))
        chosen = most_common(counts)
        text = json.dumps(chosen, ensure_ascii=False, indent=1, sort_keys=True)
        (out / FILE).write_text(text + "\n", "utf-8")
        return {"abbreviations": len(chosen), "definitions": sum(counts.values())}


def most_common(counts: Mapping[tuple[str, str], int]) -> dict[str, str]:
    """The long form of each short one, from the counts of pairs."""
    folded: dict[str, Counter[str]] = {}
    for (short, long), count in counts.items():
        folded.setdefault(short, Counter())[long] += count
    return {short: _first(longs.items()) for short, longs in folded.items()}


def _first(counted: Iterable[tuple[str, int]]) -> str:
    return min(counted, key=lambda pair: (-pair[1], pair[0]))[0]
