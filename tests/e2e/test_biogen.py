"""BioGen's runs end to end on the sample: asked with their trace, judged, exported for TREC."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from srrag.export.submission import faults_of
from srrag.lab.report.results import read_results
from tests.conftest import linked
from tests.e2e.command import srrag

pytestmark = pytest.mark.e2e
JUDGES = ("support", "gold", "nuggets", "picot", "citations", "evidence", "claims",
          "accuracy", "similarity", "choice")  # fmt: skip


def test_an_answer_says_which_wording_found_its_evidence(sample_root: Path) -> None:
    question = "How long may an acute lateral ankle sprain be immobilised in a cast?"
    summary, shown = srrag(
        "ask", f"root={sample_root}", "pipeline=biogen_b", f"question={question}", "trace=true"
    )
    assert summary["off"] == ["SummariseDocuments", "CheckAnswer"]
    steps = [each["step"] for each in summary["trace"]]
    assert steps[:2] == ["Reformulate", "SearchBranches"]
    assert summary["expansion"]["reformulations"]
    assert {each["kind"] for each in summary["evidence"]} == {"bullet"}
    assert "question on all #1" in shown


def test_rows_become_runs_and_submissions(sample_root: Path, tmp_path: Path) -> None:
    root = linked(sample_root, tmp_path / "root")
    rows = ("+sweep.rows.b=pipeline=biogen_b", "+sweep.rows.d=pipeline=biogen_c")
    off = [f"bench.judges.{name}=null" for name in JUDGES]
    summary, _ = srrag(
        "sweep", "bench=answers", f"root={root}", f"out={tmp_path / 'S'}", "resamples=100",
        "bench.limit=12", *rows, *off,
    )  # fmt: skip
    assert summary["ok"]
    found = {row.name: row.metrics for row in read_results(tmp_path / "S").rows}
    assert {found[name]["within_caps"].value for name in "bd"} == {1.0}
    export = ("export", f"root={root}", f"results={tmp_path / 'S'}", f"out={tmp_path / 'X'}")
    srrag(*export, "format=trec")
    runs = {name: (tmp_path / "X" / f"{name}.trec").read_text().splitlines() for name in "bd"}
    assert all(line.split()[5] == "b" for line in runs["b"])
    assert runs["b"] != runs["d"]
    srrag(*export, "format=biogen")
    for name in "bd":
        entries = json.loads((tmp_path / "X" / f"{name}.json").read_text())
        assert faults_of(entries) == []
        assert len(entries) == summary["questions"]
