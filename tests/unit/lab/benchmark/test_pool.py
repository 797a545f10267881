from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.schema import HITS, REJECT, empty_value
from srrag.core.units import Units
from srrag.lab.benchmark.relations import POOLED, QUESTIONED
from srrag.lab.benchmark.sample import in_turn, pooled
from srrag.storage.store import Store

BLANK = {field.name: empty_value(field.type) for field in QUESTIONED} | {"reject": None}


def ranked(*rows: list[str] | None) -> pa.Table:
    """What a pipeline found for each question; None: it rejected the question."""
    fault = {"stage": "s", "reason": "crashed", "detail": "d"}
    hits = [
        [{"unit_id": name, "score": 1.0, "rank": n} for n, name in enumerate(row or [], 1)]
        for row in rows
    ]
    rejects = [fault if row is None else None for row in rows]
    return pa.table({"hits": pa.array(hits, HITS), "reject": pa.array(rejects, REJECT)})


def test_rankings_are_taken_in_turn() -> None:
    assert in_turn([["s"], ["a", "s", "b"], ["c"]], 9) == ["s", "a", "c", "b"]
    assert in_turn([["s"], ["a", "b"], ["c", "d"]], 4) == ["s", "a", "c", "b"]


def test_the_seeds_rank_in_the_baseline_says_main_or_challenge(sample_root: Path) -> None:
    units = Units(Store(sample_root).artifacts("default")["units"])
    names = units.units["unit_id"].to_pylist()[:6]
    seed, *others = names
    questions = pa.Table.from_pylist(
        [BLANK | {"query_id": f"q{n}", "unit_id": seed} for n in range(4)], schema=QUESTIONED
    )
    baseline = ranked([others[0], seed], [*others, seed], others, [seed])
    reranked = ranked(others, others, others, None)
    table = pooled(questions, units, baseline, [reranked], at=2, depth=4)
    assert table.schema.equals(POOLED)
    rows: list[dict[str, Any]] = table.to_pylist()
    assert [(row["track"], row["seed_rank"]) for row in rows[:3]] == [
        ("main", 2), ("challenge", 6), ("challenge", 0),
    ]  # fmt: skip
    assert rows[3]["reject"] == {"stage": "retrieval", "reason": "crashed", "detail": "d"}
    for row in rows[:3]:
        assert row["pool"][0]["unit_id"] == seed, "always a candidate"
        assert len(row["pool"]) == 4
    texts = dict(zip(names, units.take(names, ("text",))["text"].to_pylist(), strict=True))
    assert all(each["text"] == texts[each["unit_id"]] for each in rows[0]["pool"])
