"""The `srrag` command: `srrag <job> [key=value …]`, also as `python -m srrag`."""

from __future__ import annotations

import importlib
import sys

from srrag.config.places import JOBS


def main() -> int:
    """Run a job by name; exit 0 done, 1 failed, 2 wrong usage."""
    code: int = importlib.import_module(f"{JOBS}.cli").main()
    return code


if __name__ == "__main__":
    sys.exit(main())
