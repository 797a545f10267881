"""The session of a folder of batch files: answers from files, and prompts into files."""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from srrag.engine.base import Call, Reply
from srrag.engine.openai import protocol

if TYPE_CHECKING:
    from srrag.engine.openai.engine import HttpEngine

URL = "/v1/chat/completions"
MAX_ROWS, MAX_BYTES = 50_000, 190_000_000
"""Bounds of one file of prompts, a little below those of hosted endpoints."""
_ABANDONED_S = 3600.0


class LinePlace(NamedTuple):
    """A line of a file: the number of the file, the first byte, and the length."""

    file: int
    start: int
    size: int


@dataclass
class BatchFolder:
    """What the files of a folder hold, by the id of the prompt (the key of its completion).

    `answers` are the first usable answer of each prompt, `failures` the failed rows by their own
    id, and `prompts` the files that hold the prompt, each a time that it was asked. `submitted` are
    the most tokens in and out of all prompts that have neither answer nor failure yet.
    """

    folder: Path
    model: str
    files: list[Path] = field(default_factory=list)
    answers: dict[str, LinePlace] = field(default_factory=dict)
    failures: dict[str, dict[str, LinePlace]] = field(default_factory=dict)
    prompts: dict[str, list[int]] = field(default_factory=dict)
    submitted: tuple[int, int] = (0, 0)
    other_models: Counter[str] = field(default_factory=Counter)
    unread: list[str] = field(default_factory=list)
    """Places (file:line) that hold neither a prompt nor an answer, such as a line cut off."""

    def __post_init__(self) -> None:
        """Read every *.jsonl of the folder, which need not exist yet."""
        self.files = sorted(path for path in self.folder.glob("*.jsonl") if path.is_file())
        most: dict[str, tuple[int, int]] = {}
        for number, path in enumerate(self.files):
            for line, place, row in _rows(path, number):
                if not self._take(row, place, most):
                    self.unread.append(f"{path.name}:{line}")
        open_prompts = [most[name] for name in most if self.pending(name)]
        self.submitted = sum(m[0] for m in open_prompts), sum(m[1] for m in open_prompts)

    def pending(self, name: str) -> bool:
        """Whether a prompt was asked more often than it was answered or failed."""
        if name in self.answers:
            return False
        return len(self.prompts.get(name, ())) > len(self.failures.get(name, ()))

    def unknown(self) -> int:
        """Number of answers to prompts that no file of this folder asks."""
        return sum(name not in self.prompts for name in self.answers)

    def row(self, place: LinePlace) -> dict[str, Any]:
        """Read one row again."""
        with self.files[place.file].open("rb") as file:
            file.seek(place.start)
            row: dict[str, Any] = json.loads(file.read(place.size))
        return row

    def _take(self, row: Any, place: LinePlace, most: dict[str, tuple[int, int]]) -> bool:
        """Note what a row is; False if it is none of ours."""
        name = row.get("custom_id") if isinstance(row, dict) else None
        if not isinstance(name, str):
            return False
        if "url" in row:
            body = row.get("body") if isinstance(row.get("body"), dict) else {}
            limit = body.get("max_tokens", body.get("max_completion_tokens", 0))
            most[name] = (place.size, limit if isinstance(limit, int) else 0)
            self.prompts.setdefault(name, []).append(place.file)
            return True
        if not row.keys() & {"response", "error"}:
            return False
        body = body_of(row)
        if not usable(row):
            own = str(row.get("id") or json.dumps(row, sort_keys=True))
            self.failures.setdefault(name, {})[own] = place
        elif same_model(body.get("model"), self.model):
            self.answers.setdefault(name, place)
        else:
            self.other_models[str(body["model"])] += 1
        return True


def body_of(row: dict[str, Any]) -> dict[str, Any]:
    """The body of an answer's response; {} if it has none."""
    response = row.get("response")
    body = response.get("body") if isinstance(response, dict) else None
    return body if isinstance(body, dict) else {}


def status_of(row: dict[str, Any]) -> int:
    """The HTTP status of an answer's response; 0 if there is none."""
    response = row.get("response")
    status = response.get("status_code", 200) if isinstance(response, dict) else 0
    return status if isinstance(status, int) and not isinstance(status, bool) else 0


