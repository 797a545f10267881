from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from srrag.lab.train.encoder.towers import Vectors
from srrag.lab.train.encoder.training import contrastive_loss, mean_maxsim


def vectors(pooled: list[list[float]], tokens: list[list[list[float]]]) -> Vectors:
    """Texts whose tokens of length 0 are no content."""
    made = torch.tensor(tokens)
    return Vectors(torch.tensor(pooled), made, made.norm(dim=2) > 0)


QUERIES = vectors([[1.0, 0.0], [0.0, 1.0]], [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]])
PASSAGES = vectors(
    [[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]],
    [[[1.0, 0.0], [0.0, 0.0]], [[0.6, 0.8], [0.0, 1.0]], [[0.0, -1.0], [0.0, 0.0]]],
)


def loss(late: float, excluded: Tensor | None = None) -> float:
    none = torch.zeros(2, 3, dtype=torch.bool)
    found = contrastive_loss(
        QUERIES, PASSAGES, torch.tensor([0, 1]), none if excluded is None else excluded,
        temperature=0.5, late=late,
    )  # fmt: skip
    return float(found)


def entropy(logits: list[float], target: int) -> float:
    return math.log(sum(math.exp(x) for x in logits)) - logits[target]


def test_maxsim_is_the_mean_over_content_tokens_of_the_best_cosine() -> None:
    """Tokens that are no content neither count nor win, not even against a cosine below 0."""
    assert mean_maxsim(QUERIES, PASSAGES).tolist() == pytest.approx(
        [pytest.approx(row) for row in [[0.5, 0.8, -0.5], [0.0, 1.0, -1.0]]]
    )


def test_a_text_without_content_has_no_similarity() -> None:
    empty = vectors([[1.0, 0.0]], [[[0.0, 0.0]]])
    assert mean_maxsim(empty, PASSAGES).tolist() == [[0.0, 0.0, 0.0]]
    assert mean_maxsim(QUERIES, empty).tolist() == [[0.0], [0.0]]


def test_the_loss_by_hand() -> None:
    pooled = (entropy([2.0, 1.2, 0.0], 0) + entropy([0.0, 1.6, -2.0], 1)) / 2
    late = (entropy([1.0, 1.6, -1.0], 0) + entropy([0.0, 2.0, -2.0], 1)) / 2
    assert loss(0.0) == pytest.approx(pooled, rel=1e-5)
    assert loss(1.0) == pytest.approx(late, rel=1e-5)
    assert loss(0.25) == pytest.approx(0.75 * pooled + 0.25 * late, rel=1e-5)


def test_other_gold_is_no_negative() -> None:
    excluded = torch.tensor([[False, True, False], [False, False, False]])
    pooled = (entropy([2.0, 0.0], 0) + entropy([0.0, 1.6, -2.0], 1)) / 2
    assert loss(0.0, excluded) == pytest.approx(pooled, rel=1e-5)
