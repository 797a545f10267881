from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import jobs.fit_betr
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from tests.e2e.command import check_summary
from tests.simulated_pairs import TABLE_1, pairs_table, simulate_pairs


def fitted(*overrides: str) -> dict[str, Any]:
    return jobs.fit_betr.run({**configure("fit_betr", list(overrides)), "command": "test"})


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.parquet"
    pq.write_table(pairs_table(simulate_pairs(2 * TABLE_1, num_queries=300)), path)
    return path


def test_a_file_of_pairs(pairs: Path) -> None:
    summary = fitted(f"train.pairs={pairs}")
    out = pairs.parent / "betr"
    assert summary["out"] == str(out)
    assert {path.name for path in out.iterdir()} >= {"betr.json"}
    stated = json.loads((out / "betr.json").read_text())
    assert summary["u"] == stated["parameters"]["u"]
    assert summary["settings"]["objective"] == "posterior"
    assert summary["solver_gap"] < 1e-8
    assert (summary["pairs"], summary["queries"], summary["num_queries"]) == (4800, 300, 300)
    assert stated["split"]["validation_queries"] == 60
    assert len(stated["candidates"]) == 8
    loss = summary["metrics"]["validation_loss"]
    best = min(each["loss"] for each in stated["candidates"])
    assert loss["value"] == pytest.approx(best, abs=1e-4)
    assert (loss["n"], loss["better"]) == (60, "lower")
    check_summary("fit_betr", {"job": "fit_betr", **summary})
    json.dumps(summary, allow_nan=False)


def test_a_run_is_repeated_to_the_bit(pairs: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        fitted(f"train.pairs={pairs}", f"out={tmp_path / name}")
    one, two = (tmp_path / run / "betr.json" for run in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_one_candidate_is_fitted_to_every_query(pairs: Path) -> None:
    fixed = (f"train.pairs={pairs}", "train.objective=paper", "train.tau=1")
    whole = fitted(*fixed, "train.validation_share=0")
    assert "no query was held out" in whole["metrics"]["validation_loss"]["reason"]
    assert fitted(*fixed)["u"] == whole["u"]
    more = fitted(*fixed, "train.num_queries=600")
    assert more["num_queries"] == 600
    assert more["u"]["E"] > whole["u"]["E"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["train.tau=0"], "train.tau=0"),
        (["train.tau=[]"], "train.tau: at least one"),
        (["train.objective=map"], "train.objective=map"),
        (["train.num_queries=299"], "train.num_queries=299: the pairs are of 300 queries"),
        (["train.validation_share=1"], "train.validation_share=1"),
        (["train.validation_share=0"], "holds 0 out"),
        (["train.level=90"], "train.level=90"),
        (["train.draws=0"], "train.draws=0"),
        (["train.workers=2"], "workers need profile=ray"),
    ],
)
def test_wrong_settings_are_named(pairs: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(ValueError, match="train") as caught:
        fitted(f"train.pairs={pairs}", *overrides)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_pairs_and_nothing_to_rank() -> None:
    with pytest.raises(UsageError, match=r"train.pairs=FILE or root=FOLDER"):
        fitted()


def test_the_sample_benchmark(sample_root: Path, tmp_path: Path) -> None:
    """Pairs from a pipeline's ranking, and a pipeline that ranks by what was learned of them."""
    root = f"root={sample_root}"
    summary = fitted(root, "bench=sample", "pipeline=bm25", f"out={tmp_path}")
    table = pq.read_table(tmp_path / "pairs.parquet")
    counts = table.group_by("query_id").aggregate([("query_id", "count")])
    assert counts.num_rows == summary["queries"]
    assert summary["queries"] <= summary["num_queries"]
    assert summary["reranker"].startswith("SearchSparse@")
    assert set(table["grade_pos"].to_pylist()) <= set("ABCDE")
    again = fitted(f"train.pairs={tmp_path / 'pairs.parquet'}", f"out={tmp_path / 'again'}")
    assert again["u"] == summary["u"]
    assert again["reranker"] == summary["reranker"]
    assert again["num_queries"] == summary["num_queries"]


def test_a_benchmark_of_documents_has_no_gold_windows(sample_root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="gold windows"):
        fitted(f"root={sample_root}", "bench=beir", f"bench.path={tmp_path}")


def test_a_pipeline_that_ends_in_betr_is_fitted_beneath_it(
    sample_root: Path, tmp_path: Path
) -> None:
    """Without the file that is about to be written, and to the very scores that it will be for."""
    root, out = f"root={sample_root}", f"out={tmp_path / 'betr'}"
    beneath = fitted(root, "pipeline=hybrid_maxsim", f"out={tmp_path / 'beneath'}")
    summary = fitted(root, "pipeline=hybrid_betr", out)
    assert summary["reranker"] == beneath["reranker"]
    assert summary["u"] == beneath["u"]


def test_pairs_come_from_one_side_of_the_split(sample_root: Path, tmp_path: Path) -> None:
    ids = {}
    for split in ("train", "test"):
        out = tmp_path / split
        fitted(f"root={sample_root}", f"++bench.split={split}", "pipeline=bm25", f"out={out}")
        ids[split] = set(pq.read_table(out / "pairs.parquet")["query_id"].to_pylist())
    assert ids["train"] and ids["test"]
    assert not ids["train"] & ids["test"]
    with pytest.raises(ValueError, match=r"bench\.split=dev: one of train, test"):
        fitted(f"root={sample_root}", "++bench.split=dev", f"out={tmp_path}")
