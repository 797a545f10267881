from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from srrag.core.stage import Resources, Stage
from srrag.runner.ray.data import _check_listens, pools
from tests.toys import Double


@pytest.mark.parametrize("address", ["127.0.0.1:9", "auto"])
def test_a_ray_where_nobody_listens_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    with pytest.raises(RuntimeError, match=r"no Ray at [\d.]+:9: "):
        _check_listens(address)


def test_neighbours_with_equal_resources_share_a_pool() -> None:
    small, large = Resources(cpus=0.5), Resources(cpus=1.0, workers=2)
    stages = [
        Stage(name, Double(), ("numbers",), resources)
        for name, resources in zip("abcd", (small, small, large, small), strict=True)
    ]
    assert [[stage.name for stage in pool] for pool in pools(stages)] == [["a", "b"], ["c"], ["d"]]


CODE = """
import os, pathlib
from srrag.runner.ray.loopback import keep_ray_here
keep_ray_here()
folder = pathlib.Path(os.environ["RAY_TMPDIR"])
(folder / "session").mkdir()
(folder / "session" / "log").write_text("x")
print(folder, oct(folder.stat().st_mode & 0o777))
{end}
"""


def ran(end: str, **given: str) -> tuple[Path, str]:
    """The folder that a process gives to its Ray, and who may look into it."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    command = [sys.executable, "-c", CODE.replace("{end}", end)]
    told = subprocess.run(command, env={**kept, **given}, capture_output=True, text=True)
    folder, mode = told.stdout.split()
    return Path(folder), mode


@pytest.mark.parametrize("end", ["", "raise SystemExit(1)", "raise KeyboardInterrupt"])
def test_the_folder_of_a_ray_goes_with_its_process(end: str, tmp_path: Path) -> None:
    folder, mode = ran(end, TMPDIR=str(tmp_path))
    assert folder.parent == tmp_path and folder.name.startswith("srrag-ray-") and mode == "0o700"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_given_is_left(tmp_path: Path) -> None:
    folder, _ = ran("", RAY_TMPDIR=str(tmp_path))
    assert folder == tmp_path and (folder / "session" / "log").exists()
