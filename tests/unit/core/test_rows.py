from __future__ import annotations

import pyarrow as pa
import pytest

from srrag.core.rows import filled, isolated, live, rejected
from srrag.core.schema import REJECT
from srrag.llm.completion import EngineStopped, Fault

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


def run_with(bad: set[int], calls: list[tuple[int, int]], error: type[Exception] = ValueError):  # type: ignore[no-untyped-def]
    def run(start: int, stop: int) -> list[int]:
        calls.append((start, stop))
        if bad & set(range(start, stop)):
            raise error("bad")
        return list(range(start, stop))

    return run


def test_only_the_items_at_fault_fail_and_the_order_stays() -> None:
    calls: list[tuple[int, int]] = []
    out = isolated(run_with({3, 8}, calls), 2, 10, lambda item, error: [-item])
    assert [each for part in out for each in part] == [2, -3, 4, 5, 6, 7, -8, 9]
    assert calls[0] == (2, 10) and len(calls) < 2 * 8, "halves, not one by one"


def test_what_does_not_fail_runs_once() -> None:
    calls: list[tuple[int, int]] = []
    assert isolated(run_with(set(), calls), 0, 5, lambda item, error: []) == [[0, 1, 2, 3, 4]]
    assert calls == [(0, 5)]


def test_a_stopped_engine_is_no_rows_fault() -> None:
    calls: list[tuple[int, int]] = []
    with pytest.raises(EngineStopped):
        isolated(run_with({1}, calls, EngineStopped), 0, 4, lambda item, error: [])
    assert calls == [(0, 4)]


def test_an_error_without_items_is_raised() -> None:
    def run(start: int, stop: int) -> int:
        raise KeyError("always")

    with pytest.raises(KeyError):
        isolated(run, 0, 0, lambda item, error: 0)
