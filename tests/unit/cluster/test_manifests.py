"""The manifests of KubeRay, held against its schemas and Ray's options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray

from tests.unit.cluster.files import CLUSTER, KUBERAY, read, walk


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
    # The operator asks the head of a job or a service how it fares; unheard, a job has failed.
    host = "127.0.0.1" if manifest["kind"] == "RayCluster" else "0.0.0.0"
    assert cluster["headGroupSpec"]["rayStartParams"]["dashboard-host"] == host
    pods = [cluster["headGroupSpec"]["template"]["spec"]]
    pods += [group["template"]["spec"] for group in cluster["workerGroupSpecs"]]
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        # Else each mount walks the whole volume, and opens what is private to the group.
        assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
        claims = [item["persistentVolumeClaim"]["claimName"] for item in pod["volumes"]
                  if "persistentVolumeClaim" in item]  # fmt: skip
        assert claims == [read(CLUSTER / "kuberay" / "storage.yaml")["metadata"]["name"]]
        for container in pod["containers"]:
            assert "livenessProbe" in container
            names = {mount["name"] for mount in container["volumeMounts"]}
            assert names <= {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("path", KUBERAY, ids=lambda path: path.stem)
def test_rays_start_knows_its_parameters_and_spills_where_there_is_room(path: Path) -> None:
    from ray.scripts.scripts import start

    known = {option for parameter in start.params for option in parameter.opts}
    (cluster,) = (item for item in walk(read(path)) if "headGroupSpec" in item)
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert {f"--{key}" for key in group["rayStartParams"]} <= known
    for group in cluster["workerGroupSpecs"]:
        pod, given = group["template"]["spec"], group["rayStartParams"]
        at = {item["mountPath"]: item["name"] for item in pod["containers"][0]["volumeMounts"]}
        volumes = {item["name"]: item.get("emptyDir") for item in pod["volumes"]}
        shared = int(volumes[at["/dev/shm"]]["sizeLimit"].removesuffix("Gi")) * 2**30
        assert int(given["object-store-memory"]) < shared, "else it lies on a disk"
        assert "sizeLimit" in volumes[at[given["object-spilling-directory"]]]
