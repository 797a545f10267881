"""A published system is its folder: what remains without it still works."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.step import LLMStep
from srrag.llm.completion import Rules

REPOSITORY = Path(__file__).resolve().parents[2]
SYSTEMS = sorted(each.parent.name for each in (REPOSITORY / "srrag/systems").glob("*/__init__.py"))
WITHOUT = ["fit_thresholds", "plan=systems"]
"""What goes with folders beside the systems, as docs/systems.md says."""
ASKED = """
import json, os, sys
from importlib import import_module
from pkgutil import iter_modules

folder = sys.argv[1]
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


@pytest.mark.slow
def test_the_rest_works_where_the_folders_of_all_systems_are_deleted(tmp_path: Path) -> None:
    for part in ("srrag", "conf", "jobs"):
        shutil.copytree(REPOSITORY / part, tmp_path / part)
    for system in SYSTEMS:
        shutil.rmtree(tmp_path / "srrag/systems" / system)
    ran = subprocess.run(
        [sys.executable, "-c", ASKED, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    pipelines, modules, loaded, without = json.loads(ran.stdout)
    names = {path.stem for path in (REPOSITORY / "srrag/systems").rglob("pipeline/*.yaml")}
    assert len(names) >= len(SYSTEMS) and not names & set(pipelines) and "hybrid" in pipelines
    assert loaded == [] and not [name for name in modules if ".systems." in name]
    assert without == WITHOUT


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_pipeline_or_a_plan_of_a_system_is_made_of_its_own_and_of_the_rest(system: str) -> None:
    own = [path for each in ("pipeline", "plan") for path in configured(system, each)]
    others = [each for each in SYSTEMS if each != system]
    theirs = {str(path.stem) for each in others for path in configured(each, "**")}
    for each in others:
        theirs |= set(import_module(f"srrag.systems.{each}").KINDS)
    named = {word for path in own for word in named_in(yaml.safe_load(path.read_text("utf-8")))}
    assert own and not named & theirs
    package = REPOSITORY / "srrag/systems" / system / "__init__.py"
    assert "import" not in package.read_text("utf-8"), "naming its kinds loads none of its modules"


def configured(system: str, group: str) -> list[Path]:
    return sorted((REPOSITORY / "srrag/systems" / system / "conf").glob(f"{group}/**/*.yaml"))


def named_in(config: Any) -> Iterator[str]:
    """The kinds and the files that a configuration names."""
    if isinstance(config, dict):
        yield from (each.rpartition("/")[2] for each in config.get("defaults", []))
        yield from [config["_target_"]] if "_target_" in config else []
        config = list(config.values())
    if isinstance(config, list):
        for each in config:
            yield from named_in(each)


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
