import pyarrow as pa

from srrag.core.rows import filled, live, rejected
from srrag.core.schema import REJECT
from srrag.llm.completion import Fault

WRITES = pa.schema(
    [pa.field("found", pa.list_(pa.string()), nullable=False), pa.field("reject", REJECT)]
)
OLD = {"stage": "before", "reason": "odd", "detail": ""}


def table() -> pa.Table:
    return pa.table({"text": ["a", "b", "c"], "reject": pa.array([None, OLD, None], REJECT)})


def test_rejected_rows_are_passed_over_and_numbers_stay() -> None:
    assert list(live(table(), ("text",))) == [(0, {"text": "a"}), (2, {"text": "c"})]
    assert len(list(live(table().drop_columns(["reject"]), ["text"]))) == 3


def test_rows_are_filled_and_a_former_reject_stays() -> None:
    new = rejected("now", Fault("refusal", "It would not."))
    made = filled(table(), WRITES, {0: {"found": ["x"]}, 1: new, 2: new}).to_pylist()
    assert [row["found"] for row in made] == [["x"], [], []]
    assert [row["reject"] and row["reject"]["stage"] for row in made] == [None, "before", "now"]
    assert made[2]["reject"]["detail"] == "It would not."


def test_columns_are_added_once() -> None:
    again = filled(filled(table(), WRITES, {}), WRITES, {0: {"found": ["y"]}})
    assert again.column_names == ["text", "reject", "found"]
    assert again.schema.field("found") == WRITES.field("found")
    bare = filled(table().select(["text"]), WRITES, {})
    assert bare["reject"].null_count == 3
    assert filled(table().slice(0, 0), WRITES, {}).num_rows == 0
