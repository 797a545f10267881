from pathlib import Path

import pytest

from srrag.core.cpus import usable_cpus


def test_a_quota_affinity_and_the_environment_bound_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    quota = tmp_path / "cpu.max"
    assert usable_cpus(quota) == 8  # no control group
    quota.write_text("max 100000\n")
    assert usable_cpus(quota) == 8
    quota.write_text("250000 100000\n")
    assert usable_cpus(quota) == 2
    quota.write_text("50000 100000\n")
    assert usable_cpus(quota) == 1
    quota.unlink()
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert usable_cpus(quota) == 3
