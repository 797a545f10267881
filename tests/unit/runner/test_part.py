from __future__ import annotations

import errno
import io
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

from srrag.core.errors import Halt
from srrag.core.schema import relation
from srrag.core.stage import Plan, Resources, Stage
from srrag.core.step import Function, OpenedLLMStep, Place
from srrag.llm.completion import Completion, Prompt, Usage, tally
from srrag.runner.part import Attempt, guarded, live, reject_row, run_part
from srrag.runner.progress import Progress, _live, built, say, shown
from srrag.runner.runner import LocalRunner
from srrag.storage.manifest import DamagedError
from srrag.storage.store import Receipt, Store, count_reasons
from tests.engines import AskNumbers, Word
from tests.forked import ANEW
from tests.toys import NUMBERS, Double, number_parts, plan, values


def test_every_row_passes_through_every_stage(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [5, 3])
    chain = plan(Double(), Double())
    LocalRunner().run(chain, store, parts, Place())
    assert values(tmp_path, chain, "s2", parts) == [4 * n for n in range(8)]


def test_a_stage_has_the_threads_of_the_process_unless_it_names_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, opened, plain = Store(tmp_path), [], Double.open
    monkeypatch.setattr(
        Double, "open", lambda step, at: opened.append(at.threads) or plain(step, at)
    )
    parts = number_parts(store, [5])
    chain = plan(Double(), Double())
    first, second = (
        replace(s, resources=Resources(threads=n))
        for s, n in zip(chain.stages, (0, 2), strict=True)
    )
    mixed = Plan(chain.source, chain.fingerprint(chain.source), [first, second])
    LocalRunner().run(mixed, store, parts, Place(threads=7))
    assert opened == [7, 2]


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


@pytest.mark.slow
def test_a_row_that_kills_its_worker_is_rejected_after_three_strikes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    number_parts(store, [9])
    codes = []
    for _ in range(6):
        process = ANEW.Process(target=_run, args=(tmp_path,))
        process.start()
        process.join(300)
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


def ran(store: Store, part: str, function: Function, **settings: int) -> list[tuple[int, int]]:
    """Run the first stage of a chain with a function of the test; what it ticked."""
    ticks: list[tuple[int, int]] = []
    chain = plan(Double(), **settings)  # type: ignore[arg-type]
    fingerprint = chain.fingerprint("s1")
    done = run_part(
        store, chain.stages[0], fingerprint, ("numbers", "f0"), part, function,
        lambda *now: ticks.append(now),
    )  # fmt: skip
    assert done == store.read_receipt("s1", fingerprint, part)
    return ticks


def note_of(store: Store, part: str = "p0") -> Path:
    return store.stage_dir("s1", plan(Double()).fingerprint("s1")) / f".attempt-{part}.json"


def test_batches_are_ticked_and_the_note_goes_with_the_part(tmp_path: Path) -> None:
    store = Store(tmp_path)
    number_parts(store, [5])
    sizes: list[int] = []

    def run(batch: pa.Table) -> pa.Table:
        assert note_of(store).exists()
        sizes.append(batch.num_rows)
        return batch

    assert ran(store, "p0", run, batch_rows=2) == [(2, 5), (4, 5), (5, 5)]
    assert sizes == [2, 2, 1]
    assert not note_of(store).exists()
    for rows in (1, 0):
        assert len(ran(store, "p0", lambda batch: batch, batch_rows=rows)) == 5


def test_each_batch_that_is_done_shows_in_the_time_of_the_note(tmp_path: Path) -> None:
    store = Store(tmp_path)
    number_parts(store, [3])
    times: list[float] = []

    def run(batch: pa.Table) -> pa.Table:
        times.append(note_of(store).stat().st_mtime)
        os.utime(note_of(store), (1, 1))
        return batch

    ran(store, "p0", run, batch_rows=1)
    assert len(times) == 3 and min(times) > 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, Halt, DamagedError])
