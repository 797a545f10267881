"""The `srrag` command: `srrag <job> [key=value …]`, also as `python -m srrag`."""

from __future__ import annotations

import importlib
import io
import os
import sys

from srrag.config.words import JOBS


def main() -> int:
    """Run a job by name; exit 0 done, 1 failed, 2 wrong usage."""
    for stream in (sys.stdout, sys.stderr):  # a console that lacks a letter shows its number
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code: int = importlib.import_module(f"{JOBS}.cli").main()
        sys.stdout.flush()
    except BrokenPipeError:  # `srrag --help | head`: its reader has gone, which is no fault
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())
