"""Pairs with known biases, to test what a fit recovers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from scipy.special import expit

from srrag.algo.betr import GRADES, NUM_GRADES, Floats, Pairs, make_pairs
from srrag.lab.train.betr.pair_file import PAIRS

TABLE_1 = np.array([0.0, -0.1287, -0.2575, -0.3863, -0.5151])
"""The biases that SR-RAG reports."""


def simulate_pairs(
    u: Floats, *, num_queries: int, per_query: int = 16, a: float = 1.0, seed: int = 0
) -> Pairs:
    """Draw two windows with grades and scores at random, and which of them is relevant by Eq. 3.

    `u` (5,) are the planted biases, in any order; score differences are standard normal.
    """
    draw = np.random.default_rng(seed)
    size = num_queries * per_query
    grades = draw.integers(0, NUM_GRADES, (2, size))
    delta_s = draw.standard_normal(size)
    lost = draw.random(size) > expit(a * delta_s + u[grades[0]] - u[grades[1]])
    positive = np.where(lost, grades[1], grades[0])
    negative = np.where(lost, grades[0], grades[1])
    query = np.repeat(np.arange(num_queries), per_query)
    return make_pairs(np.where(lost, -delta_s, delta_s), positive, negative, query)


def pairs_table(pairs: Pairs) -> pa.Table:
    """The pairs as PAIRS; query number 7 is called q7."""
    letters = pa.array(list(GRADES))
    columns = [
        pa.array(np.char.add("q", pairs.query.astype(str)).tolist(), pa.string()),
        pa.array(pairs.delta_s),
        letters.take(pa.array(pairs.cell // NUM_GRADES)),
        letters.take(pa.array(pairs.cell % NUM_GRADES)),
    ]
    return pa.table(columns, schema=PAIRS)
