"""What a fit makes of planted, flat and inverted pairs, and that it is one fit wherever it runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from srrag.algo.betr import Floats, log_likelihood
from srrag.lab.experiment.fit_betr import (
    FitOutcome,
    choose,
    choose_and_fit,
    table_1,
    write_report,
)
from srrag.lab.experiment.running import trials
from srrag.lab.train.betr.fit import (
    BetrSettings,
    BetrTask,
    Certainty,
    Fit,
    certainty,
    fit,
    run_plain,
    run_task,
    split_queries,
)
from srrag.lab.train.betr.pair_file import PairFile, read_pairs
from srrag.storage.atomic_write import read_json
from tests.simulated_pairs import TABLE_1, pairs_table, simulate_pairs
from tests.together import work_together

PAPER = BetrSettings(objective="paper")
POSTERIOR = BetrSettings(objective="posterior")
NUM_QUERIES = 1310


def fitted(u: Floats, settings: BetrSettings) -> Fit:
    return fit(simulate_pairs(u, num_queries=NUM_QUERIES), None, settings, NUM_QUERIES)


def certain(u: Floats) -> Certainty:
    pairs = simulate_pairs(u, num_queries=NUM_QUERIES)
    return certainty(pairs, POSTERIOR, NUM_QUERIES, level=0.9, num_draws=1000, seed=0)


def test_the_prior_of_the_paper_objective_wins_over_ample_data() -> None:
    """Eq. 8 divides the likelihood by |Q| and the prior not: u_E = −.52 becomes about −.09."""
    found = fitted(TABLE_1, PAPER)
    assert found.gap < 1e-8
    assert -0.12 < found.u["E"] < -0.04


def test_the_posterior_recovers_what_was_planted() -> None:
    found = certain(TABLE_1)
    assert np.allclose(list(found.fit.u.values()), TABLE_1, atol=0.06)
    # One pair in twenty of bounds may miss: checked here at three standard errors' width.
    width = found.u[:, 1] - found.u[:, 0]
    assert (found.u[:, 0] - 0.4 * width <= TABLE_1).all()
    assert (found.u[:, 1] + 0.4 * width >= TABLE_1).all()
    assert found.a[0] < 1 < found.a[1]


def test_flat_pairs_have_biases_whose_intervals_hold_zero() -> None:
    found = certain(0 * TABLE_1)
    assert (found.u[:, 1] == 0).all()
    assert found.u.min() > -0.15


def test_inverted_pairs_give_no_bias() -> None:
    found = certain(-TABLE_1)
    assert min(found.fit.u.values()) > -0.01
    assert found.u.min() > -0.02
    assert (found.u[:, 1] == 0).all()


def test_queries_without_pairs_count_in_the_paper_objective() -> None:
    pairs = simulate_pairs(TABLE_1, num_queries=200)
    few, many = (fit(pairs, None, PAPER, size) for size in (200, 400))
    assert many.u["E"] > few.u["E"] * 0.7
    likelihood = log_likelihood(np.array(many.theta), pairs)[0]
    prior = sum(delta**2 for delta in many.theta[1:]) / 2 + many.theta[0] ** 2 / 50
    assert many.objective == pytest.approx(likelihood / 400 - prior, abs=1e-12)


def test_the_loss_is_that_of_validation() -> None:
    pairs = simulate_pairs(TABLE_1, num_queries=100)
    keep = np.arange(100) < 70
    train, held = pairs.select(keep), pairs.select(~keep)
    for settings in (POSTERIOR, PAPER):
        found = fit(train, held, settings, 70)
        theta = np.array(found.theta)
        assert found.validation_loss == pytest.approx(-log_likelihood(theta, held)[0] / 30)
        objective = settings.to(70).evaluate(theta, train, lambda x: x)[0]
        assert found.objective == pytest.approx(objective)


def test_the_split_is_by_query_and_by_id() -> None:
    ids = [f"q{n}" for n in range(1637)]
    training = split_queries(ids, 0.2, 42)
    assert (training.sum(), (~training).sum()) == (1310, 327)
    turned = split_queries(ids[::-1], 0.2, 42)
    assert np.array_equal(training, turned[::-1])
    assert not np.array_equal(training, split_queries(ids, 0.2, 43))


@pytest.fixture
def task(tmp_path: Path) -> BetrTask:
    path = tmp_path / "pairs.parquet"
    pq.write_table(pairs_table(simulate_pairs(TABLE_1, num_queries=60)), path)
    file = read_pairs(path)
    return BetrTask(
        pairs=str(path), fingerprint=file.fingerprint, settings=PAPER, num_queries=70, share=0.2,
        seed=1,
    )  # fmt: skip


def test_a_task_travels_as_json(task: BetrTask) -> None:
    assert Fit(**run_plain(task.plain())) == run_task(task)


def test_a_file_that_changed_is_refused(task: BetrTask) -> None:
    pq.write_table(pairs_table(simulate_pairs(TABLE_1, num_queries=60, seed=9)), task.pairs)
    with pytest.raises(ValueError, match="has changed since the run began"):
        run_task(task)


def test_three_workers_fit_what_one_does(task: BetrTask) -> None:
    alone, found = run_plain(task.plain()), work_together(run_plain, task.plain(), size=3)
    assert np.allclose(found["theta"], alone["theta"], atol=1e-9)
    assert found["validation_loss"] == pytest.approx(alone["validation_loss"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tau": 0}, "train.tau=0"),
        ({"tau": "x"}, "train.tau=x"),
        ({"objective": "map"}, "train.objective=map"),
        ({"sigma_a": float("nan")}, "train.sigma_a=nan"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BetrSettings(**wrong)


@pytest.fixture(scope="module")
def learned() -> tuple[Fit, Certainty]:
    pairs = simulate_pairs(TABLE_1, num_queries=100)
    keep = np.arange(100) < 80
    found = fit(pairs.select(keep), pairs.select(~keep), BetrSettings(), 80)
    return found, certainty(pairs, BetrSettings(), 100, level=0.9, num_draws=300, seed=0)


def test_the_files_agree(tmp_path: Path, learned: tuple[Fit, Certainty]) -> None:
    found, certain = learned
    facts = {"reranker": "R@1"}
    stated = write_report(tmp_path, found, certain, BetrSettings(), facts)
    assert read_json(tmp_path / "betr.json") == stated
    assert stated["parameters"]["u"] == found.u
    assert stated["reranker"] == "R@1"
    draws = certain.draws.theta
    assert (draws[:, 1:] >= 0).all()
    assert len(draws) == stated["intervals"]["num_draws"] == 300


def test_table_1_by_hand() -> None:
    found = Fit([0.0, 0.5, 0.0, 0.25, 0.25], -1.0, 0.0, None)
    bounds = np.log([[1, 1], [0.5, 0.75], [0.5, 0.75], [0.25, 0.75], [0.125, 1.0]])
    certain = Certainty(found, None, 0.9, (0.5, 1.5), bounds)  # type: ignore[arg-type]
    rows = [line.split(" | ") for line in table_1(found, certain).splitlines()[2:7]]
    assert rows[0] == ["| A", "0.0000", "1.0000", "1.0000 – 1.0000", "— |"]
    assert rows[1] == ["| B", "-0.5000", "0.6065", "0.5000 – 0.7500", "0.5000 |"]
    assert rows[4] == ["| E", "-1.0000", "0.3679", "0.1250 – 1.0000", "0.2500 |"]
    assert "a = 1.0000, 90 % interval (posterior) 0.5000 – 1.5000" in table_1(found, certain)


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
    return file, tasks, choose_and_fit(file, tasks, trials(run_plain, None, 0, 0))


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
