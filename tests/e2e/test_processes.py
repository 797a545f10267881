"""The command as users start it: one path for all jobs, which other tests run in their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import linked
from tests.e2e.command import srrag, srrag_process
from tests.encoder_toys import pooled_bert, write_beir

pytestmark = pytest.mark.e2e
QUESTION = "question=How long may an acute lateral ankle sprain be immobilised in a cast?"


@pytest.fixture(scope="module")
def root(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return linked(sample_root, tmp_path_factory.mktemp("processes") / "root")


def test_a_job_is_a_process_with_one_json_line(root: Path) -> None:
    summary, stderr = srrag_process("status", f"root={root}")
    assert summary["job"] == "status" and "build" in summary
    assert "Traceback" not in stderr


def test_a_batch_of_questions_is_answered_by_a_process(root: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    queries.write_text(json.dumps({"id": 1, "text": QUESTION.partition("=")[2]}) + "\n")
    out = f"out={tmp_path / 'answers'}"
    summary, _ = srrag_process("answer", f"root={root}", "pipeline=bm25", f"queries={queries}", out)
    assert (summary["questions"], summary["failed"]) == (1, 0)


def test_an_encoder_learns_from_a_benchmark_and_serves_a_build(root: Path, tmp_path: Path) -> None:
    """The benchmark's quotes stand in windows of a build; the folder is one of `embedder=`.

    The steps are too small to change an order, so that the gate lets the folder pass.
    """
    base = pooled_bert(tmp_path / "base")
    gate = write_beir(tmp_path / "gate", 12)
    choice = ["embedder=folder", "embedder.max_tokens=64"]
    summary, _ = srrag(
        "train_encoder", "train.data=pkg://srrag/sample/questions.jsonl", f"train.root={root}",
        f"gate.data={gate}", f"embedder.model={base}", "train.max_tokens=64", *choice,
        "train.batch=16", "train.learning_rate=1e-9", f"out={tmp_path / 'out'}",
    )  # fmt: skip
    used = [*choice, f"embedder.model={summary['model']}", f"root={tmp_path / 'root'}"]
    srrag("build", *used, "stages.extracts=null")
    scored, _ = srrag("evaluate", *used, "bench=sample", "pipeline=dense")
    assert scored["in_sample"]["parts"] == {"embedder": summary["questions"]}


def test_wrong_usage_is_exit_2(root: Path) -> None:
    _, stderr = srrag_process("ask", f"root={root}", "pipeline=nothing", QUESTION, code=2)
    assert "nothing" in stderr and "Traceback" not in stderr
