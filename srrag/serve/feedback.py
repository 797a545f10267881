"""What readers say of an answer: one JSON line each, in a file of the root."""

from __future__ import annotations

import json
import os
import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from srrag import mirror
from srrag.retrieve.questions import MAX_QUESTION_CHARS
from srrag.serve.faults import RequestFault
from srrag.serve.requests import Request

FILE = Path("jobs", "serve", "feedback.jsonl")
"""Where it is kept, below the root."""

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A file of this size takes no more: whoever may ask should not be able to fill a disk."""

_RETRY_S = 3600.0
_ME = uuid.uuid4().hex
_one = threading.Lock()


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
    """Append a line; raises RequestFault if it cannot be written."""
    line: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="seconds")}
    line |= feedback.model_dump(exclude_none=True, exclude_defaults=True)
    if caller:
        line["key"] = caller
    path = _file(root)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _one:  # the file is put as a whole: a later one must not be overtaken
            _append(path, json.dumps(line, ensure_ascii=False).encode() + b"\n")
            mirror.put(path)
    except OSError as error:
        message = f"{path.relative_to(root)} cannot be written ({error.strerror or error})"
        raise RequestFault(503, "feedback", message, retry_s=_RETRY_S) from error
    return Kept(kept_in=str(path.relative_to(root)))


def _file(root: Path) -> Path:
    """One for all replicas, or, where nothing can be appended to, one for each of them."""
    if mirror.store_at(root) is None:
        return root / FILE
    return (root / FILE).with_suffix(f".{_ME}{FILE.suffix}")


def _append(path: Path, line: bytes) -> None:
    """One write of one line, so that lines of several replicas never mix; for the owner alone."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        if os.fstat(file).st_size + len(line) > MAX_FILE_BYTES:
            raise RequestFault(503, "feedback", f"{FILE} is full", retry_s=_RETRY_S)
        os.write(file, line)
    finally:
        os.close(file)
