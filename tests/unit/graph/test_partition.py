from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.core.schema import EDGES, ENTITIES, TRIPLES
from srrag.graph import entities
from srrag.graph.entities import (
    SIDES,
    group_ends,
    group_links,
    merge_parts,
    on_threads,
    split,
    ungroup,
    write_rows,
)
from srrag.graph.facts import ENDS, LINKS
from tests.forked import ANEW
from tests.unit.index.tables import REFUSED, hashed, row, write

PLACE = {"doc_id": "d", "unit_id": "u", "char_start": 0, "char_end": 1}


def ends(*names: str, entity_id: str = "e") -> pa.Table:
    rows = [{"entity_id": entity_id, "name": name, "type": "Drug", **PLACE} for name in names]
    return pa.Table.from_pylist(rows, schema=ENDS)


@pytest.mark.parametrize(
    ("forms", "name"),
    [
        (["Knee Brace", "knee brace", "Knee Brace"], "Knee Brace"),
        (["knee  brace", "Knee brace"], "Knee brace"),
        (["knee brace", "Knee brace"], "Knee brace"),
        (["ba", "c", "ab", "ba", "ab"], "ab"),
    ],
)
def test_the_name_is_the_commonest_then_the_shortest_then_the_first(
    forms: list[str], name: str
) -> None:
    assert group_ends(ends(*forms))["name"].to_pylist() == [name]
    assert group_ends(ends(*forms[::-1]))["name"].to_pylist() == [name]


def test_each_mention_keeps_its_form_and_place() -> None:
    table = group_ends(ends("B", "a"))
    assert table["mentions"].to_pylist() == [
        [{"name": "B", **PLACE}, {"name": "a", **PLACE}],
    ]


def test_no_mention_is_an_empty_table() -> None:
    assert group_ends(ENDS.empty_table()).equals(ENTITIES.empty_table())
    assert group_links(LINKS.empty_table()).equals(EDGES.empty_table())


IDS = st.sampled_from("abcd")
SPOT = st.tuples(IDS, st.sampled_from("xyz"), st.sampled_from("uv"), st.integers(0, 3))
ENDS_OF = st.lists(st.tuples(SPOT, st.sampled_from(["Aa", "aa", "a a"])), max_size=12)
LINKS_OF = st.lists(st.tuples(SPOT, st.sampled_from([0.25, 0.5])), max_size=12)


def places(spot: tuple[str, str, str, int]) -> dict[str, object]:
    _, document, unit, start = spot
    return {"doc_id": document, "unit_id": unit, "char_start": start, "char_end": start + 1}


@settings(deadline=None)
@given(rows=ENDS_OF, cut=st.integers(0, 12), seed=st.integers(0, 9))
def test_grouping_entities_again_with_more_is_grouping_all_at_once(
    rows: list[tuple[tuple[str, str, str, int], str]], cut: int, seed: int
) -> None:
    made = [
        {"entity_id": spot[0], "name": name, "type": f"type {spot[0]}", **places(spot)}
        for spot, name in rows
    ]
    whole = group_ends(pa.Table.from_pylist(made, schema=ENDS))
    random.Random(seed).shuffle(made)
    first = group_ends(pa.Table.from_pylist(made[:cut], schema=ENDS))
    rest = pa.Table.from_pylist(made[cut:], schema=ENDS)
    assert group_ends(pa.concat_tables([rest, ungroup(first, ENDS)])).equals(whole)
    assert whole["entity_id"].to_pylist() == sorted({spot[0] for spot, _ in rows})
    assert len(ungroup(whole, ENDS)) == len(rows)


@settings(deadline=None)
@given(rows=LINKS_OF, cut=st.integers(0, 12), seed=st.integers(0, 9))
def test_grouping_edges_again_with_more_is_grouping_all_at_once(
    rows: list[tuple[tuple[str, str, str, int], float]], cut: int, seed: int
) -> None:
    made = [
        {"edge_id": spot[0], "kind": "relation", "head_id": f"h{spot[0]}", "relation": "r",
         "tail_id": f"t{spot[0]}", "confidence": confidence, **places(spot)}
        for spot, confidence in rows
    ]  # fmt: skip
    whole = group_links(pa.Table.from_pylist(made, schema=LINKS))
    random.Random(seed).shuffle(made)
    first = group_links(pa.Table.from_pylist(made[:cut], schema=LINKS))
    rest = pa.Table.from_pylist(made[cut:], schema=LINKS)
    assert group_links(pa.concat_tables([rest, ungroup(first, LINKS)])).equals(whole)
    for edge in whole.to_pylist():
        assert edge["confidence"] == max(m["confidence"] for m in edge["mentions"])