def test_who_is_stopped_leaves_no_part_and_no_strike(
    tmp_path: Path, error: type[BaseException]
) -> None:
    store = Store(tmp_path)
    number_parts(store, [2])

    def run(batch: pa.Table) -> pa.Table:
        raise error("stopped")

    with pytest.raises(error):
        ran(store, "p0", run)
    assert not note_of(store).exists()
    assert store.parts("s1", note_of(store).parent.name) == set()


def test_after_a_death_each_row_runs_alone_and_is_written_down_before(tmp_path: Path) -> None:
    store = Store(tmp_path)
    number_parts(store, [3])
    Attempt(note_of(store))
    seen: list[tuple[int, str]] = []

    def run(batch: pa.Table) -> pa.Table:
        seen.append((batch.num_rows, note_of(store).read_text().rpartition('"row": ')[2]))
        return batch

    ran(store, "p0", run)
    assert seen == [(1, "0}"), (1, "1}"), (1, "2}")]


def test_a_part_that_cannot_be_written_costs_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    number_parts(store, [3])

    def full(*given: object, **named: object) -> Receipt:
        raise OSError(errno.ENOSPC, "no space left on the disk")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write_part", full)
        for _ in range(5):
            with pytest.raises(OSError, match="no space left"):
                ran(store, "p0", lambda batch: batch)
    ran(store, "p0", lambda batch: batch)
    receipt = store.read_receipt("s1", note_of(store).parent.name, "p0")
    assert (receipt.rows_out, receipt.reasons) == (3, {})


@dataclass
class Answers:
    """A client that says the same word to each prompt, and remembers what it was asked."""

    asked: list[list[str]] = field(default_factory=list)
    fresh: bool = False
    together: threading.Barrier = field(default_factory=lambda: threading.Barrier(1))

    def complete(
        self, prompts: Sequence[Prompt], attempt: int, may_call: Sequence[bool]
    ) -> list[Completion]:
        self.asked.append([prompt.user for prompt in prompts])
        self.together.wait(60)
        tally(Usage(calls=len(prompts), tokens_in=9))
        return [Completion(value=Word(word="yes")) for _ in prompts]


def asking(client: Answers | None, store: Store, careful: bool) -> pa.Table:
    """Run the numbers of a part through a step that asks."""
    number_parts(store, [3])
    stage = Stage("s1", AskNumbers(), ("numbers",))
    if careful:
        Attempt(store.stage_dir("s1", "f") / ".attempt-p0.json")
    run_part(store, stage, "f", ("numbers", "f0"), "p0", OpenedLLMStep(AskNumbers(), client))
    return store.read_part("s1", "f", "p0")


def test_a_careful_attempt_asks_all_rows_at_once_before_it_goes_row_by_row(tmp_path: Path) -> None:
    first, careful = Answers(), Answers()
    assert asking(first, Store(tmp_path / "a"), False)["word"].to_pylist() == ["yes"] * 3
    assert first.asked == [["n0.", "n1.", "n2."]]
    assert asking(careful, Store(tmp_path / "b"), True)["word"].to_pylist() == ["yes"] * 3
    assert careful.asked == [["n0.", "n1.", "n2."], ["n0."], ["n1."], ["n2."]]
    assert asking(None, Store(tmp_path / "c"), True)["word"].to_pylist() == ["rules"] * 3


def answered(tmp_path: Path, client: Answers | None, step: AskNumbers, rows: int) -> Receipt:
    store = Store(tmp_path)
    number_parts(store, [rows])
    stage = Stage("s1", step, ("numbers",), Resources(batch_rows=2))
    return run_part(store, stage, "f", ("numbers", "f0"), "p0", OpenedLLMStep(step, client))


