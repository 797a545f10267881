"""`bench.limit`: at most so many questions of each subset, the same ones each time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from srrag.core.errors import UsageError
from srrag.lab.experiment.answers import read_gold


def test_of_each_subset_the_same_questions_are_kept_in_their_order(tmp_path: Path) -> None:
    for name, count in (("big", 40), ("small", 3)):
        rows = (
            {"id": n, "set": name, "question": f"{name} {n}?", "options": {"A": "x", "B": "y"},
             "answer": "A"}
            for n in range(count)
        )  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def kept(limit: object) -> list[str]:
        gold, faulty = read_gold({"subset": None, "limit": limit}, tmp_path)
        assert not faulty
        return [row["query_id"] for row in gold]

    every, few, fewer = kept(None), kept(10), kept(4)
    assert len(every) == 43
    assert [len([q for q in few if q.startswith(name)]) for name in ("big", "small")] == [10, 3]
    assert few == [query for query in every if query in few]
    assert {*fewer} < {*few} and few[:10] != every[:10]
    with pytest.raises(UsageError, match=r"bench\.limit=0: a whole number, at least 1"):
        kept(0)
