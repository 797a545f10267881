"""Stores readers' feedback on answers, one JSON line each, in a file below the root."""

from __future__ import annotations

import json
import os
import threading
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from srrag.retrieve.questions import MAX_QUESTION_CHARS
from srrag.serve.api.bodies import Request
from srrag.serve.errors import ApiError
from srrag.storage import mirror

FILE = Path("jobs", "serve", "feedback.jsonl")
"""Path of the feedback file, relative to the root."""

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Largest size of the file, so that callers cannot fill the disk."""

_FULL_S, _AWAY_S = 3600.0, 10.0
_PUT_S = 5.0
"""Seconds that an object store has to take a line; its own client would wait much longer."""

_ME = uuid.uuid4().hex


class Feedback(Request):
    """A verdict on one answer; the question goes with it only if the reader says so."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"answer_id": "1", "verdict": "helpful"}]}
    )

    answer_id: str = Field(pattern=r"^[\w.-]{1,64}$", description="`id` of the answer")
    verdict: Literal["helpful", "not_helpful"]
    comment: str = Field("", max_length=2000)
    pipeline: str = Field("", max_length=100)
    version: str = Field("", max_length=64)
    question: str | None = Field(None, max_length=MAX_QUESTION_CHARS)


class Kept(BaseModel):
    """Where feedback went."""

    kept_in: str = Field(description="file, relative to the server's root")


def keep_feedback(root: Path, feedback: Feedback, caller: str) -> Kept:
    """Append a line of feedback; raises ApiError if it cannot be written."""
    line: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="seconds")}
    line |= feedback.model_dump(exclude_none=True, exclude_defaults=True)
    if caller:
        line["key"] = caller
    path = _file(root)
    keep = _append if mirror.store_at(root) is None else _keeper.keep
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        keep(path, json.dumps(line, ensure_ascii=False).encode() + b"\n")
    except OSError as error:
        message = f"{path.relative_to(root)} cannot be written now; try again later"
        raise ApiError(503, "feedback", message, retry_s=_AWAY_S) from error
    return Kept(kept_in=str(path.relative_to(root)))


def _file(root: Path) -> Path:
    """The file for this replica: shared, or its own on an object store, which cannot append."""
    if mirror.store_at(root) is None:
        return root / FILE
    return (root / FILE).with_suffix(f".{_ME}{FILE.suffix}")


def _append(path: Path, line: bytes) -> int:
    """Append a line in a single write, so that lines of several replicas never mix.

    Only the owner can read the file. Returns its size before; raises ApiError if it is full.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(file).st_size
        if size + len(line) > MAX_FILE_BYTES:
            raise ApiError(503, "feedback", f"{FILE} is full", retry_s=_FULL_S)
        os.write(file, line)
    finally:
        os.close(file)
    return size


def _dropped(path: Path) -> None:
    """Remove the local lines of a file that `srrag forget` has deleted from the store."""
    if not mirror.exists(path):
        path.unlink(missing_ok=True)


class _Keeper:
    """Uploads the whole file after each new line, one upload at a time so that order is kept."""

    def __init__(self) -> None:
        self._one, self._thread = threading.Lock(), ThreadPoolExecutor(1, "feedback")
        self._put: Future[None] | None = None

    def keep(self, path: Path, line: bytes) -> None:
        """Append a line both to the local file and on the store, or to neither.

        Raises OSError if the store does not take it in time; the client then sends it again.
        """
        if not self._one.acquire(timeout=_PUT_S):
            raise TimeoutError("other feedback waits for the store")
        try:
            if self._put and not self._put.done():
                raise TimeoutError("the store has not yet taken the last feedback")
            self._put = self._thread.submit(_dropped, path)
            self._put.result(_PUT_S)
            size = _append(path, line)
            self._put = self._thread.submit(mirror.put, path)
            try:
                self._put.result(_PUT_S)
            except OSError:
                os.truncate(path, size)
                if not self._put.done():  # the late upload may still succeed: overwrite it
                    self._put = self._thread.submit(mirror.put, path)
                raise
        finally:
            self._one.release()


_keeper = _Keeper()
