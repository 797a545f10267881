from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.core.schema import HITS, REJECT, empty_value
from srrag.core.spec import content_id
from srrag.core.standing import Standings
from srrag.core.units import Units
from srrag.lab.benchmark.sample import (
    POOLED,
    QUESTIONED,
    SEEDS,
    SampleSeeds,
    by_turns,
    in_turn,
    pooled,
    unfit_papers,
)
from srrag.storage.store import Store


def shares(sizes: dict[tuple[str, ...], int], total: int) -> dict[tuple[str, ...], int]:
    """How many of each stratum stand among the first."""
    named = {key: [f"{key} {n}" for n in range(size)] for key, size in sizes.items()}
    first = set(by_turns(named)[:total])
    return {key: len(first.intersection(names)) for key, names in named.items()}


def test_shares_are_equal_and_small_groups_are_filled_up() -> None:
    assert [*shares({("a",): 10, ("b",): 2, ("c",): 10}, 12).values()] == [5, 2, 5]
    assert [*shares({("a",): 10, ("b",): 10, ("c",): 10}, 11).values()] == [4, 4, 3]
    assert [*shares({("a",): 1, ("b",): 1}, 9).values()] == [1, 1]
    assert shares({}, 3) == {}


def test_what_a_condition_lacks_goes_to_the_others_of_its_grade() -> None:
    sizes = {("A", "AT"): 1, ("A", "LBP"): 9, ("B", "AT"): 9}
    assert shares(sizes, 10) == {("A", "AT"): 1, ("A", "LBP"): 4, ("B", "AT"): 5}
    assert shares({(): 9}, 4) == {(): 4}


def test_the_sample_corpus_is_drawn_by_grade_and_condition(sample_root: Path) -> None:
    units = Units(Store(sample_root).artifacts("default")["units"])
    table = SampleSeeds(windows=55).draw(units)
    assert table.schema.equals(SEEDS)
    assert Counter(table["grade"].to_pylist()) == dict.fromkeys("ABCDE", 11)
    rows = table.to_pylist()
    by_cell = Counter((row["grade"], row["condition"]) for row in rows)
    assert max(by_cell.values()) <= 2, "as many of each condition as there are to have"
    assert table.equals(SampleSeeds(windows=55).draw(units))
    other = SampleSeeds(windows=55, seed=1).draw(units)
    assert {row["unit_id"] for row in rows} != set(other["unit_id"].to_pylist())


@pytest.mark.parametrize(
    "changed",
    [{}, {"per_document": None}, {"strata": ("condition", "grade")}, {"strata": (), "windows": 7}],
)
def test_the_hash_of_id_and_seed_orders_the_windows(
    sample_root: Path, changed: dict[str, Any]
) -> None:
    """As they are drawn one by one."""
    units = Units(Store(sample_root).artifacts("default")["units"])
    sample = SampleSeeds(**{"windows": 90, "per_document": 2, "seed": 3} | changed)
    documents = units.documents.select(["doc_id", "condition"]).to_pydict()
    conditions = dict(zip(documents["doc_id"], documents["condition"], strict=True))
    rows = units.units.select(["unit_id", "doc_id", "grade"]).to_pylist()
    taken: Counter[str] = Counter()
    strata: dict[tuple[str, ...], list[str]] = {}
    for row in sorted(rows, key=lambda row: content_id("3", row["unit_id"])):
        taken[row["doc_id"]] += 1
        if sample.per_document is None or taken[row["doc_id"]] <= sample.per_document:
            known = row | {"condition": conditions[row["doc_id"]]}
            strata.setdefault(tuple(known[n] for n in sample.strata), []).append(row["unit_id"])
    drawn = sample.draw(units)["unit_id"].to_pylist()
    assert sorted(drawn) == sorted(by_turns(strata)[: sample.windows])


def test_a_document_gives_no_more_than_it_may(sample_root: Path) -> None:
    units = Units(Store(sample_root).artifacts("default")["units"])
    table = SampleSeeds(windows=1000, per_document=1, strata=()).draw(units)
    assert set(Counter(table["doc_id"].to_pylist()).values()) == {1}
    assert table.num_rows == units.documents.num_rows
    assert SampleSeeds(windows=1000, per_document=None).draw(units).num_rows == len(units)


def test_nothing_rests_on_a_retracted_paper_a_copy_or_a_notice() -> None:
    said = ["retracted", "copy", "deleted", "superseded", "concern", "corrected", "preprint"]
    said += ["retraction_notice", "concern_notice", "correction_notice"]
    (standings := Standings(None)).known = True
    standings.table = pa.table({"doc_id": said, "standing": said})
    assert unfit_papers(standings).keys() == {*said} - {"concern", "corrected", "preprint"}
    assert unfit_papers(Standings(None)) == {}


def test_no_seed_is_drawn_from_an_unfit_document(sample_root: Path) -> None:
    units = Units(Store(sample_root).artifacts("default")["units"])
    drawn = SampleSeeds(windows=55).draw(units)["doc_id"].to_pylist()
    table = SampleSeeds(windows=55).draw(units, {drawn[0]: "retracted"})
    assert table.num_rows == 55 and drawn[0] not in table["doc_id"].to_pylist()


@pytest.mark.parametrize(
    ("values", "named"),
    [({"windows": 0}, "windows=0"), ({"strata": ("year",)}, "year"), ({"per_document": 0}, "per_")],
)
def test_a_sample_that_cannot_be_drawn_is_refused(values: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        SampleSeeds(**values)  # type: ignore[arg-type]


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


def test_windows_of_an_unfit_document_are_no_candidates(sample_root: Path) -> None:
    """The seed stands, and the next of the ranking takes the place."""
    units = Units(Store(sample_root).artifacts("default")["units"])
    first = units.units.select(["unit_id", "doc_id"]).to_pylist()
    by_document = {row["doc_id"]: row["unit_id"] for row in first}
    (seed, bad, *others), (_, retracted, *_) = (
        [*each][:5] for each in (by_document.values(), by_document)
    )
    questions = pa.Table.from_pylist(
        [BLANK | {"query_id": "q", "unit_id": seed}], schema=QUESTIONED
    )
    found = ranked([bad, seed, *others])
    table = pooled(questions, units, found, [found], at=2, depth=3, unfit={retracted})
    (row,) = table.to_pylist()
    assert [each["unit_id"] for each in row["pool"]] == [seed, *others[:2]]
    assert row["seed_rank"] == 2, "as the baseline ranks it"
