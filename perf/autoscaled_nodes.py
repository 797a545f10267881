"""A Ray on this machine whose nodes come and go: its own autoscaler with nodes that are processes.

Ray's `AutoscalingCluster` reads a file that its wheel lacks, and ends every Ray of the machine
before it starts. So the same is done here by a configuration of our own, in a folder of its own.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID

PROVIDER = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
_EMPTY = (
    "initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands",
    "head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files",
)  # fmt: skip
"""What nodes that are machines would be given: the autoscaler looks for these keys."""

_UP_S = 60.0


def configuration(address: str, cpus: int, most: int, idle_s: float) -> dict[str, Any]:
    """What the autoscaler reads: up to `most` nodes, which go `idle_s` after their last work."""
    worker = {"CPU": cpus, "object_store_memory": 80 << 20}
    return {
        "cluster_name": "here",
        "max_workers": most,
        "provider": {
            "type": "external", "module": PROVIDER, "gcs_address": address,
            "launch_multiple": True, "head_node_id": FAKE_HEAD_NODE_ID,
        },
        "available_node_types": {
            "ray.head.default": {"resources": {}, "node_config": {}, "max_workers": 0},
            "worker": {
                "resources": worker, "node_config": {}, "min_workers": 0, "max_workers": most,
            },
        },
        "head_node_type": "ray.head.default",
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": idle_s / 60,
        **{key: [] for key in _EMPTY},
    }  # fmt: skip


@contextmanager
def autoscaled(head_cpus: int, cpus: int, most: int, idle_s: float = 15.0) -> Iterator[str]:
    """Start a head node whose autoscaler adds nodes of `cpus` logical CPUs; yields its address.

    Raises RuntimeError without a token in the environment, which Ray reads when it is loaded.
    """
    if "RAY_AUTH_TOKEN" not in os.environ:
        told = "RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(openssl rand -hex 32)"
        raise RuntimeError(f"set {told} before the command: this Ray listens on the network")
    from ray._private import services

    with socket.socket() as sock, tempfile.TemporaryDirectory(prefix="srrag-ray-") as folder:
        sock.bind(("", 0))
        port = sock.getsockname()[1]
        sock.close()
        address = f"{services.get_node_ip_address()}:{port}"
        (config := Path(folder, "autoscaler.json")).write_text(
            json.dumps(configuration(address, cpus, most, idle_s)), "utf-8"
        )
        env = {
            **os.environ, "RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1",
            "RAY_enable_autoscaler_v2": "1", "RAY_CLOUD_INSTANCE_ID": FAKE_HEAD_NODE_ID,
            "RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD_NODE_ID,
        }  # fmt: skip
        command = [
            sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block",
            f"--port={port}", f"--num-cpus={head_cpus}", f"--object-store-memory={80 << 20}",
            f"--autoscaling-config={config}", f"--temp-dir={folder}", "--include-dashboard=false",
            "--disable-usage-stats",
        ]  # fmt: skip
        with Path(folder, "head.log").open("w", encoding="utf-8") as log:
            head = subprocess.Popen(command, env=env, stdout=log, stderr=log)
            try:
                _wait(head, address, Path(folder, "head.log"))
                yield address
            finally:
                _end(head)


def _wait(head: subprocess.Popen[bytes], address: str, log: Path) -> None:
    """Wait until the head is up; raises RuntimeError that says what it said."""
    until = time.monotonic() + _UP_S
    while "Ray runtime started" not in log.read_text("utf-8"):
        if head.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"no head at {address}: {log.read_text('utf-8')[-2000:]}")
        time.sleep(0.2)


def _end(head: subprocess.Popen[bytes]) -> None:
    """End a head and all that it started, by their process ids."""
    if head.poll() is not None:
        return
    started = psutil.Process(head.pid).children(recursive=True)
    head.terminate()
    try:
        head.wait(20)
    except subprocess.TimeoutExpired:
        head.kill()
    for each in psutil.wait_procs(started, timeout=5)[1]:
        each.kill()