def usable(row: dict[str, Any]) -> bool:
    """Whether an answer holds a completion, and not the reason why there is none."""
    return status_of(row) == 200 and bool(body_of(row).get("choices"))


def same_model(told: Any, asked: str) -> bool:
    """Whether an answer's model may be the one that was asked.

    Endpoints add an owner ("openai/m") or a version ("m-2024-07-18"); one that names no model is
    believed.
    """
    if not isinstance(told, str) or not told.strip():
        return True
    one, other = (name.rstrip("/").rpartition("/")[2].lower() for name in (told, asked))
    return one.startswith(other) or other.startswith(one)


def _rows(path: Path, number: int) -> Iterator[tuple[int, LinePlace, Any]]:
    """Yield line number, place and value of each line; None for what is not JSON."""
    start = 0
    with path.open("rb") as file:
        for line, text in enumerate(file, start=1):
            place = LinePlace(number, start, len(text))
            start += len(text)
            if text.strip():
                try:
                    yield line, place, json.loads(text)
                except (ValueError, RecursionError):
                    yield line, place, None


class PromptWriter:
    """Writes files of prompts; each appears whole, or not at all, under the next free number."""

    def __init__(self, folder: Path) -> None:
        """Bind the folder; the first prompt creates it, and removes what killed runs left."""
        self._folder = folder
        self._temporary: Path | None = None
        self._rows = self._bytes = 0
        self.written: list[Path] = []

    def append(self, name: str, body: bytes) -> None:
        """Write the prompt of an id; `body` is the JSON of the request."""
        line = b'{"custom_id":"%s","method":"POST","url":"%s","body":%s}\n' % (
            name.encode("ascii"),
            URL.encode("ascii"),
            body,
        )
        if self._rows == MAX_ROWS or self._bytes + len(line) > MAX_BYTES:
            self.finish()
        if self._temporary is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            for left in self._folder.glob(".prompts-*"):
                if time.time() - left.stat().st_mtime >= _ABANDONED_S:
                    left.unlink(missing_ok=True)
            self._temporary = self._folder / f".prompts-{uuid.uuid4().hex}"
            self._file = self._temporary.open("wb")
        self._file.write(line)
        self._rows += 1
        self._bytes += len(line)

    def finish(self) -> None:
        """Give the open file its name."""
        if self._temporary is None:
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        number = 1
        while True:
            path = self._folder / f"prompts-{number:04d}.jsonl"
            try:
                os.link(self._temporary, path)  # fails if another run took the name
                break
            except FileExistsError:
                number += 1
        self._temporary.unlink()
        self._temporary, self._rows, self._bytes = None, 0, 0
        self.written.append(path)


MAX_TRIES = 3
"""Failed rows of one prompt (expired, refused, lost) after which it is not asked again."""


