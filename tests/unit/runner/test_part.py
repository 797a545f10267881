from __future__ import annotations

import multiprocessing
import signal
from pathlib import Path

from srrag.runner.local import LocalRunner
from srrag.step import Place
from srrag.storage.store import Store
from tests.toys import Double, number_parts, plan, values


def test_every_row_passes_through_every_stage(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [5, 3])
    chain = plan(Double(), Double())
    LocalRunner().run(chain, store, parts, Place())
    assert values(tmp_path, chain, "s2", parts) == [4 * n for n in range(8)]


def test_what_stands_is_not_done_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [5, 3])
    chain = plan(Double())
    LocalRunner().run(chain, store, parts[:1], Place())
    path = store.part_path("s1", chain.fingerprint("s1"), parts[0])
    before = path.stat().st_mtime_ns
    LocalRunner().run(chain, store, parts, Place())
    assert path.stat().st_mtime_ns == before
    assert len(values(tmp_path, chain, "s1", parts)) == 8


def test_one_bad_row_takes_no_other_with_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [9, 2])
    chain = plan(Double(bad=5), Double())
    LocalRunner().run(chain, store, parts, Place())
    assert values(tmp_path, chain, "s2", parts) == [4 * n for n in range(11) if n != 5]
    table = store.read_part("s1", chain.fingerprint("s1"), "p0")
    assert table["reject"][5].as_py() == {
        "stage": "s1",
        "reason": "ArithmeticError",
        "detail": "cannot double 5",
    }
    assert table["raw_id"][5].as_py() == "5"
    receipt = store.read_receipt("s1", chain.fingerprint("s1"), "p0")
    assert (receipt.rows_in, receipt.rows_out, receipt.failed) == (9, 9, 1)
    assert receipt.reasons == {"ArithmeticError": 1}
    after = store.read_receipt("s2", chain.fingerprint("s2"), "p0")
    assert (after.rows_in, after.skipped, after.rows_out) == (9, 1, 8)


def _run(root: Path) -> None:
    LocalRunner().run(plan(Double(deadly=6)), Store(root), ["p0"], Place())


def test_a_row_that_kills_its_worker_is_rejected_after_three_strikes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    number_parts(store, [9])
    context = multiprocessing.get_context("spawn")
    codes = []
    for _ in range(6):
        process = context.Process(target=_run, args=(tmp_path,))
        process.start()
        process.join(60)
        codes.append(process.exitcode)
        if process.exitcode == 0:
            break
    # One death on the whole batch, three on the row alone, then the part stands.
    assert codes == [-signal.SIGKILL] * 4 + [0]
    chain = plan(Double(deadly=6))
    assert values(tmp_path, chain, "s1", ["p0"]) == [2 * n for n in range(9) if n != 6]
    assert store.read_receipt("s1", chain.fingerprint("s1"), "p0").reasons == {"crashed": 1}


def test_an_all_rejected_part_keeps_its_schema(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [1])
    chain = plan(Double(bad=0), Double())
    LocalRunner().run(chain, store, parts, Place())
    table = store.read_part("s2", chain.fingerprint("s2"), "p0")
    assert table.num_rows == 0
    assert table.schema.equals(Double.writes)
