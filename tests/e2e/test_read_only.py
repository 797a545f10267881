"""A root that this process may not write: asked, looked at and proved.

`tests/serve/test_serve_job.py` serves one.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from srrag.core.spec import file_sha256
from tests.conftest import REPOSITORY
from tests.e2e.command import SRRAG
from tests.unit.serve.serving import CAST

pytestmark = pytest.mark.e2e
_DROP_CAPABILITY, _IGNORES_MODES = 24, 1
"""PR_CAPBSET_DROP and CAP_DAC_OVERRIDE of prctl(2): a super-user without it heeds file modes."""


def heed_modes() -> None:
    """In a child before it begins: give up what lets a super-user write anywhere."""
    ctypes.CDLL(None).prctl(_DROP_CAPABILITY, _IGNORES_MODES, 0, 0, 0)


start = partial(
    subprocess.Popen, preexec_fn=heed_modes, cwd=REPOSITORY, text=True,
    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
)  # fmt: skip


def done(command: Sequence[str]) -> tuple[int, str, str]:
    with start(command) as process:
        stdout, stderr = process.communicate(timeout=200)
        return process.returncode, stdout, stderr


@contextmanager
def read_only(root: Path) -> Iterator[Path]:
    """Take the right to write a root and all below it, for as long as this lasts."""
    made = [root, *root.rglob("*")]
    for path in made:
        path.chmod(0o555 if path.is_dir() else 0o444)
    code, _, stderr = done([sys.executable, "-c", f"open({str(root / 'new')!r}, 'w')"])
    assert code == 1 and "PermissionError" in stderr, "the test would prove nothing"
    try:
        yield root
    finally:
        for path in made:
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.fixture
def root(sample_root: Path, tmp_path: Path) -> Iterator[Path]:
    with read_only(Path(shutil.copytree(sample_root, tmp_path / "root"))) as root:
        yield root


def contents(root: Path) -> dict[str, str]:
    return {str(path): file_sha256(path) for path in root.rglob("*") if path.is_file()}


def test_a_root_that_cannot_be_written_is_asked_and_proved(root: Path) -> None:
    before = contents(root)
    for pipeline in ("hybrid_maxsim", "bm25"):
        code, stdout, stderr = done(
            [*SRRAG, "ask", f"root={root}", f"pipeline={pipeline}", f"question={CAST}"]
        )
        assert code == 0, stderr
        assert json.loads(stdout.splitlines()[-1])["sentences"][0]["citations"]
    assert done([*SRRAG, "status", f"root={root}"])[0] == 0
    code, stdout, stderr = done([*SRRAG, "verify", f"root={root}"])
    assert code == 0 and json.loads(stdout.splitlines()[-1])["ok"], stderr
    code, _, stderr = done([*SRRAG, "build", f"root={root}", "+stages.windows.run.size_tokens=192"])
    assert code == 1 and str(root) in stderr and "Traceback" not in stderr
    assert contents(root) == before
