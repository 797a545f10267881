"""The whole build of the sample through a real vLLM: a model of no sense can break nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from srrag.engine.log.completion_log import CompletionLog
from srrag.runner.summary import read_rejects
from srrag.storage.store import Store
from tests.e2e.command import SRRAG, srrag, srrag_process

pytestmark = [pytest.mark.e2e, pytest.mark.ray, pytest.mark.long(900, "a real engine is started")]


def options(root: Path, model: Path, *more: str) -> list[str]:
    return [
        "build", f"root={root}", "profile=ray", "engine=vllm", f"engine.model={model}",
        "engine.device=cpu", "engine.dtype=float32", "engine.enforce_eager=true",
        "engine.kv_cache_gb=0.5", "engine.max_num_seqs=64", "max_failed_share=1",
        # Answers of a random model run to their limits: short ones prove as much.
        "++stages.extracts.run.max_tokens=256", "++stages.chunks.run.max_tokens=256",
        "+stages.chunks.run.engine=${engine}", *more,  # a model of no sense groups blocks too
    ]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that can read the longest prompt."""
    from tests.vllm.tiny_model import make_tiny_model

    return make_tiny_model(tmp_path_factory.mktemp("models") / "long", context=16_384)


@pytest.fixture(scope="module")
def built(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    root = tmp_path_factory.mktemp("vllm") / "root"
    summary, _ = srrag_process(*options(root, model))
    return root, summary


def test_every_row_is_parsed_or_rejected(built: tuple[Path, dict[str, Any]]) -> None:
    root, summary = built
    assert summary["documents"] == 55
    assert summary["calls"] > 55  # one for each document, and where blocks may be grouped
    assert summary["tokens_out"] > 2000
    proof, _ = srrag("verify", f"root={root}")
    assert proof["ok"]
    assert proof["completions"]["paid_twice"] == 0
    used = [summary["usage"][stage] for stage in ("chunks", "extracts")]
    assert all(stage["calls"] > 0 for stage in used)
    assert any(stage["faults"] for stage in used), "a random model makes mistakes"
    rejects = read_rejects(Store(root), "default")
    assert rejects.num_rows == summary["rejected"] > 0


def test_no_passage_is_lost(built: tuple[Path, dict[str, Any]]) -> None:
    """The chunks and rejects of each document, put together, are its text."""
    root, _ = built
    pointer = json.loads((root / "builds" / "default.json").read_text())["stages"]
    (part,) = pointer["chunks"]["parts"]
    folder = root / "stages" / "chunks" / pointer["chunks"]["fingerprint"]
    chunks = pq.read_table(folder / f"part-{part}.parquet")
    assert pc.min(chunks["char_end"]).as_py() > 0
    starts = Counter(
        zip(chunks["doc_id"].to_pylist(), chunks["char_start"].to_pylist(), strict=True)
    )
    assert set(starts.values()) == {1}, "no span twice"
    assert len(set(chunks["doc_id"].to_pylist())) == 55


def test_a_second_build_starts_no_engine(built: tuple[Path, dict[str, Any]], model: Path) -> None:
    root, first = built
    started = time.monotonic()
    summary, _ = srrag_process(*options(root, model))
    print(f"a finished build again: {time.monotonic() - started:.1f} s")
    assert summary["spent"]["calls"] == 0
    assert summary["rows"] == first["rows"]
    assert all(summary["reused"].values())


def test_a_killed_engine_and_a_killed_run_lose_no_row(model: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    seqs = 2  # few, so that there are calls left when the engine is killed
    command = [*options(root, model, f"engine.max_num_seqs={seqs}")]
    process = subprocess.Popen([*SRRAG, *command], stdout=subprocess.PIPE, text=True)
    killed = 0
    for target in (8, 20):
        _wait_for(root, target, process)
        os.kill(_core(process).pid, signal.SIGKILL)
        killed += 1
    _wait_for(root, 32, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    summary, _ = srrag_process(*command)
    assert summary["documents"] == 55
    proof, _ = srrag("verify", f"root={root}")
    paid = proof["completions"]
    print(f"{killed} engines and one run killed: {paid['paid_twice']} answers paid twice")
    assert proof["ok"]
    assert paid["paid_twice"] <= 2 * seqs * (killed + 1), "in flight: twice max_num_seqs"


def _wait_for(root: Path, answers: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert process.poll() is None, "the run ended too soon"
        if (root / "completions").exists():
            totals = CompletionLog(root / "completions").totals()
            if totals.completions + sum(totals.faults.values()) >= answers:
                return
        time.sleep(0.2)
    raise AssertionError(f"no {answers} answers in time")


def _core(process: subprocess.Popen[str]) -> psutil.Process:
    """The engine's process; one that was killed takes a while to be replaced."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, "the run ended too soon"
        if cores := [p for p in _family(process) if "EngineCore" in _title(p)]:
            return cores[0]
        time.sleep(0.2)
    raise AssertionError("no process of the engine")


def _family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
