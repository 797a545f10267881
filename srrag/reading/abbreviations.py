"""The file of abbreviations that a build writes."""

from __future__ import annotations

import json
from pathlib import Path

from srrag.storage.mirror import pull_build

FILE = "abbreviations.json"


def read_abbreviations(folder: Path) -> dict[str, str]:
    """Read what the build wrote; raises ValueError that names an unreadable file."""
    pull_build(folder)
    path = folder / FILE
    try:
        found: dict[str, str] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: not the abbreviations of a build ({error})") from error
    return found