class BatchSession:
    """Finds answers in the files of a folder, and collects what has none in new files."""

    def __init__(self, engine: HttpEngine, folder: Path, found: BatchFolder) -> None:
        """Bind what the folder holds."""
        self._engine = engine
        self._folder = folder
        self._found = found
        self._dialect = engine.dialect
        self._writer = PromptWriter(folder)
        self._waiting: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._asked: set[bytes] = set()
        self._new = self._tokens_in = self._tokens_out = self._later = 0

    @classmethod
    async def open(cls, engine: HttpEngine, folder: Path) -> BatchSession:
        """Read the folder in a thread."""
        return cls(engine, folder, await asyncio.to_thread(BatchFolder, folder, engine.model))

    @property
    def submitted(self) -> tuple[int, int]:
        """The most tokens, in and out, of prompts in files that have no answer yet."""
        return self._found.submitted

    async def complete(self, call: Call) -> Reply:
        """Return an answer that came; raises ValueError for a call that has to wait."""
        if (reply := self.find(call)) is None:
            raise ValueError(f"{call.key.hex()}: no answer in {self._folder}")
        return reply

    def find(self, call: Call) -> Reply | None:
        """Return the answer to a call, or the fault that ends it; None if it has to wait."""
        name = call.key.hex()
        if (place := self._found.answers.get(name)) is not None:
            body = json.dumps(body_of(self._found.row(place))).encode("ascii")
            try:
                return protocol.read_completion(
                    body, call, self._dialect.limit(call.prompt), self._dialect.added(call.prompt)
                )
            except protocol.AttemptError as error:
                return Reply(fault=error.fault)
        failures = self._found.failures.get(name)
        if not failures or self._found.pending(name):
            return None
        row = self._found.row([*failures.values()][-1])
        failed = _error(status_of(row), row.get("error") or body_of(row))
        learned = self._engine.dialect.without(failed.fault.detail)
        if learned is not None:
            refused = self._dialect.refused | learned.refused
            self._dialect = replace(self._dialect, refused=refused)
        final = not (failed.passing or failed.hopeless or learned)
        if final or len(failures) >= MAX_TRIES:
            return Reply(fault=failed.fault, retries=len(failures) - 1)
        self._failed[failed.fault.detail] += 1
        return None

    def pending(self, call: Call) -> bool:
        """Whether the call is in a file already, and its answer has not come."""
        return call.key in self._asked or self._found.pending(call.key.hex())

    def defer(self, call: Call) -> None:
        """Put a call into a new file, unless one holds it already."""
        if call.key in self._asked:
            return
        if self.pending(call):
            name = self._found.files[self._found.prompts[call.key.hex()][-1]].name
            self._waiting[name] += 1
            return
        self._asked.add(call.key)
        self._writer.append(call.key.hex(), self._dialect.request(call))
        self._new += 1
        texts = [message["content"] for message in call.messages()]
        texts.append(self._engine.appended(call.prompt.schema))
        self._tokens_in += protocol.estimate_tokens(*texts)
        self._tokens_out += self._dialect.limit(call.prompt)

    def postpone(self, call: Call) -> None:
        """Leave a call, which the ceiling does not allow now, to a later run."""
        self._later += 1

    async def close(self) -> None:
        """Give the files of new prompts their names."""
        self._writer.finish()

    def awaited(self) -> str:
        """Say in one line what has to be answered before the run can go on; "" for nothing."""
        parts = []
        if self._new:
            files = ", ".join(path.name for path in self._writer.written)
            usd = self._engine.price(self._tokens_in, self._tokens_out)
            price = f", {usd:.2f} USD" if self._engine.priced else ""
            parts.append(
                f"submit {files} as a batch (or to vllm run-batch): {self._new:,} prompts, about "
                f"{self._tokens_in:,} tokens in, at most {self._tokens_out:,} out{price}"
            )
        if self._waiting:
            files = ", ".join(f"{name} ({n:,})" for name, n in sorted(self._waiting.items()))
            parts.append(f"answers are still missing of {files}")
        if self._later:
            parts.append(f"{self._later:,} prompts wait for the ceiling of the budget")
        if not parts:
            return ""
        parts += [f"{n:,} failed ({why})" for why, n in self._failed.most_common(2)]
        found = self._found
        parts += [
            f"{n:,} answers are of model {name} and not of {self._engine.model}: not taken"
            for name, n in found.other_models.most_common(2)
        ]
        if unknown := found.unknown():
            parts.append(f"{unknown:,} answers are to no prompt in the folder")
        if found.unread:
            parts.append(f"{len(found.unread):,} lines are unreadable, such as {found.unread[0]}")
        return (
            f"{self._folder}: {'; '.join(parts)}; put the answers there as *.jsonl and give the "
            f"same command again"
        )


def _error(status: int, error: object) -> protocol.AttemptError:
    """Make the error of a failed row; one without a status, as expired rows are, may pass."""
    body = json.dumps(error if isinstance(error, dict) else {"error": error}).encode("ascii")
    if status >= 400:
        return protocol.read_error(status, {}, body)
    code = error.get("code") if isinstance(error, dict) else None
    told = protocol.message_of(body.decode("ascii"))
    made = protocol.AttemptError("server", f"{code}: {told}" if code else told)
    made.fault = replace(made.fault, detail=made.fault.detail or "no completion")
    return made
