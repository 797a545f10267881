"""Servers on clusters: their configuration, their ports, and who measures them."""

from __future__ import annotations

import importlib
import json
import re
from typing import Any

import pytest
import yaml

from srrag.config.compose import configure
from srrag.serve.ray.deployments import prepare
from tests.unit.cluster.files import CLUSTER, read, walk


def test_whoever_serves_has_the_environment_that_serving_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = dict(
        re.findall(r"^#   (RAY_\w+)=(\S+)", (CLUSTER / "serve.yaml").read_text("utf-8"), re.M)
    )
    set_here: dict[str, str] = {}
    monkeypatch.setattr("srrag.serve.ray.deployments.os.environ", set_here)
    prepare()
    assert asked == set_here and len(asked) == 4
    for name in ("raycluster.yaml", "rayservice.yaml"):
        manifest = read(CLUSTER / "kuberay" / name)
        pods = [item["containers"][0] for item in walk(manifest) if "containers" in item]
        assert len(pods) == 2
        for pod in pods:
            assert asked.items() <= {item["name"]: item["value"] for item in pod["env"]}.items()
    launched = read(CLUSTER / "ray-up.yaml")
    for name in ("head_start_ray_commands", "worker_start_ray_commands"):
        (start,) = (line for line in launched[name] if "ray start" in line)
        before = dict(item.split("=", 1) for item in start.partition(" ray start")[0].split())
        assert asked.items() <= before.items()


def ports_of(manifest: Any) -> dict[str, int]:
    pods = [item["containers"][0] for item in walk(manifest) if "containers" in item]
    return {port["name"]: port["containerPort"] for pod in pods for port in pod["ports"]}


def test_the_api_has_another_port_than_rays_metrics() -> None:
    launched = (CLUSTER / "ray-up.yaml").read_text("utf-8")
    metrics = {int(port) for port in re.findall(r"--metrics-export-port=(\d+)", launched)}
    manifest = read(CLUSTER / "kuberay" / "rayservice.yaml")
    named_ = ports_of(manifest)
    assert metrics == {named_["metrics"]}
    served = {name: config["http_options"]["port"] for name, config in serve_configs().items()}
    assert set(served.values()) == {named_["serve"]} != metrics
    scraped = read(CLUSTER / "monitoring" / "prometheus.yaml")["scrape_configs"]
    (target,) = next(job for job in scraped if job["job_name"] == "srrag")["static_configs"]
    assert target["targets"] == [f"127.0.0.1:{served['serve.yaml']}"]


def test_prometheus_may_reach_what_it_looks_for() -> None:
    monitor = read(CLUSTER / "monitoring" / "podmonitor.yaml")["spec"]
    policy = read(CLUSTER / "kuberay" / "networkpolicy.yaml")["spec"]
    assert monitor["selector"] == policy["podSelector"]
    (monitoring,) = (rule for rule in policy["ingress"] if "monitoring" in json.dumps(rule["from"]))
    ports = ports_of(read(CLUSTER / "kuberay" / "rayservice.yaml"))
    looked_for = {ports[end["port"]] for end in monitor["podMetricsEndpoints"]}
    assert looked_for == {item["port"] for item in monitoring["ports"]}


def test_a_service_uses_the_gpus_of_its_node_and_limits_its_callers() -> None:
    manifest = read(CLUSTER / "kuberay" / "rayservice.yaml")
    (group,) = manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    gpus = int(group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
    for name, config in serve_configs().items():
        overrides = config["applications"][0]["args"]["overrides"]
        made = configure("serve", overrides)
        assert made["limits"]["per_minute"] > 0, name
        if "engine=vllm" in overrides:
            assert made["engine"]["replicas"] > 1, "one may be lost"
            assert made["ray"]["max_engine_replicas"] == gpus * group["minReplicas"]


def serve_configs() -> dict[str, Any]:
    """The Serve configurations by the file that they are in."""
    manifest = read(CLUSTER / "kuberay" / "rayservice.yaml")
    return {
        "serve.yaml": read(CLUSTER / "serve.yaml"),
        "rayservice.yaml": yaml.safe_load(manifest["spec"]["serveConfigV2"]),
    }


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
@pytest.mark.parametrize("name", ["serve.yaml", "rayservice.yaml"])
def test_serve_takes_its_configuration(name: str) -> None:
    from ray.serve.schema import ServeDeploySchema

    config = serve_configs()[name]
    ServeDeploySchema.model_validate(config)
    (application,) = config["applications"]
    module, _, function = application["import_path"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))
    overrides = [item for item in application["args"]["overrides"] if "engine.model" not in item]
    configure("serve", [*overrides, "+engine.model=m"] if "engine=vllm" in overrides else overrides)
    if config["http_options"]["host"] != "127.0.0.1":
        assert any(item.startswith("api_keys=") for item in overrides)


def test_the_dashboard_shows_what_the_server_measures() -> None:
    from srrag.serve.telemetry import Metrics

    text = (CLUSTER / "monitoring" / "grafana-dashboard.json").read_text("utf-8")
    shown = set(re.findall(r"srrag_\w+", " ".join(re.findall(r'"expr": "(.*)"', text))))
    families = {family.name: family.type for family in Metrics().registry.collect()}
    emitted = set()
    for name, kind in families.items():
        endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "gauge": [""]}
        emitted |= {name + ending for ending in endings[kind]}
    assert shown <= emitted, shown - emitted
    bases = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in shown}
    assert bases == set(families), "each is shown"
    jobs = {
        job["job_name"]
        for job in read(CLUSTER / "monitoring" / "prometheus.yaml")["scrape_configs"]
    }
    assert jobs == {"srrag", "ray"}
