"""Training and validation questions that share no gold document (SR-RAG, sections 2.2 and 4.4)."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from srrag.core.ids import content_id

TRAIN, VALIDATION, LEFT_OUT = "train", "validation", "none"


@dataclass(frozen=True)
class Split:
    """The side of each question, and the effects of the guard against leaks.

    `moved` questions are on another side than chance alone would put them; `left_out` ones are on
    neither side, since they share a document with both.
    """

    sides: Mapping[str, str]
    moved: int
    left_out: int

    def sizes(self) -> dict[str, int]:
        """The number of questions on each side."""
        counts = Counter(self.sides.values())
        return {side: counts[side] for side in (TRAIN, VALIDATION, LEFT_OUT)}


def split_questions(documents: Mapping[str, Sequence[str]], share: float, seed: int = 0) -> Split:
    """Split questions by their gold documents, so that no document is on both sides.

    Groups connected by documents stay together. In an order drawn with the seed they go to
    validation while it has room for them, up to `share` of all questions. The rest of `share` is
    cut out of groups that were too large: a neighbourhood grown from a drawn question. Questions
    that share a document with such a cut but did not fit in are left out of both sides.
    """
    order = sorted(documents, key=lambda query: content_id(str(seed), query))
    room = round(share * len(order))
    by_chance = set(order[:room])
    neighbours = _neighbours({query: sorted(set(documents[query])) for query in order})
    validation: set[str] = set()
    left_out: set[str] = set()
    large = []
    for group in _groups(order, neighbours):
        if len(group) <= room - len(validation):
            validation.update(group)
        else:
            large.append(group)
    for group in large:
        cut, border = _cut(group, room - len(validation), neighbours)
        validation |= cut
        left_out |= border
    sides = {
        query: VALIDATION if query in validation else LEFT_OUT if query in left_out else TRAIN
        for query in documents
    }
    moved = sum(
        side != (VALIDATION if query in by_chance else TRAIN)
        for query, side in sides.items()
        if side != LEFT_OUT
    )
    return Split(sides, moved, len(left_out))


def shared_documents(documents: Mapping[str, Sequence[str]], sides: Mapping[str, str]) -> list[str]:
    """Return the gold documents on both sides; empty if the guard works."""
    held: dict[str, set[str]] = {TRAIN: set(), VALIDATION: set(), LEFT_OUT: set()}
    for query, names in documents.items():
        held[sides[query]].update(names)
    return sorted(held[TRAIN] & held[VALIDATION])


def _cut(
    group: Sequence[str], most: int, neighbours: Mapping[str, Sequence[str]]
) -> tuple[set[str], set[str]]:
    """Cut a connected beginning off a group; return it and the questions that share a document.

    Tries `most` questions, half of that, …, and takes the first cut that leaves out no more
    questions than remain for training. The cut is empty if none does, as when one document is gold
    of all.
    """
    while most > 0:
        cut = set(group[:most])
        border = {near for query in cut for near in neighbours[query]} - cut
        if len(border) <= len(group) - len(cut) - len(border):
            return cut, border
        most //= 2
    return set(), set()


def _neighbours(documents: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the questions that share a document with each, by document, then in input order."""
    holders: dict[str, list[str]] = defaultdict(list)
    for query, names in documents.items():
        for name in names:
            holders[name].append(query)
    return {
        query: list(dict.fromkeys(q for name in names for q in holders[name] if q != query))
        for query, names in documents.items()
    }


def _groups(order: Sequence[str], neighbours: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the connected components, each breadth-first from its first question."""
    groups: list[list[str]] = []
    seen: set[str] = set()
    for start in order:
        if start in seen:
            continue
        seen.add(start)
        group, waiting = [], deque([start])
        while waiting:
            group.append(query := waiting.popleft())
            new = [near for near in neighbours[query] if near not in seen]
            seen.update(new)
            waiting.extend(new)
        groups.append(group)
    return groups
