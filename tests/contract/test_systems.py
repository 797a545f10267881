"""A published system is its folder: what remains without it still works."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.step import LLMStep
from srrag.llm.completion import Rules

REPOSITORY = Path(__file__).resolve().parents[2]
SYSTEMS = sorted(each.parent.name for each in (REPOSITORY / "srrag/systems").glob("*/__init__.py"))
WITHOUT = {"rasrag": ["fit_thresholds", "plan=systems"], "ideprag": ["plan=systems"]}
"""What goes with a folder beside the system, as docs/systems.md says."""
ASKED = """
import json, os, sys
from importlib import import_module
from pkgutil import iter_modules

# What others wrote is imported once; each fork then has a package of its own to read.
import jobs
for each in iter_modules(jobs.__path__):
    import_module(f"jobs.{each.name}")
for name in [name for name in sys.modules if name.partition(".")[0] in ("srrag", "jobs")]:
    del sys.modules[name]
for folder in sys.argv[1:]:
    if not (child := os.fork()):
        break
    assert os.waitpid(child, 0)[1] == 0
else:
    sys.exit()
sys.path[0] = folder
os.chdir(folder)
import jobs, srrag
from srrag.config import factory
from srrag.config.compose import configure
from srrag.config.words import choices
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
assert srrag.__file__.startswith(folder)
print(json.dumps([list(choices("pipeline")), sorted(set(MODULES.values())), loaded, without]))
"""


@pytest.mark.parametrize(("row", "calls"), [("ideprag", 3), ("ideprag_paper", 4)])
def test_a_question_costs_so_many_steps_of_a_model(row: str, calls: int) -> None:
    model = ["engine=http", "engine.model=m", "engine.base_url=http://127.0.0.1:1/v1"]
    sweep = configure("sweep", ["sweep=systems", "bench=bioasq", "bench.path=B", "root=R", *model])
    argv = shlex.split(sweep["sweep"]["rows"][row])
    config = configure("ask", [*argv, "root=R", "question=x", *model])
    steps = factory.make(config["pipeline"], "pipeline").steps
    asking = [s for s in steps if isinstance(s, LLMStep) and not isinstance(s.engine, Rules)]
    assert len(asking) == calls


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What a package says that has all systems but one, by that one."""
    base = tmp_path_factory.mktemp("without")
    for system in SYSTEMS:
        kept = shutil.ignore_patterns(system)  # what is compiled is compiled for all
        for part in ("srrag", "conf", "jobs"):
            shutil.copytree(REPOSITORY / part, base / system / part, ignore=kept)
        assert not (base / system / "srrag/systems" / system).exists()
    ran = subprocess.run(
        [sys.executable, "-c", ASKED, *(str(base / system) for system in SYSTEMS)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(zip(SYSTEMS, map(json.loads, ran.stdout.splitlines()), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_rest_works_where_the_folder_of_a_system_is_deleted(
    system: str, told: dict[str, list[Any]]
) -> None:
    names = {path.stem for path in (REPOSITORY / "srrag/systems" / system).rglob("pipeline/*.yaml")}
    pipelines, modules, loaded, without = told[system]
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
