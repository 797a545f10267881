"""The access log of a server: one JSON object per line, by default without question texts."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class AccessLog:
    """Appends lines to a file that all replicas share, or writes them to stderr.

    It opens the file for each line, so that the file can be rotated at any time.
    """

    path: Path | None = None

    def __call__(self, **fields: Any) -> None:
        """Write one line."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = json.dumps({"at": at, **fields}, ensure_ascii=False)
        if self.path is None:
            print(line, file=sys.stderr, flush=True)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8", errors="replace", opener=_private) as file:
            file.write(line + "\n")


def _private(path: str, flags: int) -> int:
    """Open a file that, if it is new, only its owner may read: lines hold callers and errors."""
    return os.open(path, flags, mode=0o600)
