"""A published system is its folder: what remains without it still works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SYSTEMS = sorted(each.parent.name for each in (REPOSITORY / "srrag/systems").glob("*/__init__.py"))
WITHOUT = {"rasrag": ["fit_thresholds", "plan=systems"], "ideprag": ["plan=systems"]}
"""What goes with a folder beside the system, as docs/systems.md says."""
ASKED = """
import json, sys
from importlib import import_module
from pkgutil import iter_modules
import jobs, srrag
from srrag.config import factory
from srrag.config.compose import configure
from srrag.config.places import choices
from srrag.core.kinds import MODULES
config = configure("ask", ["root=R", "question=x", "pipeline=hybrid"])
factory.make(config["pipeline"], "pipeline")
loaded = [name for name in sys.modules if name.startswith("srrag.systems.")]
def lost(name, use):
    try:
        use(name)
    except Exception:
        return True
without = [
    *(each.name for each in iter_modules(jobs.__path__)
      if lost(f"jobs.{each.name}", import_module)),
    *(f"plan={each}" for each in choices("plan")
      if lost(each, lambda name: configure("build", [f"plan={name}", "root=R", "mesh=M"]))),
]
print(json.dumps([list(choices("pipeline")), sorted(set(MODULES.values())), loaded, without]))
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_rest_works_where_the_folder_of_a_system_is_deleted(
    system: str, tmp_path: Path
) -> None:
    names = {path.stem for path in (REPOSITORY / "srrag/systems" / system).rglob("pipeline/*.yaml")}
    kept = shutil.ignore_patterns("__pycache__", system)
    for part in ("srrag", "conf", "jobs"):
        shutil.copytree(REPOSITORY / part, tmp_path / part, ignore=kept)
    assert not (tmp_path / "srrag/systems" / system).exists()
    told = subprocess.run(
        [sys.executable, "-c", ASKED],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    pipelines, modules, loaded, without = json.loads(told.stdout)
    others = [each for each in SYSTEMS if each != system]
    assert names and not names & set(pipelines) and "hybrid" in pipelines
    assert {f"srrag.systems.{each}" for each in others} == set(loaded), "no module of theirs"
    assert {name.split(".")[2] for name in modules if ".systems." in name} == {*others}
    assert without == WITHOUT.get(system, [])


def test_core_and_lab_name_no_system() -> None:
    paths = (path.relative_to(REPOSITORY) for path in (REPOSITORY / "srrag").rglob("*.py"))
    naming = {
        str(path)
        for path in paths
        if path.parts[1] != "systems"
        and any(
            f"srrag.systems.{each}" in (REPOSITORY / path).read_text("utf-8") for each in SYSTEMS
        )
    }
    assert not naming
