"""`srrag evaluate bench=sample`: a ranking, and its difference from another one."""

from __future__ import annotations

from pathlib import Path

from jobs.evaluate import run
from jobs.launch import configure


def test_two_pipelines_are_compared_with_p_values(sample_root: Path) -> None:
    argv = [f"root={sample_root}", "bench=sample", "pipeline=bm25", "resamples=300"]
    summary = run({**configure("evaluate", [*argv, "baseline=dense"]), "command": "test"})
    metrics, other = summary["metrics"], summary["baseline_metrics"]
    assert {"nDCG@10", "MRR@10", "P@10", "miss@10", "coverage@10"} <= set(metrics)
    for name, difference in summary["difference"].items():
        apart = metrics[name]["value"] - other[name]["value"]
        assert abs(difference["value"] - apart) < 2e-4
        assert 0 < difference["p"] <= difference["p_holm"] <= 1
    assert 0 < summary["difference"]["miss@10"]["p_mcnemar"] <= 1
    same = run({**configure("evaluate", [*argv, "baseline=bm25"]), "command": "test"})
    assert all(each["p"] == 1.0 for each in same["difference"].values())
