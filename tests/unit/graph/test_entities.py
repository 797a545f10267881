from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srrag.core.schema import EDGES, ENTITIES, TRIPLES
from srrag.core.step import Place, PreviousVersion
from srrag.graph import entities
from srrag.graph.entities import SIDES, MergeEntities, group_ends, revised, write_rows
from srrag.graph.facts import ENDS
from tests.unit.index.tables import REFUSED, row, write


def fact(number: int, head: str, relation: str, tail: str, **values: object) -> dict[str, object]:
    """A fact whose place in its document is its number."""
    defaults = {
        "fact_id": f"f{number:04d}", "doc_id": f"d{number % 3}", "unit_id": f"u{number}",
        "kind": "relation", "head": head, "head_type": "Intervention", "relation": relation,
        "tail": tail, "tail_type": "Outcome", "char_start": number, "char_end": number + 5,
        "confidence": 0.5,
    }  # fmt: skip
    return row(TRIPLES, **{**defaults, **values})


def merged(folder: Path, *parts: list[dict[str, object]]) -> tuple[pa.Table, pa.Table]:
    folder.mkdir()
    paths = [write(rows, TRIPLES, folder / f"{n}.parquet") for n, rows in enumerate(parts)]
    figures = MergeEntities().build({"triples": paths}, folder, Place())
    entities = pq.read_table(folder / "entities.parquet")
    edges = pq.read_table(folder / "edges.parquet")
    assert entities.schema.equals(ENTITIES)
    assert edges.schema.equals(EDGES)
    assert figures["entities"] == entities.num_rows
    assert figures["edges"] == edges.num_rows
    return entities, edges


def units_of(rows: list[dict[str, Any]], **wanted: str) -> list[str]:
    """Units of the mentions of the one row with these values."""
    (found,) = [r for r in rows if all(r[key] == value for key, value in wanted.items())]
    return [mention["unit_id"] for mention in found["mentions"]]


def test_names_that_differ_in_case_width_and_blanks_are_one_entity(tmp_path: Path) -> None:
    entities, edges = merged(
        tmp_path / "m",
        [
            fact(1, "Knee brace", "reduces", "pain"),
            fact(2, "KNEE  brace.", "reduces", "Pain"),
            fact(3, "ｋｎｅｅ brace", "improves", "gait", confidence=0.9),
        ],
    )
    rows = entities.to_pylist()
    assert sorted(r["name"] for r in rows) == ["Knee brace", "Pain", "gait"]
    assert units_of(rows, name="Knee brace") == ["u3", "u1", "u2"]  # by document
    assert units_of(rows, name="Pain") == ["u1", "u2"]
    assert units_of(edges.to_pylist(), relation="reduces") == ["u1", "u2"]
    assert rows[0]["entity_id"] < rows[1]["entity_id"] < rows[2]["entity_id"]


def test_an_edge_has_the_best_confidence_of_its_mentions(tmp_path: Path) -> None:
    _, edges = merged(
        tmp_path / "m",
        [
            fact(1, "brace", "reduces", "pain", confidence=0.25),
            fact(2, "brace", "reduces", "pain", confidence=0.75),
        ],
        [fact(3, "brace", "reduces", "pain", confidence=0.5)],
    )
    assert edges["confidence"].to_pylist() == [0.75]


def test_the_same_name_of_two_types_is_two_entities(tmp_path: Path) -> None:
    entities, _ = merged(
        tmp_path / "m", [fact(1, "exercise", "improves", "exercise", tail_type="Outcome")]
    )
    assert sorted(entities["type"].to_pylist()) == ["Intervention", "Outcome"]


def test_attributes_of_two_entities_never_fuse(tmp_path: Path) -> None:
    dose = {"kind": "attribute", "tail_type": "Dosage"}
    entities, edges = merged(
        tmp_path / "m",
        [
            fact(1, "aspirin", "has_dosage", "100 mg", **dose),
            fact(2, "ibuprofen", "has_dosage", "100 mg", **dose),
            fact(3, "Aspirin", "has_dosage", "100  MG", **dose),
        ],
    )
    doses = [r for r in entities.to_pylist() if r["type"] == "Dosage"]
    assert len(doses) == 2
    assert sorted(len(r["mentions"]) for r in doses) == [1, 2]
    assert edges.num_rows == 2
    assert set(edges["tail_id"].to_pylist()) == {r["entity_id"] for r in doses}


