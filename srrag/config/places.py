"""Where jobs and conf lie: inside the package in a wheel, beside it in the repository."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_WHEEL = (_PACKAGE / "jobs").is_dir()

CONF = (_PACKAGE if _WHEEL else _PACKAGE.parent) / "conf"
"""The folder of every job's YAML."""

CONFS = (CONF, *sorted((_PACKAGE / "systems").glob("*/conf")))
"""With those of the published systems; all are searched for the choices of a group."""

JOBS = "srrag.jobs" if _WHEEL else "jobs"
"""The name of the package of jobs."""


def choices(group: str) -> dict[str, Path]:
    """The files of a group's choices, by name."""
    files = (file for folder in CONFS for file in (folder / group).glob("*.yaml"))
    return {file.stem: file for file in sorted(files, key=lambda file: file.stem)}
