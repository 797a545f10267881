from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from srrag.algo.classification import FOLDS
from srrag.lab.train.betr.features import (
    AskedCandidates,
    FeatureSettings,
    cross_fitted,
    fit_features,
    fold_fits,
    stated_fit,
)

SETTINGS = FeatureSettings(draws=200, document=0.0)


def questions(size: int, weights: list[float], seed: int = 0) -> list[AskedCandidates]:
    """Questions with 12 candidates of 4 documents, relevant by chance as the weights say."""
    draw = np.random.default_rng(seed)
    found = []
    for n in range(size):
        x = draw.normal(size=(12, len(weights)))
        relevant = draw.random(12) < expit(x @ weights - 2)
        documents, grades = draw.integers(0, 4, 12), draw.integers(0, 5, 12)
        found.append(
            AskedCandidates(f"{seed}-{n}", f"q {seed} {n}", x, documents, grades, relevant)
        )
    return found


def test_the_weights_that_decided_come_out() -> None:
    fit, _, theta = fit_features([questions(400, [2.0, 1.0, 0.0])], SETTINGS)
    assert fit.weights == pytest.approx([2.0, 1.0, 0.0], abs=0.3)
    assert fit.u[0] == 0 and (np.diff(fit.u) <= 0).all() and fit.u[-1] > -0.3
    assert len(theta) == 3 + 4


def test_a_set_weighs_as_much_as_another() -> None:
    """A hundred questions in which the first feature decides, a thousand in which the second."""
    few, many = questions(100, [2.0, 0.0], 1), questions(1000, [0.0, 2.0], 2)
    fit, *_ = fit_features([few, many], SETTINGS)
    assert fit.weights[0] == pytest.approx(fit.weights[1], rel=0.3)


def test_what_is_worth_nothing_is_said() -> None:
    told = stated_fit(("good", "useless"), [questions(200, [2.0, 0.0], 3)], SETTINGS)
    good, useless = told["features"]["good"], told["features"]["useless"]
    assert good["worth"] and good["low"] <= good["value"] <= good["high"]
    assert not useless["worth"] and useless["low"] == 0.0
    assert list(told["u"]) == list("ABCDE") and told["u"]["A"]["value"] == 0.0
    assert told["u"]["E"]["low"] <= told["u"]["E"]["value"] <= told["u"]["E"]["high"] <= 0.0
    again = stated_fit(("good", "useless"), [questions(200, [2.0, 0.0], 3)], SETTINGS)
    assert told == again


def test_no_question_is_ranked_by_weights_that_saw_it() -> None:
    """A question's own labels, turned round, leave its cross-fitted scores as they were."""
    rows = questions(60, [2.0, 0.0], 4)
    assert {row.fold for row in rows} == set(range(FOLDS))
    (first,) = cross_fitted([rows], fold_fits([rows], SETTINGS), SETTINGS)
    one = rows[7]
    turned = replace(one, relevant=~one.relevant)
    changed = [[*rows[:7], turned, *rows[8:]]]
    (second,) = cross_fitted(changed, fold_fits(changed, SETTINGS), SETTINGS)
    assert second[7].tolist() == first[7].tolist()
    others = [n for n, row in enumerate(rows) if row.fold != one.fold]
    assert any(second[n].tolist() != first[n].tolist() for n in others)


def test_a_question_of_two_sets_has_one_fold() -> None:
    one, other = (
        AskedCandidates(text, text, np.zeros((0, 1)), np.zeros(0), np.zeros(0), np.zeros(0, bool))
        for text in ("Is  rest good?", "is rest good")
    )
    assert one.fold == other.fold


def test_nothing_to_fit_to() -> None:
    rows = [replace(row, relevant=row.relevant & False) for row in questions(20, [1.0], 5)]
    with pytest.raises(ValueError, match="no question has both"):
        fit_features([rows], SETTINGS)
