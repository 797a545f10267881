"""Links to files that never change and that several folders share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def link_or_copy(path: Path, to: Path) -> None:
    """Link a file that never changes into a second folder; copy it if links are unsupported."""
    try:
        os.link(path, to)
    except OSError:
        shutil.copyfile(path, to)
