"""Progress of a run on stderr: one live block on a terminal, else a line every two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Block

from srrag.storage.mirror import worded

INTERVAL_S = 2.0
_live: list[Block] = []


def say(message: str) -> None:
    """Write one line for people to stderr, above the live block where one is shown."""
    if _live:
        _live[0].console.print(worded(message), markup=False, highlight=False, soft_wrap=True)
    else:
        print(worded(message), file=sys.stderr, flush=True)


def built(stage: str, what: str = "built") -> None:
    """Tell a log that a stage stands; a person at a terminal is told of the whole at its end."""
    if not sys.stderr.isatty():
        say(f"{stage:<12} {what}")


@contextmanager
def shown() -> Iterator[None]:
    """Show progress while a run goes on; its live block goes when the run ends, however it does."""
    try:
        yield
    finally:
        if _live:
            _live.pop().stop()


def _block() -> Block | None:
    """The live block of this run; None where stderr is no terminal."""
    if not _live and sys.stderr.isatty():
        columns = TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn()
        # What a program prints is its own: nothing is redirected.
        made = Block(*columns, TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
                     console=Console(stderr=True), transient=True, refresh_per_second=4,
                     redirect_stdout=False, redirect_stderr=False)  # fmt: skip
        made.start()
        _live.append(made)
    return _live[0] if _live else None


@dataclass
class Progress:
    """Counts the parts of one stage; `already` of them were finished before the run."""

    stage: str
    total: int
    already: int = 0
    started: float = field(default_factory=time.monotonic)
    done: int = 0
    _last: float = 0.0
    _task: TaskID | None = None

    def __post_init__(self) -> None:
        """Count the finished parts as done."""
        self.done = self.already
        if block := _block():
            self._task = block.add_task(self.stage, total=self.total, completed=self.done, note="")

    def update(self, done: int) -> None:
        """Set the number of finished parts; print when it is time or at the end."""
        self.done = done
        if self._task is not None and _live:
            _live[0].update(self._task, completed=done, note="", visible=done < self.total)
            return
        now = time.monotonic()
        if now - self._last >= INTERVAL_S or done == self.total:
            self._last = now
            say(self.line(now - self.started))

    def rows(self, done: int, total: int) -> None:
        """Set the rows done of the current part: a bar moves by them, a line is printed in time."""
        part = f"part {self.done + 1} of {self.total}" if self.total > 1 else "its one part"
        if self._task is not None and _live:
            note = f"{done:,}/{total:,} rows of {part}"
            _live[0].update(self._task, completed=self.done + done / max(1, total), note=note)
            return
        now = time.monotonic()
        if done < total and now - self._last >= INTERVAL_S:
            self._last = now
            say(f"{self.stage:<12} {done}/{total} rows of {part}")

    def line(self, elapsed_s: float) -> str:
        """One line: `encode  12/25 parts  48 %  1.3 parts/s  0:10 left`."""
        share = 100 * self.done // max(1, self.total)
        fresh = self.done - self.already
        text = f"{self.stage:<12} {self.done}/{self.total} parts  {share:3d} %"
        if fresh > 0 and elapsed_s > 0:
            rate = fresh / elapsed_s
            left = round((self.total - self.done) / rate)
            text += f"  {rate:.2f} parts/s  {left // 60}:{left % 60:02d} left"
        return text


@dataclass
class CallProgress:
    """Shows the progress of the engines, at most every ten seconds."""

    figures: Callable[[], dict[str, dict[str, Any]]]
    interval_s: float = 10.0
    _last: float = field(default_factory=time.monotonic)
    _shown: str = ""

    def show(self) -> None:
        """Print a line for each engine, if it is time and something has changed."""
        if time.monotonic() - self._last < self.interval_s:
            return
        self._last = time.monotonic()
        lines = [self._line(name, done) for name, done in self.figures().items() if done["calls"]]
        if lines and (text := "\n".join(lines)) != self._shown:
            self._shown = text
            say(text)

    @staticmethod
    def _line(name: str, done: dict[str, Any]) -> str:
        faults = sum(done["faults"].values())
        text = f"{name}: {done['calls']:,} calls"
        text += f", {done['tokens_in']:,} tokens in, {done['tokens_out']:,} out"
        text += f", {done['usd']:.2f} USD" if done["usd"] else ""
        return text + (f", {faults:,} bad answers" if faults else "")
