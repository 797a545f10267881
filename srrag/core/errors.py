"""The errors of SR-RAG, and how an error of reading a file becomes one.

    SrragError
    ├── UsageError              (ValueError)    wrong usage, configuration or input: exit code 2
    ├── DamagedError            (ValueError)    a file is not what its manifest says
    ├── TooManyFailuresError    (RuntimeError)  a stage lost more rows than max_failed_share
    ├── StalledError            (RuntimeError)  a run on Ray made no progress for too long
    ├── Unparsable                              a record without a document; becomes a reject row
    ├── ApiError                                the HTTP response to a request that failed
    ├── EngineError             (RuntimeError)  within the engines; a run never sees one
    │   ├── AttemptError                        one HTTP attempt failed and may be repeated
    │   ├── CallError                           a call to vLLM failed, and no other
    │   ├── SessionLostError                    a session died; a new one may work
    │   └── DispatcherLostError                 the process that sends the calls died
    └── Halt                    (RuntimeError)  ends a run or a batch; no row is at fault
        ├── EngineStopped                       an engine cannot go on: key, too many faults
        │   └── BudgetSpent                     the ceiling of tokens or money is reached
        ├── AnswersAwaited                      prompts in files wait for their answers: exit code 3
        ├── ClientGone                          no client waits for the answer any more
        └── Refused                             another deployment refused the work

A function that gets a wrong argument raises ValueError. A row that fails is data (`reject`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class SrragError(Exception):
    """Base of the errors that SR-RAG raises on purpose."""


class UsageError(SrragError, ValueError):
    """Wrong usage, configuration or input, in one line that names the key, file or row (exit 2)."""


class EngineError(SrragError, RuntimeError):
    """An error between the parts of an engine, which one of them handles."""


class Halt(SrragError, RuntimeError):
    """Ends a run or a batch at once: no row is at fault, so none is rejected or tried alone."""


@contextlib.contextmanager
def reading(*paths: Path) -> Iterator[None]:
    """Turn any ValueError or OSError of reading these files into a UsageError that names the file.

    Every job then reports an unreadable line as wrong usage, whichever reader finds it.
    """
    try:
        yield
    except UsageError:
        raise
    except (ValueError, OSError) as error:
        said = first_line(error)
        if isinstance(error, OSError) and error.strerror:
            said = f"{error.filename or paths[0]}: {error.strerror}"
        if isinstance(error.__cause__ or error, UnicodeDecodeError):
            raise UsageError(next(filter(None, map(_undecoded, paths)), said)) from error
        named = any(str(path) in said for path in paths)
        raise UsageError(said if named else f"{paths[0]}: {said}") from error


def _undecoded(path: Path) -> str:
    """Find the line of a file that is not UTF-8; readers decode in blocks and cannot name it."""
    if path.is_file():
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return f"{path}:{number}: not UTF-8 ({error.reason})"
    return ""


def check_numbers(config: Mapping[str, Any], **least: int) -> None:
    """Raise UsageError unless each of these keys is an integer of at least its bound."""
    for key, bound in least.items():
        number = config[key]
        if isinstance(number, bool) or not isinstance(number, int) or number < bound:
            raise UsageError(f"{key}={number}: a whole number, at least {bound}")


def first_line(error: object) -> str:
    """Return the first non-blank line of an error's text, or the name of its class."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
