from __future__ import annotations

import math

import numpy as np
import pytest

from srrag.systems.ideprag.rerank_attention import FORMS, Form, attention_scores


def test_equation_9_is_that_of_a_reference_in_plain_python() -> None:
    draw = np.random.default_rng(0)
    cosines, useful = draw.uniform(-1, 1, (7, 5)), draw.uniform(0, 10, 5)
    found = attention_scores(cosines, useful, "paper")
    for row, score in zip(cosines.tolist(), found.tolist(), strict=True):
        total = sum(math.exp(c) for c in row)
        pairs = zip(useful.tolist(), row, strict=True)
        assert score == pytest.approx(sum(u * math.exp(c) / total for u, c in pairs), abs=1e-9)


def test_evidence_unlike_every_feature_has_their_mean_as_printed_and_little_in_ours() -> None:
    cosines, useful = np.array([[0.0, 0.0], [0.9, 0.1]]), np.array([10.0, 2.0])
    assert attention_scores(cosines, useful, "paper")[0] == pytest.approx(6.0)
    assert attention_scores(cosines, useful, "best").tolist() == pytest.approx([0.0, 9.0])


@pytest.mark.parametrize("form", FORMS)
def test_a_large_exponent_and_no_feature_are_finite(form: Form) -> None:
    sharp = attention_scores(np.array([[1.0], [-1.0]]), np.array([1.0]), form, 0.001)
    assert np.isfinite(sharp).all()
    two = attention_scores(np.array([[1.0, -1.0]] * 2), np.array([1.0, 0.0]), form, 0.001)
    assert two == pytest.approx([1.0, 1.0])
    assert not attention_scores(np.zeros((2, 0)), np.zeros(0), form).any()
