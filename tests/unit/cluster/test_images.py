"""The images of nodes: linted, complete, and alike."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.cluster.files import BIN, CLUSTER

IMAGES = ["Dockerfile", "Dockerfile.cpu"]


@pytest.mark.parametrize("name", IMAGES)
def test_dockerfiles_have_no_finding(name: str) -> None:
    told = subprocess.run([BIN / "hadolint", CLUSTER / name], capture_output=True, text=True)
    assert told.returncode == 0, told.stdout
    text = (CLUSTER / name).read_text("utf-8")
    assert re.search(r"^USER 10001$", text, re.MULTILINE), "not root"
    assert text.count("\nFROM ") + text.startswith("FROM ") == 2, "what builds stays behind"


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_has_what_rays_launcher_runs_in_it(name: str) -> None:
    final = (CLUSTER / name).read_text("utf-8").rpartition("\nFROM ")[2]
    for tool in ("openssh-client", "rsync"):
        assert f" {tool}=" in final
    assert '"PATH=/opt/srrag/bin:\\$PATH" >/etc/profile.d/srrag.sh' in final, "of login shells"
    assert "HOME=/home/srrag" in final, "else Ray's files are put in /root"
    if name == "Dockerfile":
        assert " gcc=" in final and " libc6-dev=" in final, "Triton compiles at run time"


def test_both_images_have_the_same_versions() -> None:
    gpu, cpu = ((CLUSTER / name).read_text("utf-8") for name in IMAGES)
    pythons = re.findall(r"uv venv --python (\S+)", gpu) + re.findall(r"python:([\d.]+)-", cpu)
    assert len(pythons) == 3
    assert len({*pythons}) == 1 and pythons[0].count(".") == 2, "Ray compares the patch level too"
    lines = (CLUSTER / "constraints.txt").read_text("utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    for text in (gpu, cpu):
        installs = re.findall(r"pip install(?:[^&\n]|\\\n)+", text)
        pinned = re.compile(r"--constraint constraints\.txt|torch==" + re.escape(pins["torch"]))
        assert installs and all(pinned.search(each) for each in installs)
    named_ = re.findall(r'"?\.\[([\w,]+)\]"?', gpu + cpu)
    extras = {"lab", "traces", "train"}
    assert [set(each.split(",")) - {"gpu"} for each in named_] == [extras] * 2
    project = tomllib.loads((CLUSTER.parent / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(one for key in named_[0].split(",") for one in extras[key]),
    ]
    for one in map(Requirement, [*wanted, "faiss-gpu==1.15.1", "boto3"]):
        assert one.specifier.contains(pins[canonicalize_name(one.name)]), one
