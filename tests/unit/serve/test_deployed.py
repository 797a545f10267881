"""cluster/serve.yaml: what `serve deploy` would read and make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from srrag.core.errors import UsageError
from srrag.serve.configured import application
from srrag.serve.ray.deployments import Cluster

CONFIG = Path(__file__).resolve().parents[3] / "cluster" / "serve.yaml"


def args(root: Path, *more: str) -> dict[str, Any]:
    (stated,) = yaml.safe_load(CONFIG.read_text("utf-8"))["applications"]
    overrides = [each for each in stated["args"]["overrides"] if not each.startswith("root=")]
    return {"overrides": [f"root={root}", *overrides, *more]}


def deployments(application: Any) -> dict[str, Any]:
    """The deployments of an application by name, the ingress first."""
    found: dict[str, Any] = {}

    def look(item: Any) -> None:
        if isinstance(item, dict):
            item = list(item.values())
        if isinstance(item, (list, tuple)):
            for each in item:
                look(each)
        elif hasattr(item, "_bound_deployment"):
            found[item._bound_deployment.name] = item._bound_deployment
            look(item._bound_deployment.init_args)

    look(application)
    return found


def names(application: Any) -> list[str]:
    return list(deployments(application))


def test_serve_deploy_understands_the_file(sample_root: Path) -> None:
    config = ServeDeploySchema.model_validate(yaml.safe_load(CONFIG.read_text("utf-8")))
    assert config.applications[0].import_path == "srrag.serve.configured:application"
    assert config.http_options.host == "127.0.0.1"
    assert names(application(args(sample_root))) == ["srrag"]


def test_what_stands_apart_is_deployed_beside(sample_root: Path) -> None:
    commented = [line.strip() for line in CONFIG.read_text("utf-8").splitlines()]
    shown = [line[5:-1] for line in commented if line.startswith('# - "+deployments')]
    assert len(shown) == 2
    found = names(application(args(sample_root, *shown)))
    assert found == ["srrag", "ranker", "windows-0", "windows-1", "windows-2", "windows-3"]


def test_a_cluster_is_not_opened_without_keys_by_oversight(sample_root: Path) -> None:
    with pytest.raises(UsageError, match="api_keys"):
        application({"overrides": [f"root={sample_root}"]})
    with pytest.raises(UsageError, match="api_keys"):
        application(args(sample_root, "host=0.0.0.0"))


def test_an_engine_grows_when_it_is_told_to(sample_root: Path) -> None:
    engine = ["engine=vllm", "engine.model=lab/chat", f"engine.revision={'0' * 40}"]
    engine += ["engine.replicas=2", "engine.concurrency=10", "ray.max_replicas=8"]

    def bounds(*more: str) -> tuple[int, int, float]:
        made = deployments(application(args(sample_root, *engine, *more)))["engine"]
        config = made._deployment_config.autoscaling_config
        assert config.initial_replicas == 2
        return config.min_replicas, config.max_replicas, config.target_ongoing_requests

    assert bounds() == (2, 2, 8.0)
    assert bounds("ray.max_engine_replicas=6") == (2, 6, 8.0)
    assert bounds("ray.max_engine_replicas=6", "ray.min_engine_replicas=0") == (0, 6, 8.0)
    # Eight servers make 64 calls, which never are 80 % of eight times 512.
    assert bounds("ray.max_engine_replicas=8", "engine.concurrency=512") == (2, 8, 6.4)
    assert bounds("ray.max_engine_replicas=8", "ray.engine_target_calls=3") == (2, 8, 3.0)


def test_what_is_asked_nothing_may_go_and_has_shown_that_it_opens(sample_root: Path) -> None:
    none = ["ray.min_replicas=0", "+deployments.ranker={steps:[RerankMaxSim],min_replicas:0}"]
    for made in deployments(application(args(sample_root, *none))).values():
        config = made._deployment_config.autoscaling_config
        assert (config.min_replicas, config.initial_replicas) == (0, 1)
        assert config.downscale_delay_s > 2 * config.look_back_period_s
        assert config.look_back_period_s > config.metrics_interval_s


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *((name, -1) for name in (
            "min_replicas", "min_engine_replicas", "max_engine_replicas", "engine_target_calls",
            "cpus", "gpus", "upscale_delay_s", "downscale_delay_s",
        )),
        *((name, 0) for name in (
            "num_cpus", "object_store_mb", "max_replicas", "target_requests", "look_back_s",
            "report_s", "start_s",
        )),
    ],
)  # fmt: skip
def test_a_number_that_means_nothing_is_refused_by_name(name: str, number: int) -> None:
    told: dict[str, Any] = {name: number}
    with pytest.raises(ValueError, match=rf"^{name} is {number}: "):
        Cluster(**told)


def test_nothing_else_is_refused() -> None:
    Cluster(min_replicas=0, min_engine_replicas=0, upscale_delay_s=0, cpus=0, max_replicas=3)
    Cluster(min_replicas=2, max_replicas=2)
    with pytest.raises(ValueError, match="max_replicas is 2: less than min_replicas"):
        Cluster(min_replicas=3, max_replicas=2)