def test_two_batches_are_asked_at_a_time_and_their_cost_is_noted(tmp_path: Path) -> None:
    client = Answers(together=threading.Barrier(2))  # a batch alone waits in vain, and is rejected
    done = answered(tmp_path, client, AskNumbers(), rows=8)
    assert (done.failed, done.usage["calls"], done.usage["tokens_in"]) == (0, 8, 36)
    assert sorted(map(len, client.asked)) == [2, 2, 2, 2]


@dataclass(frozen=True, kw_only=True)
class OneThread(AskNumbers):
    """Rules that bear no second thread."""

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        assert threading.current_thread() is threading.main_thread()
        return super().baseline(batch, prompts)


def test_rules_run_one_batch_after_another_and_cost_nothing(tmp_path: Path) -> None:
    done = answered(tmp_path, None, OneThread(), rows=3)
    assert (done.failed, done.usage) == (0, {})


def test_prompts_are_rendered_row_by_row_after_a_death(tmp_path: Path) -> None:
    store, client = Store(tmp_path), Answers()
    number_parts(store, [3])
    note = store.stage_dir("s1", "f") / ".attempt-p0.json"
    Attempt(note)
    note.write_text(json.dumps({"poison": [0], "died": None, "deaths": 0, "row": None}))
    noted: list[int | None] = []

    @dataclass(frozen=True, kw_only=True)
    class Noting(AskNumbers):
        def prompts(self, batch: pa.Table) -> list[Prompt]:
            noted.append(json.loads(note.read_text())["row"])
            return super().prompts(batch)

    stage = Stage("s1", Noting(), ("numbers",))
    run_part(store, stage, "f", ("numbers", "f0"), "p0", OpenedLLMStep(Noting(), client))
    assert noted == [1, 2, 1, 2], "a row that killed its worker is not rendered"
    assert client.asked[0] == ["n1.", "n2."]
    assert store.read_part("s1", "f", "p0")["reject"][0].as_py()["reason"] == "crashed"


def test_reasons_are_counted_and_what_is_rejected_is_not_live() -> None:
    none = {"stage": None, "reason": None, "detail": None}
    told = [{**none, "reason": "b"}, None, {**none, "reason": "a"}, {**none, "reason": "b"}]
    table = pa.table({"raw_id": list("0123"), "value": [0, 1, 2, 3], "reject": told}, NUMBERS)
    assert count_reasons(table) == {"b": 2, "a": 1}
    assert live(table)["value"].to_pylist() == [1]
    assert count_reasons(table.slice(1, 1)) == {}
    bare = table.select(["value"])
    assert count_reasons(bare) == {} and live(bare) is bare


def test_a_poisoned_row_is_not_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    number_parts(store, [3])
    rows = store.read_part("numbers", "f0", "p0")
    note = tmp_path / "note.json"
    note.write_text('{"poison": [11], "died": null, "deaths": 0, "row": null}')
    stage = plan(Double()).stages[0]

    def never(batch: pa.Table) -> pa.Table:
        raise AssertionError("was run")

    table, reasons = guarded(never, stage, (11, rows.slice(1, 1)), Attempt(note))
    assert reasons == ["crashed"]
    assert table["raw_id"].to_pylist() == ["1"]
    assert table["reject"][0].as_py() == {
        "stage": "s1", "reason": "crashed", "detail": "the worker died 3 times on this row",
    }  # fmt: skip
    table, reasons = guarded(lambda batch: batch, stage, (12, rows.slice(2, 1)), Attempt(note))
    assert (table["value"].to_pylist(), reasons) == ([2], [])
    table, reasons = guarded(lambda batch: batch, stage, (10, rows))
    assert (table["value"].to_pylist(), reasons) == ([0, 1, 2], []), "without a note"


def test_an_error_of_a_row_is_its_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path)
    number_parts(store, [3])
    rows = store.read_part("numbers", "f0", "p0")
    function = Double(bad=1).open(Place())
    with caplog.at_level(logging.WARNING):
        table, reasons = guarded(function, plan(Double()).stages[0], (7, rows))
    assert reasons == ["ArithmeticError"]
    assert table["raw_id"].to_pylist() == ["0", "1", "2"]
    assert [each and each["detail"] for each in table["reject"].to_pylist()] == [
        None, "cannot double 1", None,
    ]  # fmt: skip
    assert "stage s1: a row is rejected" in caplog.text


