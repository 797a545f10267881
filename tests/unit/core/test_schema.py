from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.core import schema
from srrag.core.formats import read_queries, write_run
from srrag.core.schema import REJECT, conform, empty_value, relation

PAIR = relation(("name", pa.string()), ("count", pa.int32()))


def pair(**columns: Any) -> pa.Table:
    return pa.table({"name": ["a"], "count": [1], "reject": pa.nulls(1), **columns})


def test_columns_are_cast_and_put_in_order() -> None:
    table = pa.table({"extra": [True], "count": [7], "reject": pa.nulls(1), "name": ["a"]})
    out = conform(table, PAIR)
    assert out.schema.equals(PAIR)
    assert out.to_pylist() == [{"name": "a", "count": 7, "reject": None}]


def test_a_table_that_conforms_is_left_alone() -> None:
    table = conform(pair(), PAIR)
    assert conform(table, PAIR) is table


def test_an_empty_table_conforms() -> None:
    out = conform(pa.table({"name": [], "count": [], "reject": []}), PAIR)
    assert out.schema.equals(PAIR)
    assert out.num_rows == 0


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ValueError, match="column 'count' is missing"):
        conform(pa.table({"name": ["a"], "reject": pa.nulls(1)}), PAIR)


@pytest.mark.parametrize(
    "values",
    [[2**31], ["many"], [1.5], [[1]], [{"x": 1}], [b"\xff"]],
    ids=["too large", "a word", "a fraction", "a list", "a struct", "bytes"],
)
def test_a_column_that_cannot_be_cast_is_named(values: list[Any]) -> None:
    with pytest.raises(ValueError, match="column 'count'"):
        conform(pair(count=values), PAIR)


def test_a_reject_of_another_shape_is_named() -> None:
    with pytest.raises(ValueError, match="column 'reject'"):
        conform(pair(reject=["refused"]), PAIR)


def test_nulls_are_refused_but_in_reject() -> None:
    with pytest.raises(ValueError, match="column 'name' holds nulls"):
        conform(pair(name=pa.array([None], pa.string())), PAIR)


def test_nulls_are_refused_where_the_schema_says_that_there_are_none() -> None:
    table = pa.Table.from_pylist([{"name": None, "count": 1, "reject": None}], schema=PAIR)
    with pytest.raises(ValueError, match="column 'name' holds nulls"):
        conform(table, PAIR)


RELATIONS = {name: value for name, value in vars(schema).items() if isinstance(value, pa.Schema)}


def test_there_are_relations() -> None:
    assert {"RAW", "DOCUMENTS", "UNITS", "TRIPLES", "VECTORS", "QUESTIONS"} <= set(RELATIONS)


@pytest.mark.parametrize("name", sorted(RELATIONS))
def test_the_empty_values_make_a_row(name: str) -> None:
    made = RELATIONS[name]
    row = {field.name: empty_value(field.type) for field in made}
    table = pa.Table.from_pylist([row], schema=made)
    table.validate(full=True)
    assert all(table[column].null_count == 0 for column in made.names)
    assert conform(table, made).num_rows == 1


@pytest.mark.parametrize("name", sorted(RELATIONS))
def test_only_reject_may_be_null(name: str) -> None:
    assert [field.name for field in RELATIONS[name] if field.nullable] in ([], ["reject"])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.string(), ""), (pa.int32(), 0), (pa.float32(), 0), (pa.bool_(), False),
        (pa.binary(), b""), (pa.large_binary(), b""), (pa.list_(pa.string()), []),
        (REJECT, {"stage": "", "reason": "", "detail": ""}),
    ],
)  # fmt: skip
def test_empty_values(kind: pa.DataType, value: object) -> None:
    assert empty_value(kind) == value
    assert type(empty_value(kind)) is type(value)


def test_queries_with_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text('{"id": "q1", "text": "Does rest help?"}\n', encoding="utf-8-sig")
    assert [query["query_id"] for query in read_queries(path)] == ["q1"]


def test_a_run_has_six_columns_whatever_a_document_is_called(tmp_path: Path) -> None:
    rows = [{"query_id": "q1", "hits": [{"unit_id": "u", "score": 2.0}]}]
    write_run(tmp_path / "run.trec", rows, {"u": "Smith 2019 knee.md"}, "srrag")
    assert (tmp_path / "run.trec").read_text() == "q1 Q0 Smith_2019_knee.md 1 2.000000 srrag\n"
