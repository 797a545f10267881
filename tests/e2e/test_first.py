"""One way through all of it, by the command: a build, a question, a figure, a proof."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.command import fault, srrag

pytestmark = pytest.mark.e2e


def test_papers_become_an_answer_with_citations(tmp_path: Path) -> None:
    papers, root = tmp_path / "papers", tmp_path / "root"
    papers.mkdir()
    (papers / "guideline.md").write_text(
        "---\nid: good\ngrade: A\n---\n# Ankle sprain guideline\n\n## Recommendations\n\n"
        "Early weight bearing is recommended for adults with an acute lateral ankle sprain.\n"
    )
    (papers / "broken.xml").write_text("<article><body><p>never closed")
    built, _ = srrag("build", "corpus=folder", f"corpus.path={papers}", f"root={root}")
    assert (built["documents"], built["rejected"]) == (1, 1)
    answer, shown = srrag("ask", f"root={root}", "question=Is early weight bearing recommended?")
    assert answer["sentences"][0]["citations"] == [1]
    assert answer["evidence"][0]["grade"] == "A" and "grade A" in shown
    assert srrag("verify", f"root={root}")[0]["ok"]
    assert json.loads((root / "jobs/build/summary.json").read_text()) == built
    assert "nowhere" in fault("status", "root=/nowhere", code=2)
