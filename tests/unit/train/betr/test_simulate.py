from __future__ import annotations

import numpy as np
import pytest

from srrag.algo.betr import make_pairs
from srrag.train.betr.fit import BetrSettings, fit
from tests.simulated_pairs import TABLE_1, simulate_candidates


def test_candidates_are_relevant_as_planted() -> None:
    """Of two candidates with other grades and near scores, the better graded wins by e^(u − u')."""
    found = simulate_candidates(4 * TABLE_1, num_queries=400)
    shares = [found.relevant[found.grade == rank].mean() for rank in range(5)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 2 * shares[4]
    flat = simulate_candidates(0 * TABLE_1, num_queries=400)
    shares = [flat.relevant[flat.grade == rank].mean() for rank in range(5)]
    assert max(shares) - min(shares) < 0.02
    assert flat.score.std() == pytest.approx(2, abs=0.05)


def test_what_was_planted_is_what_pairs_of_them_teach() -> None:
    found = simulate_candidates(4 * TABLE_1, num_queries=600, per_query=60)
    rows, draw = [], np.random.default_rng(1)
    for query, relevant in enumerate(found.relevant):
        others = np.flatnonzero(~relevant)
        for positive in np.flatnonzero(relevant):
            rows += [(query, positive, negative) for negative in draw.choice(others, 10)]
    query, positive, negative = np.array(rows).T
    pairs = make_pairs(
        found.score[query, positive] - found.score[query, negative],
        found.grade[query, positive],
        found.grade[query, negative],
        query,
    )
    learned = fit(pairs, None, BetrSettings(), 600)
    assert learned.a == pytest.approx(1, abs=0.1)
    assert list(learned.u.values()) == pytest.approx((4 * TABLE_1).tolist(), abs=0.25)


def test_the_seed_decides() -> None:
    one, two, other = (simulate_candidates(TABLE_1, num_queries=3, seed=s) for s in (1, 1, 2))
    assert (one.score == two.score).all()
    assert (one.relevant == two.relevant).all()
    assert (one.score != other.score).any()
