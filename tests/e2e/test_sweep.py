"""`srrag sweep`: killed, it goes on; a longer list runs what is new; what fails takes no other."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from srrag.lab.report.results import read_results
from srrag.runner import pipeline_run as sweep
from tests.conftest import linked
from tests.e2e.answered import counts, held, hold, release, sends, start, wait_for
from tests.e2e.command import fault, srrag
from tests.endpoint_process import started

pytestmark = pytest.mark.e2e
JUDGES = ("support", "picot", "citations", "evidence", "claims", "accuracy", "similarity",
          "choice")  # fmt: skip
QUESTIONS, PART = 28, 14
"""Two parts."""
RULES = ("--script", "rules", "--lifetime", "600")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some of the packaged questions, in parts of PART."""
    source = Path(__file__).parents[2] / "srrag" / "sample" / "questions.jsonl"
    path = tmp_path / "gold.jsonl"
    lines = source.read_text("utf-8").splitlines()[::2][:QUESTIONS]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    monkeypatch.setattr(sweep, "PART_QUESTIONS", PART)
    return path


def copy_build(source: Path, root: Path) -> None:
    """A build without what other tests asked of it."""
    linked(source, root, "answers-*", "questions", "jobs")


def command(root: Path, bench: Path, url: str, k: str = "4,8") -> list[str]:
    """Answers by a model, from a few pieces of evidence, beside one by rules."""
    ranking = "pipeline.rank.reason=null pipeline.rank.encode=null pipeline.rank.dense=null"
    fused = "pipeline.rank.fuse.channels=[hits_sparse] pipeline.rank.fuse.into=hits"
    off = "pipeline.rank.judge=null pipeline.rank.filter=null"
    rest = f"{off} pipeline.rank.sparse.text=text pipeline.answer.select.k={k}"
    model = f"engine=http engine.model=toy engine.concurrency=4 engine.base_url={url}"
    return [
        "sweep", "bench=answers", f"bench.path={bench}", f"root={root}", "resamples=200",
        *(f"bench.judges.{name}=null" for name in JUDGES), "+sweep.rows.rules=pipeline=bm25",
        f"+sweep.rows.model=pipeline=rethinking {ranking} {fused} {rest} {model}",
    ]  # fmt: skip


def parts(root: Path) -> dict[str, int]:
    """When each part of a stage of pipelines was written; one counts once its receipt stands."""
    receipts = (root / "stages").glob("answers-*/*/part-*.json")
    found = [path.with_suffix(".parquet") for path in receipts]
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in found}


def table(root: Path) -> dict[str, Any]:
    """The figures of each row."""
    rows = read_results(root / "jobs" / "sweep").rows
    return {row.name: (row.metrics, row.difference, row.failed) for row in rows}


def test_a_killed_sweep_goes_on_and_a_longer_one_runs_what_is_new(
    sample_root: Path, bench: Path, tmp_path: Path
) -> None:
    roots = [tmp_path / "whole", tmp_path / "killed"]
    for root in roots:
        copy_build(sample_root, root)
    with started(tmp_path, *RULES) as (_, url):
        whole, shown = srrag(*command(roots[0], bench, url))
        called = sends(url)
        assert called == len(counts(url)["calls"]) == whole["usage"]["answers"]["calls"]
        assert (whole["configurations"], whole["questions"], whole["stages"]) == (3, QUESTIONS, 9)
        assert whole["parts"] == whole["parts_made"] == 18
        assert "srrag answer " in shown, "the command that repeats a row with an engine of its own"
        done = command(roots[1], bench, url)
        (tmp_path / "port").unlink()
        with started(tmp_path, *RULES) as (_, other):
            done = [item.replace(url, other) for item in done]
            hold(other, called // 3)
            process = start(done, f"--part-questions={PART}")
            wait_for(lambda: held(other) > 0, process)
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            release(other)
            stood = parts(roots[1])
            assert 0 < len(stood) < 18
            assert not (roots[1] / "jobs" / "sweep" / "rows.json").exists()
            resumed, _ = srrag(*done)
            assert resumed["parts_made"] == 18 - len(stood)
            assert stood.items() <= parts(roots[1]).items(), "what stood was not made again"
            assert len(counts(other)["calls"]) == called
            assert sends(other) <= called + 4, "at most what was in flight was asked again"
            assert table(roots[1]) == table(roots[0])
            asked = sends(other)
            longer, _ = srrag(*command(roots[1], bench, other, k="4,8,12"))
            assert (longer["configurations"], longer["parts_made"]) == (4, 6)
            # One row of two asked: with more evidence, the gate opens for another question or two.
            assert 0 < sends(other) - asked <= called // 2 + 4
            assert table(roots[1])["model, k=4"][0] == table(roots[0])["model, k=4"][0]


def test_what_cannot_be_run_is_named_before_and_what_dies_is_a_row(
    sample_root: Path, bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "PART_QUESTIONS", QUESTIONS)
    root = tmp_path / "root"
    copy_build(sample_root, root)
    asked = command(root, bench, "http://127.0.0.1:9/v1", k="4")
    assert "configuration 'wrong': " in fault(*asked, "+sweep.rows.wrong=pipeline=x", code=2)
    assert not parts(root)
    summary, shown = srrag(*asked, code=1)
    assert list(summary["failed"]) == ["model"]
    assert "127.0.0.1:9" in summary["failed"]["model"]
    assert "FAILED" in shown
    rows = {row.name: row for row in read_results(root / "jobs" / "sweep").rows}
    assert rows["rules"].state == "done"
    assert rows["rules"].metrics["nugget_coverage"].value is not None
    assert rows["model"].state == "failed"
