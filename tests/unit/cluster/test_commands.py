"""What the files of cluster/ tell Ray or a person to run, against the configuration."""

from __future__ import annotations

import re
import shlex

import pytest
import torch

from jobs import JOBS
from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.lab.experiment.configurations import named
from tests.unit.cluster.files import CLUSTER, read

RAYJOB = CLUSTER / "kuberay" / "rayjob-build.yaml"


def entrypoints() -> dict[str, list[str]]:
    """The words of the build's command, and of the sweep's in the comment, by job."""
    told = re.search(r"#   entrypoint: >-\n((?:#     .+\n)+)", RAYJOB.read_text("utf-8"))
    assert told is not None
    commented = told[1].replace("#     ", "")
    found = [shlex.split(text) for text in (read(RAYJOB)["spec"]["entrypoint"], commented)]
    return {words[1]: words for words in found}


def commands() -> list[str]:
    """What the files tell Ray or a person to run."""
    texts = [path.read_text("utf-8") for path in sorted(CLUSTER.rglob("*")) if path.is_file()]
    found = []
    for text in texts:
        joined = re.sub(r"\\?\n[# ]*", " ", text)
        found += re.findall(r"srrag (\w+) ((?:[\w.+]+=[^\s\"`…]+ ?)+)", joined)
    return [f"{job} {arguments}".strip() for job, arguments in found if job in JOBS]


@pytest.mark.parametrize("job", ["build", "sweep"])
def test_a_jobs_command_has_its_share_of_a_gpu(job: str) -> None:
    """It encodes on the device of the profile itself, and shares its GPU with the workers'."""
    manifest = read(RAYJOB)["spec"]
    (group,) = manifest["rayClusterSpec"]["workerGroupSpecs"]
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    srrag, _, *overrides = entrypoints()[job]
    config = configure(job, overrides)
    assert (srrag, config["profile"]["device"]) == ("srrag", "cuda")
    encoding = ("vectors", "titles") if job == "build" else ("ranking",)
    stages = [factory.resources(config, name) for name in encoding]
    engine = config["engine"]
    engines = engine["replicas"] * engine["tensor_parallel"] * engine["pipeline_parallel"]
    asked = (
        manifest["entrypointNumGpus"] + sum(each.workers * each.gpus for each in stages) + engines
    )
    assert 0 < manifest["entrypointNumGpus"] < 1 < manifest["entrypointNumCpus"]
    assert asked <= group["replicas"] * float(limits["nvidia.com/gpu"])
    again = 0 if config.get("budget", {}).get("max_tokens") else 1
    assert manifest["backoffLimit"] <= again, "a try is a cluster, also one that finds no budget"
    assert manifest["ttlSecondsAfterFinished"] <= 60, "nodes that nobody uses"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_command_on_a_head_without_gpu_says_how_to_get_one() -> None:
    with pytest.raises(UsageError, match="ray job submit --entrypoint-num-gpus"):
        factory.place(configure("build", ["profile=a100x8", "root=R"]))


def test_the_sweep_asks_its_model_and_judges_answers() -> None:
    _, job, *overrides = entrypoints()["sweep"]
    config = configure(job, overrides)
    assert config["bench"]["kind"] == "answers"
    own = [item for item in overrides if not item.startswith(("sweep", "out="))]
    rows = dict(named(config["sweep"]["rows"], []))
    assert len(rows) == 4, "the models that are not named have none"
    for row in rows.values():
        keys = {item.partition("=")[0] for item in row}
        common = [item for item in own if item.partition("=")[0] not in keys]
        made = configure("evaluate", [*common, *row])
        assert made["engine"] == config["engine"], "what answers is what judges"
        model = [item for item in row if item.startswith("pipeline.rank.fine.model=")]
        assert model and model[0].partition("=")[2].startswith("/data/")


@pytest.mark.parametrize("command", commands())
def test_commands_compose(command: str) -> None:
    job, *overrides = command.split()
    overrides = [item for item in overrides if "$" not in item]
    if job == "build" and not any(item.startswith("root=") for item in overrides):
        overrides.append("root=R")
    if not any(item.startswith("profile=") for item in overrides):
        overrides.append("profile=a100")  # the launcher's own checks come before what is sent
    if any(item == "engine=vllm" for item in overrides):
        overrides = [item for item in overrides if not item.startswith("engine.model")]
        overrides.append("engine.model=hub/model")
    configure(job, overrides)


def test_what_is_applied_is_a_file_that_is_there() -> None:
    texts = [
        path.read_text("utf-8") for path in CLUSTER.rglob("*") if path.suffix in (".yaml", ".md")
    ]
    applied = re.findall(r"kubectl (?:apply|create) -f (cluster/\S+?)[`\s]", " ".join(texts))
    assert len(applied) >= 4
    for name in applied:
        assert (CLUSTER.parent / name).is_file(), name
