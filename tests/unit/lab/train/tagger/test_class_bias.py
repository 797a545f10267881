from __future__ import annotations

import numpy as np

from srrag.lab.train.tagger.abstracts import Abstract
from srrag.lab.train.tagger.training import choose_lean, token_scores
from srrag.model.tagger import Words


def test_a_token_has_the_scores_of_its_first_word() -> None:
    text = "new  pain (vas)"
    words = Words(
        start=np.array([0, 5, 10, 11, 14]), end=np.array([3, 9, 11, 14, 15]),
        scores=np.arange(20, dtype=np.float32).reshape(5, 4),
    )  # fmt: skip
    found = token_scores(Abstract("1", text, np.zeros(len(text), np.int8)), words)
    assert found[[0, 2, 3]].tolist() == words.scores[[0, 1, 2]].tolist()
    assert found[1].argmax() == 0  # the empty token between two blanks


def test_each_class_has_the_lean_that_it_needs() -> None:
    """P is two nats too shy, I one too bold, O as it should be."""
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 4, 4000).astype(np.int8)
    scores = rng.normal(0, 0.3, (4000, 4)).astype(np.float32)
    scores[np.arange(4000), gold] += 2
    scores += np.array([0, -2, 1, 0], np.float32)
    lean, figures = choose_lean(scores, gold, lambda counts: counts)
    assert 1.5 <= lean[0] <= 2.5
    assert -1.5 <= lean[1] <= -0.5
    assert abs(lean[2]) <= 0.5
    assert figures["token_macro_F1"] > 0.98


def test_workers_choose_together() -> None:
    rng = np.random.default_rng(1)
    gold = rng.integers(0, 4, 600).astype(np.int8)
    scores = rng.normal(0, 1, (600, 4)).astype(np.float32)
    scores[np.arange(600), gold] += 1
    alone = choose_lean(scores, gold, lambda counts: counts)
    twice = choose_lean(scores[::2], gold[::2], lambda counts: 2 * counts)
    same = choose_lean(
        np.concatenate([scores[::2]] * 2), np.concatenate([gold[::2]] * 2), lambda counts: counts
    )
    assert twice == same
    assert alone[1]["token_macro_F1"] > 0.5
