"""`srrag doctor`: is this machine, the cluster of the profile, and the engine ready?

`srrag report-bug` writes the same into a file for a maintainer: checks, versions, choices, counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.config.words import choices_file, read_choices
from srrag.engine.examine import engine_checks
from srrag.library.prices import prices
from srrag.runner import doctor
from srrag.runner.pipeline_run import settled_embedder
from srrag.runner.progress import say
from srrag.runner.ray.data import RayDataRunner
from srrag.storage.store import Store

_STAGES = ("parsed", "documents", "chunks", "windows", "extracts", "vectors")


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Check Python, packages, the model, device, memory, disk, the cluster and the engine."""
    profile = config["profile"]
    probes = doctor.probes(
        lambda: model(config),
        Path(config["root"]),
        device=profile["device"],
        on_cluster=profile["runner"].get("address", "local") != "local",
        cpus=sum(factory.resources(config, name).cpus for name in _STAGES),
    )
    probes["arithmetic"] = lambda: arithmetic(Store(config["root"]).root)
    probes |= cluster_probes(config)
    checks = [{"check": name, **doctor.outcome(probe)} for name, probe in probes.items()]
    checks += engine_checks(factory.make(config["engine"], "engine")) + prices(config)
    for check in checks:
        say(f"{'ok  ' if check['ok'] else 'FAIL'} {check['check']:<10} {check['detail']}")
    extras, chosen = doctor.extras(), read_choices(choices_file(config["root"]))
    say("     extras     " + ", ".join(f"{k}: {'yes' if v else 'no'}" for k, v in extras.items()))
    return {
        "ok": all(check["ok"] for check in checks),
        "checks": checks,
        "extras": extras,
        "packages": doctor.packages(),
        "choices": {key: "…" if "://" in str(value) else value for key, value in chosen.items()},
        "build": doctor.build(Store(config["root"]), config["build"]),
    }


def model(config: dict[str, Any]) -> str:
    """Load the encoder and compare three texts."""
    from srrag.model.embed import check_similar  # imports torch

    return check_similar(factory.make(config["embedder"], "embedder"))


def arithmetic(root: Path) -> str:
    """What the vectors of a root cost here, and would cost in others, and by which kernels."""
    from srrag.model.linear import chosen, kernels, priced, rates  # imports torch

    measured, own = rates(), settled_embedder(root)
    told = f"{root} has embedder={own}" if own else f"`srrag init` would take {chosen(measured)}"
    return f"{priced(measured)}; {kernels()}; {told}"


def cluster_probes(config: dict[str, Any]) -> dict[str, doctor.Probe]:
    """Checks of the cluster that the profile's runner joins; none if it joins none."""
    runner = factory.runner(config)
    if not isinstance(runner, RayDataRunner) or runner.address == "local":
        return {}
    from srrag.runner.ray import doctor as cluster  # imports Ray

    expected = factory.make_as(cluster.Expected, config["cluster"], "cluster")
    if expected.model is None:
        say("     models     not checked: cluster.model names no folder")
    workers = {name: factory.resources(config, name) for name in config["profile"]["resources"]}
    on_gpus = config["profile"]["device"] != "cpu"
    return cluster.probes(runner, Store(config["root"]).root, expected, workers, on_gpus=on_gpus)
