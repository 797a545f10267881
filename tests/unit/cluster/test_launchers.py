"""Ray's own launcher and Slurm's: what they are told, and what they would do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import ray
import yaml

from tests.unit.cluster.files import BIN, CLUSTER


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
    assert "$" not in "".join(config["initialization_commands"]), "nothing is exported there"
    assert "sudo chown 10001:10001 /data" in config["initialization_commands"]


@pytest.mark.parametrize(
    "script", [CLUSTER / "slurm" / "srrag.sbatch", CLUSTER / "kuberay" / "secret.example.sh"],
    ids=lambda path: path.name,
)  # fmt: skip
def test_shell_scripts_have_no_finding(script: Path) -> None:
    told = subprocess.run([BIN / "shellcheck", script], capture_output=True, text=True)
    assert told.returncode == 0, told.stdout


def test_an_allocation_of_slurm_becomes_a_cluster_and_ends(tmp_path: Path) -> None:
    """The launcher under commands that only write down how they are called."""
    bin_ = tmp_path / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "activate").write_text(f'PATH="{bin_}:$PATH"\n', "utf-8")
    log = tmp_path / "called"
    fakes = {
        "scontrol": "printf 'n1\\nn2\\nn3\\n'",
        "ray": "[[ -s $RAY_AUTH_TOKEN_PATH && $RAY_AUTH_MODE == token ]]",
        "srun": 'while [[ $1 == --* ]]; do shift; done\n[[ $SRUN_CPUS_PER_TASK == 4 ]] && "$@"',
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
    doctor = "srrag doctor profile.runner.address=auto cluster.nodes=3 "
    assert doctor + "profile=a100x8 root=/data/R" in called
    assert "srrag build profile.runner.address=auto profile=a100x8 root=/data/R" in called
    assert list(tmp_path.glob(".srrag-*")) == [], "the token is gone"


def test_slurm_refuses_a_job_that_is_not_named() -> None:
    script = CLUSTER / "slurm" / "srrag.sbatch"
    told = subprocess.run(["bash", script], capture_output=True, text=True, timeout=60)
    assert told.returncode == 2
    assert told.stderr.startswith("usage:")