def test_a_reject_row_keeps_what_both_schemas_share() -> None:
    row = pa.table({"raw_id": ["7"], "value": ["text"], "more": [1]})
    told = reject_row(row, NUMBERS, "s", "bad", "why").to_pylist()
    assert told == [
        {
            "raw_id": "7",
            "value": told[0]["value"],
            "reject": {"stage": "s", "reason": "bad", "detail": "why"},
        }
    ]
    assert told[0]["value"] != "text", "of another type"
    with pytest.raises(ValueError, match="stage s: bad: why"):
        reject_row(row, pa.schema([("raw_id", pa.string())]), "s", "bad", "why")
    shared = reject_row(row, relation(("more", pa.int64())), "s", "bad", "why")
    assert shared["more"].to_pylist() == [1]


def die_at(path: Path, row: int) -> Attempt:
    """One attempt that walks up to a row and dies there."""
    attempt = Attempt(path)
    for before in range(row + 1):
        attempt.touch(before)
    return attempt


def test_three_deaths_in_succession_on_one_row_count(tmp_path: Path) -> None:
    note = tmp_path / "note.json"
    for deaths in range(3):
        assert 4 not in die_at(note, 4).poison, deaths
    attempt = Attempt(note)
    assert attempt.poison == [4]


def test_deaths_on_other_rows_in_between_start_anew(tmp_path: Path) -> None:
    note = tmp_path / "note.json"
    for row in (4, 4, 2, 4, 4, 1, 4):
        die_at(note, row)
    assert 4 not in Attempt(note).poison


def test_who_is_told_to_stop_leaves_no_strike(tmp_path: Path) -> None:
    note = tmp_path / "note.json"
    for _ in range(5):
        die_at(note, 4).release()
    assert not note.exists()
    die_at(note, 4)
    die_at(note, 4).release()
    assert 4 not in Attempt(note).poison


@pytest.mark.parametrize(
    "text",
    [
        "", '{"poison": [1', "[]", '{"poison": ["1"], "deaths": 0}',
        '{"poison": ["1"], "deaths": 0, "died": null, "row": null}',
    ],
)  # fmt: skip
def test_an_empty_or_cut_note_tells_of_an_attempt_and_no_more(tmp_path: Path, text: str) -> None:
    note = tmp_path / "note.json"
    note.write_text(text)
    attempt = Attempt(note)
    assert attempt.careful and not attempt.poison and not attempt.deaths
    attempt.done()
    assert not note.exists()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_live_block_leaves_no_trace_in_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, stdout = Terminal(), sys.stdout
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(ValueError, match="stop"), shown():
        Progress("windows", 2).update(1)
        assert sys.stdout is stdout and sys.stderr is terminal, "a program's own output stays"
        say("told above")
        raise ValueError("stop")
    assert "told above" in terminal.getvalue()
    length = len(terminal.getvalue())
    say("after")
    assert terminal.getvalue()[length:] == "after\n", "the block is gone"


def test_a_bar_moves_within_a_part_and_a_terminal_hears_of_no_stage_that_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal, log = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    with shown():
        run = Progress("parsed", 1)
        run.rows(4, 16)
        (task,) = _live[0].tasks
        assert (task.completed, task.fields["note"]) == (0.25, "4/16 rows of its one part")
        run.update(1)
    told = len(terminal.getvalue())
    built("raw", "1 parts")
    assert terminal.getvalue()[told:] == ""
    monkeypatch.setattr(sys, "stderr", log)
    built("raw", "1 parts")
    built("sparse")
    assert log.getvalue() == "raw          1 parts\nsparse       built\n"