def rows_of(number: int, seed: int) -> list[dict[str, object]]:
    draw = random.Random(seed)
    return [
        row(
            TRIPLES, kind=draw.choice(["relation", "attribute"]), relation="treats",
            head=draw.choice(["Brace", "brace", f"drug {n % 40}"]), head_type="Intervention",
            tail=f"pain {draw.randrange(50)}", tail_type="Outcome", doc_id=f"d{n // 9}",
            unit_id=f"u{n // 3}", char_start=n % 3, char_end=n % 3 + 4,
            confidence=draw.choice([0.25, 0.5]), reject=REFUSED if n % 17 == 0 else None,
        )
        for n in range(number)
    ]  # fmt: skip


@settings(deadline=None)
@given(names=st.lists(st.integers()), buckets=st.integers(1, 300))
def test_buckets_hold_every_row_once_and_are_in_the_order_of_ids(
    names: list[int], buckets: int
) -> None:
    ids = [hashed(name) for name in names]
    table = pa.table({"id": pa.array(ids, pa.string()), "row": pa.array(range(len(ids)))})
    pieces = [piece.to_pylist() for piece in split(table, "id", buckets)]
    assert len(pieces) == buckets
    assert sorted(r["row"] for piece in pieces for r in piece) == list(range(len(ids)))
    ends = [(min(r["id"] for r in p), max(r["id"] for r in p)) for p in pieces if p]
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(ends))


@pytest.mark.slow
@pytest.mark.parametrize(("bucket_facts", "threads"), [(10_000, 2), (40, 1), (7, 3), (1, 2)])
def test_the_files_are_the_same_for_any_number_of_buckets_workers_and_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bucket_facts: int, threads: int
) -> None:
    rows = rows_of(160, seed=1)
    monkeypatch.setattr(entities, "_GROUP_ROWS", 32)
    monkeypatch.setattr(entities, "_SPILL_FACTS", 60)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    whole = write(rows, TRIPLES, tmp_path / "whole.parquet")
    one = on_threads(1)
    _, counts = merge_parts([whole], tmp_path / "one", bucket_facts=500, workers=1, spread=one)
    random.Random(2).shuffle(rows)
    parts = [
        write(rows[at::7], TRIPLES, tmp_path / f"part-{at}.parquet") for at in (3, 0, 6, 1, 5, 2, 4)
    ]
    sources, again = merge_parts(
        parts, tmp_path / "two",
        bucket_facts=bucket_facts, workers=threads, spread=on_threads(threads),
    )  # fmt: skip
    assert again == counts
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == [
        "edges.parquet",
        "entities.parquet",
    ]
    for name in SIDES:
        file = f"{name}.parquet"
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert sum(sources["facts"].to_pylist()) == sum(r["reject"] is None for r in rows)


def test_row_groups_have_one_size_and_say_which_ids_they_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entities, "_GROUP_ROWS", 4)
    keys = sorted(hashed(n) for n in range(10))
    blank = [row(SIDES["entities"].rows, entity_id=key) for key in keys]
    for each in blank:
        del each["reject"]
    table = pa.Table.from_pylist(blank, schema=SIDES["entities"].rows)
    path = tmp_path / "entities.parquet"
    assert write_rows(path, [table.slice(0, 3), table.slice(3)], "entities") == 10
    groups = [pq.read_metadata(path).row_group(at) for at in range(3)]
    assert [group.num_rows for group in groups] == [4, 4, 2]
    assert [group.column(0).statistics.max for group in groups] == [keys[3], keys[7], keys[9]]
    assert pq.read_table(path).equals(table)


@pytest.mark.slow
def test_the_work_may_be_done_in_other_processes(tmp_path: Path) -> None:
    part = write(rows_of(100, seed=3), TRIPLES, tmp_path / "part.parquet")

    def spread(call: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        with ProcessPoolExecutor(2, mp_context=ANEW) as pool:
            return list(pool.map(call, items))

    for name, way in (("here", on_threads(1)), ("there", spread)):
        (tmp_path / name).mkdir()
        merge_parts([part], tmp_path / name, bucket_facts=20, workers=2, spread=way)
    for name in SIDES:
        file = f"{name}.parquet"
        assert (tmp_path / "here" / file).read_bytes() == (tmp_path / "there" / file).read_bytes()