def test_an_attribute_is_no_entity_of_that_name(tmp_path: Path) -> None:
    entities, _ = merged(
        tmp_path / "m",
        [
            fact(1, "rest", "improves", "pain"),
            fact(2, "rest", "has", "pain", kind="attribute"),
        ],
    )
    assert sorted(entities["name"].to_pylist()) == ["pain", "pain", "rest"]


def test_rejected_facts_are_left_out(tmp_path: Path) -> None:
    entities, edges = merged(
        tmp_path / "m",
        [fact(1, "a", "r", "b"), {**fact(2, "c", "r", "d"), "reject": REFUSED}],
    )
    assert sorted(entities["name"].to_pylist()) == ["a", "b"]
    assert edges.num_rows == 1


def test_no_fact_is_an_empty_graph(tmp_path: Path) -> None:
    entities, edges = merged(tmp_path / "m", [])
    assert entities.num_rows == edges.num_rows == 0


NAMES = st.sampled_from(["knee", "Knee", "KNEE ", "hip", "Hip.", "ankle  joint", "ankle joint"])
FACTS = st.lists(
    st.tuples(
        NAMES,
        st.sampled_from(["treats", "causes"]),
        NAMES,
        st.sampled_from(["relation", "attribute"]),
        st.sampled_from([0.25, 0.5, 1.0]),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(rows=FACTS, seed=st.randoms(use_true_random=False), cut=st.integers(0, 12))
def test_neither_order_nor_parts_matter_and_no_mention_is_lost(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], seed: Any, cut: int
) -> None:
    facts = [
        fact(n, head, relation, tail, kind=kind, confidence=confidence)
        for n, (head, relation, tail, kind, confidence) in enumerate(rows)
    ]
    folder = tmp_path_factory.mktemp("merge")
    entities, edges = merged(folder / "one", facts)
    mixed = list(facts)
    seed.shuffle(mixed)
    again = merged(folder / "two", mixed[:cut], [], mixed[cut:])
    assert entities.equals(again[0])
    assert edges.equals(again[1])
    heads_and_tails = [m["unit_id"] for r in entities.to_pylist() for m in r["mentions"]]
    assert sorted(heads_and_tails) == sorted(2 * [str(f["unit_id"]) for f in facts])
    of_edges = [m["unit_id"] for r in edges.to_pylist() for m in r["mentions"]]
    assert sorted(of_edges) == sorted(str(f["unit_id"]) for f in facts)
    ends = set(edges["head_id"].to_pylist()) | set(edges["tail_id"].to_pylist())
    assert ends == set(entities["entity_id"].to_pylist())


def test_an_entity_named_alone_is_a_node_without_edges(tmp_path: Path) -> None:
    alone = {"kind": "entity", "tail_type": ""}
    entities, edges = merged(
        tmp_path / "m", [fact(1, "brace", "reduces", "pain"), fact(2, "splint", "", "", **alone)]
    )
    assert units_of(entities.to_pylist(), name="splint") == ["u2"]
    assert (entities.num_rows, edges.num_rows) == (3, 1)


HASHES = """
import sys
from pathlib import Path
from srrag.core.spec import file_sha256
from srrag.graph.entities import MergeEntities
from srrag.core.step import Place, PreviousVersion
out = Path(sys.argv[2])
MergeEntities().build({"triples": [Path(sys.argv[1])]}, out, Place())
print(*(file_sha256(path) for path in sorted(out.iterdir())))
"""


@pytest.mark.slow
def test_the_files_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    part = write(
        [fact(n, f"Drug {n % 7}", f"r{n % 3}", f"Outcome {n % 5}") for n in range(60)],
        TRIPLES,
        tmp_path / "part.parquet",
    )
    found = set()
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        command = [sys.executable, "-c", HASHES, str(part), str(tmp_path / seed)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        found.add(subprocess.check_output(command, env=environment, text=True))
    assert len(found) == 1
    assert len(found.pop().split()) == 3


SOME = [
    [fact(n, f"Drug {n % 5}", "treats", f"Pain {n % 3}", doc_id=f"d{n // 4}") for n in numbers]
    for numbers in (range(0, 12), range(12, 20), range(20, 28), range(28, 40))
]


@settings(max_examples=25, deadline=None)
@given(
    before=st.sets(st.integers(0, 3), min_size=1),
    after=st.sets(st.integers(0, 3), min_size=1),
    case=st.randoms(use_true_random=False),
)
def test_an_update_writes_the_files_of_a_build_anew(
    tmp_path_factory: pytest.TempPathFactory, before: set[int], after: set[int], case: Any
) -> None:
    folder = tmp_path_factory.mktemp("update")
    parts = []
    for number, rows in enumerate(SOME):
        varied = [
            {**r, "head": case.choice([str(r["head"]), str(r["head"]).upper()]),
             "confidence": case.choice([0.25, 0.5, 1.0])}
            for r in rows
        ]  # fmt: skip
        parts.append(write(varied, TRIPLES, folder / f"part-{number}.parquet"))
    figures = {}
    for name, chosen in (("old", before), ("anew", after)):
        (folder / name).mkdir()
        inputs = {"triples": [parts[n] for n in sorted(chosen)]}
        figures[name] = MergeEntities().build(inputs, folder / name, Place())
    former = PreviousVersion(folder / "old", frozenset(parts[n] for n in before & after))
    (folder / "new").mkdir()
    figures["new"] = MergeEntities().update(inputs, folder / "new", Place(), former)
    assert figures["new"] == figures["anew"]
    for file in ("entities.parquet", "edges.parquet", "sources.parquet"):
        assert (folder / "new" / file).read_bytes() == (folder / "anew" / file).read_bytes()


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=7))
def test_any_updates_in_succession_are_one_merge_and_leave_no_trace(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bool]]
) -> None:
    """Each step adds a part of some facts, and may lose the part before it."""
    folder = tmp_path_factory.mktemp("updates")
    now = [write([fact(0, "Drug 0", "treats", "Pain")] * 30, TRIPLES, folder / "part-0.parquet")]
    old = folder / "0"
    old.mkdir()
    MergeEntities().build({"triples": now}, old, Place())
    for number, (size, loses) in enumerate(steps, 1):
        rows = [
            fact(n, f"{'drug' if n % 2 else 'Drug'} {n % 3}", "treats", f"Pain {number * n % 5}",
                 doc_id=f"document-{number}")
            for n in range(size)
        ]  # fmt: skip
        kept = now[:-1] if loses and len(now) > 1 else list(now)
        gone = {path.stem.partition("-")[2] for path in now if path not in kept}
        now = [*kept, write(rows, TRIPLES, folder / f"part-{number}.parquet")]
        new, anew = folder / str(number), folder / f"anew-{number}"
        new.mkdir()
        anew.mkdir()
        former = PreviousVersion(old, frozenset(kept))
        figures = MergeEntities().update({"triples": now}, new, Place(), former)
        assert figures == MergeEntities().build({"triples": now}, anew, Place())
        for file in ("entities.parquet", "edges.parquet", "sources.parquet"):
            assert (new / file).read_bytes() == (anew / file).read_bytes()
        tables = [pq.read_table(path).to_pylist() for path in new.glob("*.parquet")]
        assert not any(f"'document-{each}'" in str(tables) for each in gone)
        old = new


