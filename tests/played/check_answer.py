"""Have a model check labelled sentences as CheckAnswer would, and count its errors by kind.

    python -m tests.played.check_answer DATA tune|held URL ROOT

DATA is a folder with `sentences.jsonl` (question, sentence, cited, label, kind). Its questions are
halved by the hash of their text. The sentences of a question come in prompts of at most eight, no
two of them alike, so that no prompt shows a true sentence beside its falsification. URL is an
OpenAI-compatible endpoint; one that keeps prompts in a file and waits for answers lets anybody play
the model. Answers are kept in the log of ROOT, what became of each sentence in ROOT/checked.jsonl.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.answer.support.check_answer import CheckAnswer
from srrag.core.schema import ANSWER, EVIDENCE, QUESTIONS, REJECT, empty_value, sentence_row
from srrag.core.spec import content_id
from srrag.core.step import Place
from srrag.engine.openai.engine import HttpEngine
from srrag.runner.engines import engines_here

Row = dict[str, Any]
HALVES = ("tune", "held")
MAX_SENTENCES = 8
ALIKE = 0.4
"""Share of the words of two sentences that both have, from which they come in different prompts."""


def read_half(data: Path, half: str) -> list[Row]:
    """The sentences of every other question, in the order of the hashes of questions."""
    rows = [json.loads(line) for line in (data / "sentences.jsonl").open(encoding="utf-8")]
    questions = sorted({row["question"] for row in rows}, key=_hashed)
    chosen = questions[HALVES.index(half) :: len(HALVES)]
    return [row for row in rows if row["question"] in chosen]


def grouped(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The sentences of each question in groups without two that are alike."""
    groups: dict[str, list[list[Row]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: _hashed(row["id"])):
        for group in groups[row["question"]]:
            if len(group) < MAX_SENTENCES and not any(_alike(row, each) for each in group):
                group.append(row)
                break
        else:
            groups[row["question"]].append([row])
    for each in groups.values():
        yield from each


def table_of(groups: Sequence[Sequence[Row]]) -> pa.Table:
    """A question a group, answered by its sentences."""
    fields = [field for field in QUESTIONS if field.name != "reject"]
    schema = pa.schema(
        [*fields, pa.field("evidence", EVIDENCE), *ANSWER, pa.field("reject", REJECT)]
    )
    blank = {field.name: empty_value(field.type) for field in schema} | {"reject": None}
    item = {field.name: empty_value(field.type) for field in EVIDENCE.value_type}
    rows = []
    for number, group in enumerate(groups):
        papers: dict[str, dict[str, None]] = defaultdict(dict)
        for window in (each for row in group for each in row["cited"]):
            papers[window["title"]][window["text"]] = None
        evidence = [
            item | {"evidence_id": content_id(title), "title": title, "text": "\n\n".join(texts)}
            for title, texts in papers.items()
        ]
        sentences = [sentence_row(row["sentence"], _cited(row), part="evidence") for row in group]
        told = {"query_id": str(number), "text": group[0]["question"], "state": "answered"}
        rows.append(blank | told | {"evidence": evidence, "sentences": sentences})
    return pa.Table.from_pylist(rows, schema=schema)


def counted(outcomes: Iterable[Row]) -> dict[str, dict[str, int]]:
    """How many sentences of each kind stand as written, are replaced, are left out or unjudged."""
    counts: dict[str, dict[str, int]] = {}
    for each in outcomes:
        kind = each["kind"] if each["label"] == "unsupported" else each["label"]
        names = [kind, "all false"] if each["label"] == "unsupported" else [kind]
        for name in names:
            row = counts.setdefault(name, dict.fromkeys(("sentences", *OUTCOMES), 0))
            row["sentences"] += 1
            row[each["outcome"]] += 1
    return counts


OUTCOMES = ("stands", "replaced", "left out", "unjudged")


def outcomes_of(groups: Sequence[Sequence[Row]], checked: pa.Table) -> Iterator[Row]:
    """What became of each sentence."""
    columns = checked.select(["unsupported", "reject"]).to_pylist()
    for group, row in zip(groups, columns, strict=True):
        found = {each["text"]: each for each in row["unsupported"]}
        for sentence in group:
            told = found.get(sentence["sentence"])
            outcome = "unjudged" if row["reject"] else "stands"
            if told:
                outcome = "replaced" if told["repaired"] else "left out"
            yield {**sentence, "outcome": outcome, **(told or {})}


def main(data: str, half: str, url: str, root: str) -> None:
    """Ask, and print the table."""
    groups = [*grouped(read_half(Path(data), half))]
    engine = HttpEngine(model="big", base_url=url, concurrency=200, timeout_s=7000.0, max_retries=0)
    step = CheckAnswer(engine=engine)
    at = Place(root=Path(root))
    with engines_here([engine], at) as engines:
        place = Place(root=Path(root), clients=engines.clients)
        checked = step.open(place)(table_of(groups))
    outcomes = [*outcomes_of(groups, checked)]
    with Path(root, "checked.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(each, ensure_ascii=False) + "\n" for each in outcomes)
    print(f"{half}, played: {len(groups)} prompts, {len(outcomes)} sentences")
    for kind, row in sorted(counted(outcomes).items()):
        print(f"{kind:12}", *(f"{name} {count:3}" for name, count in row.items()), sep="  ")


def _cited(row: Row) -> list[str]:
    """The papers that a sentence cites; the data cite windows."""
    return [*dict.fromkeys(content_id(each["title"]) for each in row["cited"])]


def _alike(one: Row, other: Row) -> bool:
    a, b = ({*each["sentence"].casefold().split()} for each in (one, other))
    return one["id"][:-1] == other["id"][:-1] or len(a & b) > ALIKE * len(a | b)


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    main(*sys.argv[1:])
