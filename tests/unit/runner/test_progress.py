"""Progress on a terminal is one live block, which goes with the run."""

from __future__ import annotations

import io
import sys

import pytest

from srrag.runner.progress import Progress, say, shown


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
