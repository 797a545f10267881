"""A lease on a log for one run: a lock file with a heartbeat, which also works across machines.

    lock-000007.json    the holder of the log; its mtime is the last heartbeat

To take the lease, a run creates the file with the next number, which only one run can do; the
highest number holds the log. Heartbeats are mtimes, so only the file server's clock matters.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType

import pydantic

from srrag.storage.atomic_write import commit_json, keep_private
from srrag.storage.mirror import shown, store_at
from srrag.storage.process_identity import HOLDER, Heartbeat, ProcessIdentity, check_free


class LogLock:
    """The lease to write a log, from `take` (or `with`) until `release` or the process ends.

    Another run can take over at once from an ended process on this machine, and otherwise when
    the last heartbeat is `stale_s` seconds old.
    """

    def __init__(self, folder: Path, *, beat_s: float = 5.0, stale_s: float = 60.0) -> None:
        """Bind the log's folder."""
        self.folder = folder
        self.beat_s = beat_s
        self.stale_s = stale_s
        self._number = 0
        self._beats: Heartbeat | None = None

    def take(self) -> None:
        """Take the lock; raises ValueError that names the holder, or for an object store."""
        if store_at(self.folder):
            raise ValueError(
                f"completions={shown(self.folder)}: the log of answers is appended to, which an "
                f"object store cannot do; give a folder that all nodes see"
            )
        keep_private(self.folder)
        me = ProcessIdentity.this()
        self._number = self._follow(me)
        self._holder = me
        self._beats = Heartbeat("log-lock", self.beat_s, partial(self._renew, self._number))

    def held(self) -> bool:
        """Whether this run still holds the log, which it may have lost while it was paused."""
        return self._number > 0 and max(self._numbers(), default=0) == self._number

    def release(self) -> None:
        """Release the lock, if this run still holds it."""
        if self._beats is not None:
            self._beats.stop()
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
        """Create the file with the next number, and delete the earlier ones."""
        mine = self.folder / f".lock-{uuid.uuid4().hex}"
        mine.write_text(json.dumps(asdict(me), indent=1) + "\n", "utf-8")
        try:
            last = max(self._numbers(), default=0)
            if last:
                self._check(self._path(last), now=mine.stat().st_mtime)
            os.link(mine, self._path(last + 1))  # fails if another run created it first
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
            with path.open("rb") as file:  # opening makes a network mount refresh the file
                age_s = now - os.fstat(file.fileno()).st_mtime
                holder = HOLDER.validate_json(file.read(), strict=True)
        except FileNotFoundError:
            raise ValueError(f"{self.folder} was taken by another run just now") from None
        except pydantic.ValidationError:
            if age_s >= self.stale_s:  # its writer has stopped its heartbeat
                return
            raise ValueError(
                f"{path} is damaged; delete it if no run writes {self.folder}, "
                f"or wait for {self.stale_s:.0f} s"
            ) from None
        check_free(str(self.folder), holder, age_s, self.stale_s)

    def _renew(self, number: int) -> bool:
        try:
            os.utime(self._path(number))
        except FileNotFoundError:
            return False  # another run holds the log, as `held` will report
        return True

    def _numbers(self) -> list[int]:
        return [int(path.stem[5:]) for path in self.folder.glob("lock-*.json")]

    def _path(self, number: int) -> Path:
        return self.folder / f"lock-{number:06d}.json"
