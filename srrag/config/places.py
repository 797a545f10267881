"""Where jobs and conf lie: inside the package in a wheel, beside it in the repository."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_WHEEL = (_PACKAGE / "jobs").is_dir()

CONF = (_PACKAGE if _WHEEL else _PACKAGE.parent) / "conf"
"""The folder of every job's YAML."""

JOBS = "srrag.jobs" if _WHEEL else "jobs"
"""The name of the package of jobs."""
