"""What compared systems are called, and what repeats the second one."""

from __future__ import annotations

import pytest

from srrag.config.compose import configure
from srrag.lab.experiment.evaluate import baseline_of, system_names


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        ([], ("hybrid", "")),
        (["pipeline=dense", "pipeline=bm25", "baseline=srrag"], ("bm25", "srrag")),
        (["+answering.Rules.select.k=4", "baseline=hybrid"], ("hybrid", "hybrid (2)")),
        (["bench.answers=a/one.parquet"], ("one", "")),
        (["bench.answers=a/one.parquet", "baseline=bm25"], ("one", "bm25")),
        (["bench.answers=a/x.parquet", "bench.baseline_answers=b/x.parquet"],
         ("a/x.parquet", "b/x.parquet")),
        (["bench.answers=a/x.parquet", "bench.baseline_answers=a/x.parquet"],
         ("a/x.parquet", "a/x.parquet (2)")),
    ],
)  # fmt: skip
def test_names(argv: list[str], names: tuple[str, ...]) -> None:
    config = configure("evaluate", ["bench=answers", *argv])
    assert system_names(config["bench"], config["overrides"], config["baseline"]) == names


def test_a_baseline_is_repeated_alone() -> None:
    argv = ["bench=answers", "root=R", "out=O", "bench.answers=A", "engine=rules", "baseline=bm25"]
    config = baseline_of(configure("evaluate", argv))
    assert config["overrides"] == ["bench=answers", "root=R", "engine=rules", "pipeline=bm25"]
