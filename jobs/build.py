"""`srrag build`: documents → windows → triples → graph and indexes, each stage once."""

from __future__ import annotations

from typing import Any

from srrag.library.build import build_root


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Build what is missing in `root` from `corpus`."""
    return build_root(config)
