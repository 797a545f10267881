"""What is logged to wandb; and that a server which is not there is said, not raised."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from srrag.lab.report import log_wandb
from srrag.lab.report.page import BenchmarkSection, section
from srrag.lab.report.results import Results, read_results
from srrag.lab.report.view import benches
from tests.unit.lab.report.toy_results import write_toy

needs_wandb = pytest.mark.skipif(
    importlib.util.find_spec("wandb") is None, reason="wandb is not installed"
)


@pytest.fixture
def report(tmp_path: Path) -> tuple[Results, list[BenchmarkSection], Path]:
    results = read_results(write_toy(tmp_path / "results"))
    shown = benches(results.rows)
    out = tmp_path / "out"
    (out / "plots").mkdir(parents=True)
    (out / "report.html").write_text("<!doctype html>")
    sections = [section(results, bench, worst=2, resamples=50, seed=0) for bench in shown]
    return results, sections, out


def test_the_tables_hold_every_figure(report: tuple[Results, list[BenchmarkSection], Path]) -> None:
    tables = {name: (columns, rows) for name, columns, rows in log_wandb.tables(report[1])}
    assert all(len(row) == len(columns) for columns, rows in tables.values() for row in rows)
    assert len(tables["values"][1]) == 4 and len(tables["systems"][1]) == 3
    assert ["toy", "ours", "plain", "coverage", 0.4, 0.1, 0.7, 0.01, 0.02] in tables["differences"][
        1
    ]
    assert tables["failures"][1][0][2:5] == ["q2", "ComposeAnswer", "timeout"]
    assert ["toy", "coverage", "condition", "ACL", 1, "ours", 0.8, ""] in tables["breakdowns"][1]
    assert len(tables["questions"][1]) == 4


@needs_wandb
def test_a_server_that_is_not_there_is_said(
    report: tuple[Results, list[BenchmarkSection], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setattr(log_wandb, "PATIENCE_S", 2.0)
    told = log_wandb.log(*report, "online")
    assert told["state"] == "failed" and told["detail"] and "\n" not in told["detail"]


def test_wandb_can_be_switched_off_by_its_own_variable(
    report: tuple[Results, list[BenchmarkSection], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert log_wandb.log(*report, True)["state"] == "disabled"
