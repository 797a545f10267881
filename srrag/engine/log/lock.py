"""One run per log: a lock file with a heartbeat, which also holds where file locks do not reach.

    lock-000007.json    who holds the log; its mtime is the last beat

Each holder makes the file of the next number, which only one taker can; the highest number
holds. Beats are mtimes, so that one clock, the file server's, tells how old they are.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

import pydantic

from srrag.storage.atomic_write import commit_json
from srrag.storage.mirror import shown, store_at
from srrag.storage.process_identity import HOLDER, ProcessIdentity


class LogLock:
    """The right to write a log, from `take` (or `with`) until `release` or death.

    A holder whose process has ended is succeeded at once if it ran on this machine; else once
    its last beat is `stale_s` seconds old.
    """

    def __init__(self, folder: Path, *, beat_s: float = 5.0, stale_s: float = 60.0) -> None:
        """Bind the log's folder."""
        self.folder = folder
        self.beat_s = beat_s
        self.stale_s = stale_s
        self._number = 0
        self._stop = threading.Event()

    def take(self) -> None:
        """Take the lock; raises ValueError that names the holder."""
        if store_at(self.folder):
            raise ValueError(
                f"completions={shown(self.folder)}: the log of answers is appended to, which an "
                f"object store cannot do; give a folder that all nodes see"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        me = ProcessIdentity.this()
        self._number = self._follow(me)
        self._holder = me
        self._stop = threading.Event()
        threading.Thread(
            target=self._beat, args=(self._number, self._stop), name="log-lock", daemon=True
        ).start()

    def held(self) -> bool:
        """Whether this run still holds the log: a run that was paused may have lost it."""
        return self._number > 0 and max(self._numbers(), default=0) == self._number

    def release(self) -> None:
        """Give the lock back, if it is still held."""
        self._stop.set()
        if self.held():
            commit_json(self._path(self._number), asdict(self._holder) | {"released": True})
        self._number = 0

    def __enter__(self) -> LogLock:
        self.take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def _follow(self, me: ProcessIdentity) -> int:
        """Make the file of the next number, and delete those before."""
        mine = self.folder / f".lock-{uuid.uuid4().hex}"
        mine.write_text(json.dumps(asdict(me), indent=1) + "\n", "utf-8")
        try:
            last = max(self._numbers(), default=0)
            if last:
                self._check(self._path(last), now=mine.stat().st_mtime)
            os.link(mine, self._path(last + 1))  # fails if another taker made it first
        except FileExistsError:
            raise ValueError(f"{self.folder} was taken by another run just now") from None
        finally:
            mine.unlink(missing_ok=True)
        numbers = self._numbers()
        if max(numbers) > last + 1:
            self._path(last + 1).unlink(missing_ok=True)
            raise ValueError(f"{self.folder} was taken by another run just now")
        for number in numbers:
            if number <= last:
                self._path(number).unlink(missing_ok=True)
        return last + 1

    def _check(self, path: Path, now: float) -> None:
        try:
            with path.open("rb") as file:  # opened first: it makes a network mount look again
                age_s = now - os.fstat(file.fileno()).st_mtime
                holder = HOLDER.validate_json(file.read(), strict=True)
        except FileNotFoundError:
            raise ValueError(f"{self.folder} was taken by another run just now") from None
        except pydantic.ValidationError:
            if age_s >= self.stale_s:  # whoever wrote it does not beat any more
                return
            raise ValueError(
                f"{path} is damaged; delete it if no run writes {self.folder}, "
                f"or wait for {self.stale_s:.0f} s"
            ) from None
        if not holder.is_gone() and age_s < self.stale_s:
            raise ValueError(f"{self.folder} is being written by {holder.told(age_s)}")

    def _beat(self, number: int, stop: threading.Event) -> None:
        while not stop.wait(self.beat_s):
            try:
                os.utime(self._path(number))
            except FileNotFoundError:
                return  # another run holds the log: `held` tells
            except OSError:
                continue  # the file server is away for a moment; beats may be missed

    def _numbers(self) -> list[int]:
        return [int(path.stem[5:]) for path in self.folder.glob("lock-*.json")]

    def _path(self, number: int) -> Path:
        return self.folder / f"lock-{number:06d}.json"
