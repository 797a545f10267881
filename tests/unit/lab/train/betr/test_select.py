from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from srrag.algo.betr import Floats
from srrag.lab.experiment.fit_betr import FitOutcome, Fitter, choose, choose_and_fit
from srrag.lab.train.betr.fit import BetrSettings, BetrTask, run_task
from srrag.lab.train.betr.pair_file import PairFile, read_pairs
from tests.simulated_pairs import TABLE_1, pairs_table, simulate_pairs


def selected(
    tmp_path: Path, u: Floats, *, share: float = 0.2, num_queries: int = 400,
    settings: tuple[BetrSettings, ...] = (
        BetrSettings(objective="posterior", tau=1.0), BetrSettings(objective="paper", tau=0.1),
    ),
) -> tuple[PairFile, list[BetrTask], FitOutcome]:  # fmt: skip
    path = tmp_path / "pairs.parquet"
    pq.write_table(pairs_table(simulate_pairs(u, num_queries=num_queries)), path)
    file = read_pairs(path)
    tasks = [
        BetrTask(
            pairs=str(path), fingerprint=file.fingerprint, settings=s, num_queries=num_queries,
            share=share, seed=0,
        )
        for s in settings
    ]  # fmt: skip
    fitter = Fitter(lambda many: [run_task(t) for t in many], run_task)
    return file, tasks, choose_and_fit(file, tasks, fitter)


def test_validation_chooses_the_posterior_where_grades_matter(tmp_path: Path) -> None:
    _, tasks, outcome = selected(tmp_path, 2 * TABLE_1)
    assert outcome.settings == tasks[0].settings
    assert [row["objective"] for row in outcome.compared] == ["posterior", "paper"]
    assert outcome.compared[0]["loss"] < outcome.compared[1]["loss"]


def test_what_was_chosen_is_fitted_to_all_queries(tmp_path: Path) -> None:
    _, tasks, outcome = selected(tmp_path, 2 * TABLE_1)
    assert outcome.fit == run_task(dataclasses.replace(tasks[0], share=0.0))
    assert outcome.training.sum() == 320


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_one_candidate_needs_no_held_out_query(tmp_path: Path, share: float) -> None:
    _, tasks, outcome = selected(
        tmp_path, TABLE_1, share=share, num_queries=2, settings=(BetrSettings(),)
    )
    assert outcome.held_out is None
    assert outcome.fit == run_task(dataclasses.replace(tasks[0], share=0.0))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.99])
def test_an_empty_split_compares_nothing(tmp_path: Path, share: float) -> None:
    with pytest.raises(ValueError, match="of 2 queries holds"):
        selected(tmp_path, TABLE_1, share=share, num_queries=2)


def test_the_first_of_equal_candidates_is_chosen(tmp_path: Path) -> None:
    _, tasks, _ = selected(tmp_path, TABLE_1, num_queries=20)
    same = run_task(tasks[0])
    worse = dataclasses.replace(same, validation_loss=9.0)
    assert choose([worse, same, same]) == 1
