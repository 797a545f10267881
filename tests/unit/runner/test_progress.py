"""Progress on a terminal is one live block, which goes with the run."""

from __future__ import annotations

import io
import sys

import pytest

from srrag.runner.progress import Progress, _live, built, say, shown


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
