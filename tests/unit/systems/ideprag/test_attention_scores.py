from __future__ import annotations

import math

import numpy as np
import pytest

from srrag.systems.ideprag.attention_scores import FORMS, attention_scores


def test_equation_9_is_that_of_a_reference_in_plain_python() -> None:
    draw = np.random.default_rng(0)
    cosines, useful = draw.uniform(-1, 1, (7, 5)), draw.uniform(0, 10, 5)
    found = attention_scores(cosines, useful, "paper")
    for row, score in zip(cosines.tolist(), found.tolist(), strict=True):
        total = sum(math.exp(c) for c in row)
        pairs = zip(useful.tolist(), row, strict=True)
        assert score == pytest.approx(sum(u * math.exp(c) / total for u, c in pairs), abs=1e-9)


def test_evidence_unlike_every_feature_has_their_mean_as_printed_and_little_in_other_forms() -> (
    None
):
    useful, own = np.array([10.0, 2.0]), np.array([0.0, 0.9])
    cosines = np.array([[0.0, 0.0], [0.9, 0.1]])
    assert attention_scores(cosines, useful, "paper")[0] == pytest.approx(6.0)
    for form in ("sum", "best"):
        far, near = attention_scores(cosines, useful, form, 0.05)
        assert far < 0.1 * near
    far, near = attention_scores(cosines, useful, "times_cosine", own=own)
    assert far == pytest.approx(3.0)
    assert near > 2 * far


@pytest.mark.parametrize("form", FORMS)
def test_a_large_exponent_and_no_feature_are_finite(form: str) -> None:
    own = np.array([0.5, 0.1])
    sharp = attention_scores(np.array([[1.0], [-1.0]]), np.array([1.0]), form, 0.001, own)  # type: ignore[arg-type]
    assert np.isfinite(sharp).all()
    two = attention_scores(np.array([[1.0, -1.0]] * 2), np.array([1.0, 0.0]), form, 0.001, own)  # type: ignore[arg-type]
    assert two == pytest.approx([1.0, 0.6] if form == "times_cosine" else [1.0, 1.0])
    none = attention_scores(np.zeros((2, 0)), np.zeros(0), form, own=own)  # type: ignore[arg-type]
    assert none.tolist() == ([1.0, 0.6] if form == "times_cosine" else [0.0, 0.0])
    assert form == "times_cosine" or not attention_scores(np.zeros((2, 0)), np.zeros(0), form).any()  # type: ignore[arg-type]


def test_the_other_forms_by_hand() -> None:
    cosines, useful = np.array([[1.0, 0.5], [0.0, 1.0]]), np.array([2.0, 6.0])
    assert attention_scores(cosines, useful, "best") == pytest.approx([3.0, 6.0])
    e = math.exp
    assert attention_scores(cosines, useful, "sum", 0.5) == pytest.approx(
        [2 + 6 * e(-1), 2 * e(-2) + 6]
    )


def test_times_cosine_needs_cosines() -> None:
    with pytest.raises(ValueError, match="cosines with the question"):
        attention_scores(np.zeros((1, 1)), np.zeros(1), "times_cosine")
