"""The log of a server: one JSON object a line on stderr, without the text of any question."""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def log(**fields: Any) -> None:
    """Write one line."""
    line = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **fields}
    print(json.dumps(line, ensure_ascii=False), file=sys.stderr, flush=True)
