from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.core.schema import TRIPLES
from srrag.core.spec import content_id
from srrag.graph.facts import ENDS, FACT_COLUMNS, LINKS, distinct, key_facts, normalise
from tests.unit.index.tables import row


def facts(*rows: dict[str, object]) -> pa.Table:
    table = pa.Table.from_pylist([row(TRIPLES, **values) for values in rows], schema=TRIPLES)
    return table.select(FACT_COLUMNS)


def between(head: str, tail: str, **more: object) -> dict[str, object]:
    return {
        "kind": "relation", "head": head, "head_type": "Drug", "relation": "treats",
        "tail": tail, "tail_type": "Pain", **more,
    }  # fmt: skip


def test_a_relation_has_two_ends_and_a_link_with_ids_of_their_content() -> None:
    ends, links = key_facts(facts(between("Aspirin ", "ACHE", char_start=3, char_end=9)))
    drug, ache = content_id("Drug", "aspirin"), content_id("Pain", "ache")
    assert ends.schema.equals(ENDS)
    assert links.schema.equals(LINKS)
    assert ends.select(["entity_id", "name", "type", "char_start"]).to_pylist() == [
        {"entity_id": drug, "name": "Aspirin ", "type": "Drug", "char_start": 3},
        {"entity_id": ache, "name": "ACHE", "type": "Pain", "char_start": 3},
    ]
    (link,) = links.to_pylist()
    assert link["edge_id"] == content_id(drug, "treats", ache)
    assert (link["head_id"], link["tail_id"], link["char_end"]) == (drug, ache, 9)


@pytest.mark.parametrize(
    ("kind", "name", "merge"),
    [
        ("Timepoint", "12 weeks", False),
        ("Arm", "exercise group", False),
        ("Population", "participants", False),
        ("Comparator", "Control group", False),
        ("Population", "adults with knee osteoarthritis", True),
        ("Comparator", "placebo", True),
    ],
)
def test_what_says_nothing_outside_its_document_belongs_to_it(
    kind: str, name: str, merge: bool
) -> None:
    told = {"tail_type": kind, "head": "rest"}
    rows = [{**between("rest", name), **told, "doc_id": f"d{n}"} for n in range(2)]
    ends, links = key_facts(facts(*rows, rows[0]))
    assert len(set(ends.filter(pc.equal(ends["type"], kind))["entity_id"].to_pylist())) == 2 - merge
    assert len(set(links["edge_id"].to_pylist())) == 2 - merge
    assert len(set(ends.filter(pc.equal(ends["type"], "Drug"))["entity_id"].to_pylist())) == 1


def test_an_attribute_hangs_on_its_owner() -> None:
    dose = {"kind": "attribute", "relation": "has_attribute", "tail_type": "dose"}
    ends, links = key_facts(facts(between("aspirin", "5 MG", **dose)))
    value = content_id(content_id("Drug", "aspirin"), "dose", "5 mg")
    assert ends["entity_id"].to_pylist()[1] == value
    assert links["tail_id"].to_pylist() == [value]


def test_an_entity_alone_is_an_end_without_a_link() -> None:
    ends, links = key_facts(facts({"kind": "entity", "head": "rest", "head_type": "Drug"}))
    assert ends["entity_id"].to_pylist() == [content_id("Drug", "rest")]
    assert links.num_rows == 0


def test_kinds_that_stand_mixed_keep_their_columns_together() -> None:
    rows = [
        between(f"drug {n % 3}", f"pain {n % 4}", kind=("relation", "attribute", "entity")[n % 3])
        for n in range(30)
    ]
    whole_ends, whole_links = key_facts(facts(*rows))
    alone = [key_facts(facts(values)) for values in rows]
    for whole, pieces in (
        (whole_ends, [ends for ends, _ in alone]),
        (whole_links, [links for _, links in alone]),
    ):
        lines = sorted(map(str, pa.concat_tables(pieces).to_pylist()))
        assert sorted(map(str, whole.to_pylist())) == lines


def test_another_kind_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match="'hyperedge'"):
        key_facts(facts(between("a", "b", kind="hyperedge")))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "b", "bc"])), max_size=20))
def test_distinct_numbers_the_tuples(rows: list[tuple[str, str]]) -> None:
    columns = [pa.array([r[at] for r in rows], pa.string()) for at in (0, 1)]
    firsts, inverse = distinct(columns)
    found = [rows[first] for first in firsts.to_pylist()]
    assert len(found) == len(set(rows))
    assert [found[number] for number in inverse] == rows


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("  Knee \t\n Pain. ", "knee pain"), ("ＶＯ２ max", "vo2 max"), ("Straße", "strasse"),
        ("ﬁbula", "fibula"), ("vitamin D; ", "vitamin d"), ("5.5 mg", "5.5 mg"),
        ("knee\u00a0pain", "knee pain"), ("CAFE\u0301", "caf\u00e9"),
    ],
)  # fmt: skip
def test_names_are_folded(name: str, key: str) -> None:
    assert normalise(name) == key


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Mn"]), max_size=20))
def test_folding_twice_changes_nothing(name: str) -> None:
    assert normalise(normalise(name)) == normalise(name)
