"""Every file of conf/ composes, and everything that it names can be built."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from jobs import JOBS
from srrag.config import factory
from srrag.config.compose import configure
from srrag.config.words import CONFS
from srrag.core.errors import UsageError
from srrag.core.spec import build

REPOSITORY = Path(__file__).resolve().parents[2]
CONF = REPOSITORY / "conf"
GROUPS = sorted((path.parent.name, path.stem) for conf in CONFS for path in conf.glob("*/*.yaml"))
HOST = {
    "corpus": "build", "schema": "build", "embedder": "build", "profile": "build",
    "pipeline": "evaluate", "bench": "evaluate", "engine": "build",
    "mentions": "build", "sweep": "sweep", "plan": "build", "late": "build",
    "index": "build",
    "answering": "evaluate",
}  # fmt: skip
APART = {"plan", "engine", "mentions", "late", "index"}
"""Groups whose choices need certain choices of other groups; all others are composed together."""
NEEDED = {
    "init": ["root=R"],
    "build": ["root=R"],
    "ask": ["root=R", "question=x"],
    "synthesise": ["root=R", "question=x"],
    "answer": ["root=R", "queries=Q"],
    "serve": ["root=R"],
    "mcp": ["root=R"],
    "evaluate": ["bench.path=P"],
    "sweep": ["root=R", "bench.path=P"],
    "report": ["results=R"],
    "review": ["out=O"],
    "organize": ["graph.path=G", "root=R"],
    "make_benchmark": ["root=R"],
    "fit_betr": ["root=R"],
    "fit_abstain": ["root=R", "bench.path=P", "train.texts=T"],
    "fit_thresholds": ["root=R", "queries=Q", "qrels=Q"],
    "train_encoder": ["train.data=D", "gate.data=G"],
    "train_tagger": ["train.data=D"],
    "train_filter": ["train.data=D"],
    "export": ["root=R", "format=html"],
    "status": ["root=R"],
    "verify": ["root=R"],
    "forget": ["root=R"],
    "doctor": [],
}


def targets(config: Any) -> list[dict[str, Any]]:
    """The outermost nodes that name a class."""
    if isinstance(config, dict):
        if "_target_" in config:
            return [config]
        return [found for value in config.values() for found in targets(value)]
    if isinstance(config, list):
        return [found for value in config for found in targets(value)]
    return []


@pytest.mark.parametrize("job", JOBS)
def test_each_job_composes_and_its_parts_build(job: str) -> None:
    config = configure(job, NEEDED[job])
    for node in targets(config):
        assert build(node) is not None


def chosen(group: str, choice: str) -> list[str]:
    """The override of a choice, and what it needs."""
    overrides = [f"{group}={choice}"]
    if group == "corpus" and choice not in ("sample", "open_access"):
        overrides.append("corpus.path=/nowhere")
    if group == "engine" and choice != "rules":
        overrides += ["engine.model=some/model", "engine.revision=c0ffee"]
    if (group, choice) == ("engine", "batch"):
        overrides.append("engine.folder=F")
    if (group, choice) == ("embedder", "folder"):
        overrides.append("embedder.model=m")
    if (group, choice) == ("mentions", "tagger"):
        overrides += ["mentions.model=m", "mentions.revision=sha256:c0ffee"]
    return overrides


def beside(group: str, choice: str) -> dict[str, str]:
    """The n-th choice of each group of the same job, so that few compositions hold all choices.

    A group with fewer choices begins again.
    """
    if group in APART:
        return {group: choice}
    choices: dict[str, list[str]] = {}
    for each, name in GROUPS:
        if HOST[each] == HOST[group] and each not in APART:
            choices.setdefault(each, []).append(name)
    place = choices[group].index(choice)
    return {each: names[place % len(names)] for each, names in choices.items()}


@pytest.mark.parametrize(("group", "choice"), GROUPS, ids=lambda x: x)
def test_each_choice_composes_and_builds(group: str, choice: str) -> None:
    job, together = HOST[group], beside(group, choice)
    assert together[group] == choice
    overrides = [item for each, name in together.items() for item in chosen(each, name)]
    config = configure(job, [*overrides, *NEEDED[job]])
    nodes = targets(config["stages" if group in ("plan", "index") else group])
    assert nodes or group in ("profile", "bench", "sweep", "late", "index")
    for node in nodes:
        assert build(node) is not None
    if job == "build":
        plan = factory.plan(config, factory.make(config["corpus"], "corpus"))
        assert [stage.name for stage in plan.steps][:3] == ["notices", "parsed", "documents"]


@pytest.mark.parametrize(
    "choice", sorted({path.stem for path in CONF.glob("engine/*.yaml")} - {"batch"})
)  # batch is http without what concerns a server
def test_every_field_of_an_engine_stands_in_its_file(choice: str) -> None:
    """What does not stand there cannot be overridden on the command line."""
    config = configure("build", ["root=R", f"engine={choice}", *(
        ["engine.model=some/model", "engine.revision=c0ffee"] if choice != "rules" else []
   
    )])["engine"]  # fmt: skip
    fields = {field.name for field in dataclasses.fields(build(config))}
    alone = {"folder"} if choice == "http" else set()  # engine=batch is what sets it
    assert fields - set(config) == alone


def test_every_job_has_a_file() -> None:
    assert {path.stem for path in CONF.glob("*.yaml")} == set(JOBS)


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["root=R", "corpsu=beir"], "corpsu"),
        (["root=R", "corpus=nothing"], "nothing"),
        (["root=R", "a/", "corpus.path=b/"], "corpus.path"),
        (["-x"], "key=value"),
        (["root=R", "stages.windows.run.size=3"], "size"),
    ],
)
def test_wrong_usage_is_one_line_that_names_the_key(argv: list[str], hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        config = configure("build", argv)
        factory.plan(config, factory.make(config["corpus"], "corpus"))
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_reads_a_stage_that_is_left_out_is_left_out_too() -> None:
    config = configure(
        "build", ["root=R", "plan=graph", "stages.vectors=null", "stages.communities=null"]
    )
    plan = factory.plan(config, factory.make(config["corpus"], "corpus"))
    names = {stage.name for stage in plan.stages}
    assert names >= {"windows", "triples", "entities", "sparse", "units"}
    assert not names & {"vectors", "dense", "tokens", "communities", "tree", "graph"}


def test_a_target_outside_the_allow_list_is_refused() -> None:
    for name in ("os.system", "srrag.storage.atomic_write.commit_json"):
        with pytest.raises(UsageError, match="no kind"):
            factory.make({"_target_": name}, "corpus")
