"""The terms of a vocabulary that a document is about, among all terms in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from srrag.algo.abbreviations import abbreviations
from srrag.reading.vocabulary import Matcher, Term


def salient_terms(title: str, sections: Sequence[str], matcher: Matcher) -> list[Term]:
    """Terms named in the title or the first section, twice, or by several words; by name.

    An abbreviation counts as the term of its long form in the document.
    """
    text = "\n".join(sections)
    counts = Counter(match.term for match in matcher.find(text))
    for short, long in abbreviations(text):
        for match in matcher.find(long):
            counts[match.term] += text.count(short) - 1
    first = {match.term for match in matcher.find(f"{title}\n{sections[0] if sections else ''}")}
    kept = {term for term, n in counts.items() if n >= 2 or " " in term.name}
    return sorted(first | kept)
