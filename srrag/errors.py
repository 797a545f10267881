"""The errors that a user meets, and the one way to raise them for input files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class UsageError(ValueError):
    """Wrong usage, configuration or input, in one line that names the key, file or row: exit 2."""


@contextlib.contextmanager
def reading(*paths: Path) -> Iterator[None]:
    """Raise UsageError, which names the file, for what is wrong with those that were given.

    So a line that cannot be taken is wrong usage in every job, whichever reader meets it.
    """
    try:
        yield
    except UsageError:
        raise
    except (ValueError, OSError) as error:
        said = first_line(error)
        if isinstance(error.__cause__ or error, UnicodeDecodeError):
            raise UsageError(next(filter(None, map(_undecoded, paths)), said)) from error
        named = any(str(path) in said for path in paths)
        raise UsageError(said if named else f"{paths[0]}: {said}") from error


def _undecoded(path: Path) -> str:
    """The line of a file that is not UTF-8: readers decode many at once, and cannot name it."""
    if path.is_file():
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return f"{path}:{number}: not UTF-8 ({error.reason})"
    return ""


def check_numbers(config: Mapping[str, Any], **least: int) -> None:
    """Raise UsageError unless each of these keys is a whole number that is not below its least."""
    for key, bound in least.items():
        number = config[key]
        if isinstance(number, bool) or not isinstance(number, int) or number < bound:
            raise UsageError(f"{key}={number}: a whole number, at least {bound}")


def first_line(error: object) -> str:
    """The first line of an error's text that is not blank, or else the name of its class."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
