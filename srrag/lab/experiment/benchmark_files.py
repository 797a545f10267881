"""The files of a benchmark: questions, splits, the public copy, review sheets, dropped rows."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.errors import UsageError, reading
from srrag.core.formats import write_lines
from srrag.core.rows import Row
from srrag.core.schema import REJECTS
from srrag.core.spec import content_id
from srrag.lab.benchmark.release import composition, public_row, read_public, rebuilt
from srrag.lab.benchmark.review import review_rows, unfilled, write_sheet
from srrag.lab.benchmark.sample import CHALLENGE
from srrag.runner.part import live
from srrag.runner.progress import say
from srrag.storage import mirror
from srrag.storage.atomic_write import commit, write_parquet
from srrag.storage.store import Store

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


@dataclass(frozen=True)
class Release:
    """Where a benchmark is written, and how it is split and published.

    `validation_share` of the questions are for validation; `copied_words` is the longest run of
    words that a public text may copy (None: any length).
    """

    out: Path
    validation_share: float
    copied_words: int | None
    seed: int

    def __post_init__(self) -> None:
        """Raise UsageError that names the setting."""
        share, most = self.validation_share, self.copied_words
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
            raise UsageError(f"validation_share={share} is not in 0…1")
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise UsageError(f"copied_words={most}: a whole number above 0, or null")


def write(
    release: Release,
    questions: Sequence[Row],
    texts: Mapping[str, Sequence[str]],
    dropped: Sequence[Row],
    marks: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Write the benchmark files; `texts` are each question's windows, the seed first.

    `marks` say the standing of papers that are not in order, by the corpus's id.
    Raises ValueError if no question is left, and then keeps the former files.
    """
    out = release.out
    rejects = pa.Table.from_pylist(dropped, schema=REJECTS)
    commit(out / "rejects.parquet", lambda path: write_parquet(rejects, path))
    if not questions:
        reasons = dict(Counter(row["reason"] for row in dropped).most_common())
        raise ValueError(f"no question is left of the sample: {reasons}; {out}/rejects.parquet")
    official = [row for row in questions if row["track"] != CHALLENGE or _accepted(row)]
    waiting = [row for row in questions if row["track"] == CHALLENGE and not _accepted(row)]
    documents = {row["query_id"]: [g["doc_id"] for g in row["gold"]] for row in official}
    split = split_questions(documents, release.validation_share, release.seed)
    official = [{**row, "split": split.sides[row["query_id"]]} for row in official]
    open_ = [row for row in questions if not row["review"]["decision"]]
    review = review_rows(open_, {name: windows[0] for name, windows in texts.items()}, marks)
    withheld: Counter[str] = Counter()
    public = []
    for row in official:
        line, missing = public_row(row, texts[row["query_id"]], release.copied_words)
        withheld.update(missing)
        public += [line] if line else []
    for name, rows in (
        ("benchmark", official),
        ("train", [row for row in official if row["split"] == TRAIN]),
        ("validation", [row for row in official if row["split"] == VALIDATION]),
        ("challenge", waiting),
        ("public", public),
    ):
        write_lines(out / f"{name}.jsonl", rows)
    # What reviewers filled in stands nowhere else, so that it is never replaced.
    write_lines(unfilled(out / "review.jsonl"), review)
    commit(sheet := unfilled(out / "review.xlsx"), lambda path: write_sheet(path, review))
    return {
        "questions": len(official),
        "challenge_waiting": len(waiting),
        "to_review": len(review),
        "review": str(sheet),
        **composition(official),
        "split": {
            **split.sizes(),
            "moved": split.moved,
            "left_out": split.left_out,
            "shared_documents": len(shared_documents(documents, split.sides)),
        },
        "public": {"questions": len(public), "withheld": dict(withheld.most_common())},
    }


def rebuild(path: Path, store: Store, build: str, out: Path) -> dict[str, Any]:
    """Restore the quotes of a public benchmark from the documents of a root.

    It is not written over a benchmark that was made of a root, which holds more.
    """
    if not path.is_file():
        raise UsageError(f"rebuild={path} is not a file")
    if mirror.exists(out / "rejects.parquet") and mirror.exists(out / "benchmark.jsonl"):
        raise UsageError(f"out={out} holds a benchmark that was made here; give another out=")
    with reading(path):
        rows = read_public(path)
    wanted = {each["doc"] for row in rows for each in row["gold"]}
    found, lost = rebuilt(rows, _texts(store, build, wanted))
    if not found:
        raise ValueError(f"rebuild={path}: no gold of it is in root={store.root}: {dict(lost)}")
    write_lines(out / "benchmark.jsonl", found)
    for side in (TRAIN, VALIDATION):
        write_lines(out / f"{side}.jsonl", (row for row in found if row.get("split") == side))
    say(f"{len(found)} of {len(rows)} questions → {out}/benchmark.jsonl")
    return {"questions": len(found), "of": len(rows), "lost": dict(lost), "out": str(out)}


def _texts(store: Store, build: str, wanted: set[str]) -> dict[str, str]:
    """Return the cleaned texts of documents by their id in the corpus."""
    entry = store.read_pointer(build)["stages"]["documents"]
    texts: dict[str, str] = {}
    for part in entry["parts"]:
        columns = ["source_id", "text", "reject"]
        table = live(store.read_part("documents", entry["fingerprint"], part, columns))
        table = table.filter(pc.is_in(table["source_id"], pa.array(sorted(wanted), pa.string())))
        texts |= zip(table["source_id"].to_pylist(), table["text"].to_pylist(), strict=True)
    return texts


def _accepted(row: Row) -> bool:
    """Whether a reviewer accepted a question, revised or not."""
    return bool(row["review"]["decision"])


def report(summary: Mapping[str, Any]) -> str:
    """Format the summary for a terminal."""
    gold, split = summary["gold_windows"], summary["split"]
    lines = [
        f"{summary['sampled']} windows sampled, {summary['dense']} dense, "
        f"{summary['written']} questions written by {summary['model']}: "
        f"{summary['main']} main, {summary['challenge']} challenge",
        f"{summary['with_gold']} have gold windows, {summary['with_answers']} answers; "
        f"{summary['questions']} are in the benchmark, "
        f"{summary['challenge_waiting']} challenge questions wait for a reviewer",
        f"gold windows a question: {gold['mean']} (median {gold['median']}, most {gold['most']})",
        f"split: {split['train']} train, {split['validation']} validation; to share no gold "
        f"document {split['moved']} were moved, {split['left_out']} stand on neither side",
        f"to review: {summary['to_review']} questions → {summary['review']}",
        f"public: {summary['public']['questions']} questions; "
        f"withheld {summary['public']['withheld'] or 'nothing'}",
    ]
    for name in ("by_grade", "by_condition", "by_certainty"):
        counts = ", ".join(f"{key or 'none'} {count}" for key, count in summary[name].items())
        lines.append(f"{name.replace('_', ' ')}: {counts}")
    for stage, reasons in summary["dropped"].items():
        counts = ", ".join(f"{reason} {count}" for reason, count in reasons.items())
        lines.append(f"dropped at {stage}: {counts}")
    return "\n".join(lines)