def test_a_part_made_again_under_its_name_is_read_again(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    part = write([fact(1, "brace", "reduces", "pain")], TRIPLES, tmp_path / "part-1.parquet")
    MergeEntities().build({"triples": [part]}, old, Place())
    write([fact(1, "splint", "reduces", "pain")], TRIPLES, part)
    former = PreviousVersion(old, frozenset())
    figures = MergeEntities().update({"triples": [part]}, new, Place(), former)
    assert figures == {"entities": 2, "edges": 1, "facts": 1}
    names = pq.read_table(new / "entities.parquet")["name"].to_pylist()
    assert sorted(names) == ["pain", "splint"]


def test_a_document_of_two_parts_stays_when_one_of_them_goes(tmp_path: Path) -> None:
    rows = [fact(1, "brace", "reduces", "pain", doc_id="d")]
    parts = [write(rows, TRIPLES, tmp_path / f"part-{n}.parquet") for n in (1, 2)]
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    MergeEntities().build({"triples": parts}, tmp_path / "old", Place())
    former = PreviousVersion(tmp_path / "old", frozenset(parts[:1]))
    figures = MergeEntities().update({"triples": parts[:1]}, tmp_path / "new", Place(), former)
    assert figures == {"entities": 2, "edges": 1, "facts": 1}


def test_more_new_facts_than_a_bucket_holds_are_merged_anew(tmp_path: Path) -> None:
    parts = [write(rows, TRIPLES, tmp_path / f"part-{n}.parquet") for n, rows in enumerate(SOME)]
    for name in ("old", "new", "anew"):
        (tmp_path / name).mkdir()
    small = MergeEntities(bucket_facts=5)
    small.build({"triples": parts[:1]}, tmp_path / "old", Place())
    former = PreviousVersion(tmp_path / "old", frozenset(parts[:1]))
    small.update({"triples": parts}, tmp_path / "new", Place(threads=2), former)
    MergeEntities().build({"triples": parts}, tmp_path / "anew", Place())
    for file in ("entities.parquet", "edges.parquet", "sources.parquet"):
        assert (tmp_path / "new" / file).read_bytes() == (tmp_path / "anew" / file).read_bytes()


SIDE = SIDES["entities"]


def ends(document: str, entities: list[int]) -> pa.Table:
    """Mentions of these entities by one document, in different letters."""
    rows = [
        {
            "entity_id": f"{entity:02d}", "name": "aA"[(entity + len(document)) % 2],
            "type": f"t{entity}", "doc_id": document, "unit_id": f"{document}-{n}",
            "char_start": n, "char_end": n + 1,
        }
        for n, entity in enumerate(entities)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=ENDS)


def of(documents: dict[str, list[int]]) -> pa.Table:
    return pa.concat_tables([ENDS.empty_table(), *(ends(d, es) for d, es in documents.items())])


def tables(former: Path, gone: list[str], came: pa.Table) -> list[pa.Table]:
    return list(revised(former, SIDE, pa.array(gone, pa.string()), came))


GRAPHS = st.dictionaries(
    st.sampled_from(["d", "dd", "ddd", "e"]), st.lists(st.integers(0, 20), max_size=9)
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=GRAPHS, gone=st.sets(st.sampled_from(["d", "dd", "x"])), came=GRAPHS)
def test_a_revised_table_is_that_of_the_documents_left_and_those_that_came(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: dict[str, list[int]],
    gone: set[str],
    came: dict[str, list[int]],
) -> None:
    monkeypatch.setattr(entities, "_GROUP_ROWS", 3)
    stay = {d: entities for d, entities in before.items() if d not in gone}
    new = {f"new {d}": entities for d, entities in came.items()}
    former = tmp_path / "former.parquet"
    write_rows(former, [group_ends(of(before))], "entities")
    found = pa.concat_tables(tables(former, sorted(gone), of(new)))
    assert found.equals(group_ends(of({**stay, **new})))


def test_an_entity_goes_with_its_last_mention_and_others_keep_all_of_theirs(tmp_path: Path) -> None:
    write_rows(tmp_path / "f", [group_ends(of({"d": [1, 2], "e": [2, 3]}))], "entities")
    (table,) = tables(tmp_path / "f", ["d"], ENDS.empty_table())
    assert table["entity_id"].to_pylist() == ["02", "03"]
    assert [m["doc_id"] for ms in table["mentions"].to_pylist() for m in ms] == ["e", "e"]


def test_the_name_is_chosen_again_from_the_forms_that_are_left(tmp_path: Path) -> None:
    graph = {"d": [1, 1, 1], "ee": [1, 1]}
    write_rows(tmp_path / "f", [group_ends(of(graph))], "entities")
    (before,) = tables(tmp_path / "f", [], ENDS.empty_table())
    (after,) = tables(tmp_path / "f", ["d"], ENDS.empty_table())
    assert before["name"].to_pylist() != after["name"].to_pylist()


def test_a_graph_grows_from_nothing(tmp_path: Path) -> None:
    write_rows(tmp_path / "f", [], "entities")
    came = of({"d": random.Random(1).sample(range(20), 9)})
    (table,) = tables(tmp_path / "f", [], came)
    assert table.equals(group_ends(came))
