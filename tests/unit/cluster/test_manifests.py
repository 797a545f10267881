"""The files of cluster/, held against the schemas and linters of those who read them."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
import yaml

from jobs.cli import JOBS
from jobs.launch import configure

CLUSTER = Path(__file__).resolve().parents[3] / "cluster"
KUBERAY = sorted((CLUSTER / "kuberay").glob("ray*.yaml"))
BIN = Path(sys.executable).parent


def strict(schema: Any) -> Any:
    """A Kubernetes schema as JSON schema: unknown fields are faults, numbers may be text."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items() if not key.startswith("x-")}
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(schema.get("properties"), dict) and not open_ended:
        made.setdefault("additionalProperties", False)
    return made


def faults(kind: str, shared: Path, manifest: Any) -> list[str]:
    schema = json.loads((shared.parent / "schemas" / f"kuberay_{kind}.json").read_text("utf-8"))
    top = strict(schema["schema"])
    top["properties"] |= {"metadata": {"type": "object"}}
    found = jsonschema.Draft202012Validator(top).iter_errors(manifest)
    return [f"{fault.json_path}: {fault.message[:200]}" for fault in found]


def walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            yield from walk(item)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize("path", KUBERAY, ids=lambda path: path.stem)
def test_kuberay_takes_it(path: Path, shared_data: Path) -> None:
    manifest = read(path)
    assert faults(manifest["kind"], shared_data, manifest) == []
    (cluster,) = (item for item in walk(manifest) if "headGroupSpec" in item)
    cluster["headGroupSpec"]["rayStartParms"] = {}
    assert any(
        "rayStartParms" in fault for fault in faults(manifest["kind"], shared_data, manifest)
    )


@pytest.mark.parametrize("path", KUBERAY, ids=lambda path: path.stem)
def test_every_cluster_asks_for_a_token_and_runs_as_nobody_special(path: Path) -> None:
    manifest = read(path)
    (cluster,) = (item for item in walk(manifest) if "headGroupSpec" in item)
    assert cluster["authOptions"]["mode"] == "token"
    assert cluster["rayVersion"] == ray.__version__
    if manifest["kind"] != "RayService":
        assert cluster["headGroupSpec"]["rayStartParams"]["dashboard-host"] == "127.0.0.1"
    pods = [cluster["headGroupSpec"]["template"]["spec"]]
    pods += [group["template"]["spec"] for group in cluster["workerGroupSpecs"]]
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        claims = [item["persistentVolumeClaim"]["claimName"] for item in pod["volumes"]
                  if "persistentVolumeClaim" in item]  # fmt: skip
        assert claims == [read(CLUSTER / "kuberay" / "storage.yaml")["metadata"]["name"]]
        for container in pod["containers"]:
            assert "livenessProbe" in container
            names = {mount["name"] for mount in container["volumeMounts"]}
            assert names <= {volume["name"] for volume in pod["volumes"]}


def commands() -> list[str]:
    """What the files tell Ray or a person to run."""
    texts = [path.read_text("utf-8") for path in sorted(CLUSTER.rglob("*")) if path.is_file()]
    found = []
    for text in texts:
        joined = re.sub(r"\\?\n[# ]*", " ", text)
        found += re.findall(r"srrag (\w+) ((?:[\w.+]+=[^\s\"…]+ ?)+)", joined)
    return [f"{job} {arguments}".strip() for job, arguments in found if job in JOBS]


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


def test_rays_launcher_takes_it() -> None:
    text = (CLUSTER / "ray-up.yaml").read_text("utf-8")
    config = yaml.safe_load(text)
    schema = Path(ray.__file__).parent / "autoscaler" / "ray-schema.json"
    jsonschema.validate(config, json.loads(schema.read_text("utf-8")))
    assert config["head_node_type"] in config["available_node_types"]
    for name in ("head_start_ray_commands", "worker_start_ray_commands"):
        starts = [line for line in config[name] if "ray start" in line]
        assert starts
        assert all("RAY_AUTH_MODE=token" in line for line in starts)
    assert "--dashboard-host=127.0.0.1" in "".join(config["head_start_ray_commands"])


@pytest.mark.parametrize(
    "script", [CLUSTER / "slurm" / "srrag.sbatch", CLUSTER / "kuberay" / "secret.example.sh"],
    ids=lambda path: path.name,
)  # fmt: skip
def test_shell_scripts_have_no_finding(script: Path) -> None:
    told = subprocess.run([BIN / "shellcheck", script], capture_output=True, text=True)
    assert told.returncode == 0, told.stdout


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cpu"])
def test_dockerfiles_have_no_finding(name: str) -> None:
    told = subprocess.run([BIN / "hadolint", CLUSTER / name], capture_output=True, text=True)
    assert told.returncode == 0, told.stdout
    text = (CLUSTER / name).read_text("utf-8")
    assert re.search(r"^USER 10001$", text, re.MULTILINE), "not root"
    assert text.count("\nFROM ") + text.startswith("FROM ") == 2, "what builds stays behind"


def test_an_allocation_of_slurm_becomes_a_cluster_and_ends(tmp_path: Path) -> None:
    """The launcher under commands that only write down how they are called."""
    bin_ = tmp_path / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "activate").write_text(f'PATH="{bin_}:$PATH"\n', "utf-8")
    log = tmp_path / "called"
    fakes = {
        "srun": 'while [[ $1 == --* ]]; do shift; done\n"$@"',
        "scontrol": "printf 'n1\\nn2\\nn3\\n'",
        "ray": "[[ -s $RAY_AUTH_TOKEN_PATH && $RAY_AUTH_MODE == token ]]",
        "srrag": "[[ $1 == doctor ]] || exit 3",
    }
    for name, body in fakes.items():
        path = bin_ / name
        path.write_text(f'#!/usr/bin/env bash\necho "{name} $*" >>"{log}"\n{body}\n', "utf-8")
        path.chmod(0o755)
    (bin_ / "python").symlink_to(sys.executable)
    script = CLUSTER / "slurm" / "srrag.sbatch"
    environment = {
        "PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "17", "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_CPUS_PER_TASK": "4", "SLURM_GPUS_ON_NODE": "2",
    }  # fmt: skip
    told = subprocess.run(
        ["bash", script, "build", "profile=a100x8", "root=/data/R"],
        env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    called = log.read_text("utf-8")
    assert told.returncode == 3, "the job's own exit code"
    assert "--nodelist=n1 --overlap ray start --head --block --node-ip-address=n1" in called
    assert "--nodes=2 --ntasks=2 --exclude=n1" in called
    assert "--num-cpus=4 --num-gpus=2" in called
    doctor = "srrag doctor profile.runner.address=auto cluster.nodes=3 profile=a100x8 root=/data/R"
    assert doctor in called
    assert "srrag build profile.runner.address=auto profile=a100x8 root=/data/R" in called
    assert list(tmp_path.glob(".srrag-*")) == [], "the token is gone"


def test_slurm_refuses_a_job_that_is_not_named() -> None:
    script = CLUSTER / "slurm" / "srrag.sbatch"
    told = subprocess.run(["bash", script], capture_output=True, text=True, timeout=60)
    assert told.returncode == 2
    assert told.stderr.startswith("usage:")


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
    from srrag.serve.metrics import Metrics

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
