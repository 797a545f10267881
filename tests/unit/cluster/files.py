"""Where the files of cluster/ are, and how they are read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CLUSTER = Path(__file__).resolve().parents[3] / "cluster"
KUBERAY = sorted((CLUSTER / "kuberay").glob("ray*.yaml"))
BIN = Path(sys.executable).parent


def walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            yield from walk(item)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))
