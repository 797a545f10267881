"""Packages of the lab come with an extra, and a command that lacks them names it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from jobs import OF_LAB

ALONE = """
import importlib, sys
sys.modules |= dict.fromkeys({lacking})
for job in ("build", "ask", "synthesise", "evaluate", "serve"):
    importlib.import_module(f"jobs.{{job}}")
from jobs.cli import main
sys.exit(main(["review", "folder=F"]))
"""


def test_of_build_ask_and_review_only_review_says_what_to_install() -> None:
    code = ALONE.format(lacking=[*OF_LAB])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: srrag review needs: pip install 'srrag[lab]'\n"


def test_the_extra_has_what_its_jobs_lack() -> None:
    told = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    extra = {
        each.split(">")[0].split("=")[0] for each in told["project"]["optional-dependencies"]["lab"]
    }
    assert extra == {*OF_LAB}
