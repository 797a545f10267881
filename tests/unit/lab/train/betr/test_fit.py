"""What a fit makes of planted, flat and inverted pairs, and that it is one fit wherever it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from srrag.algo.betr import Floats, log_likelihood
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
from srrag.lab.train.betr.pair_file import read_pairs
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


def test_the_curve_is_the_loss_of_training_and_validation() -> None:
    pairs = simulate_pairs(TABLE_1, num_queries=100)
    keep = np.arange(100) < 70
    train, held = pairs.select(keep), pairs.select(~keep)
    for settings in (POSTERIOR, PAPER):
        found = fit(train, held, settings, 70)
        theta = np.array(found.theta)
        last = found.curve[-1]
        assert last["train_loss"] == pytest.approx(-log_likelihood(theta, train)[0] / 70)
        assert last["validation_loss"] == pytest.approx(-log_likelihood(theta, held)[0] / 30)
        assert found.validation_loss == pytest.approx(last["validation_loss"])
        assert last["objective"] == pytest.approx(found.objective)


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
