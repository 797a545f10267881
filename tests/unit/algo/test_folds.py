from __future__ import annotations

from collections import Counter

from srrag.algo.folds import FOLDS, question_fold


def test_a_question_keeps_its_fold_however_it_is_written() -> None:
    asked = "Does rest help?"
    assert question_fold(asked) == 3
    assert {question_fold(text) for text in ("does REST help", " Does  rest-help ?!")} == {3}
    assert question_fold("Does rest help 2") != question_fold("Doesresthelp2")


def test_folds_are_of_much_the_same_size() -> None:
    sizes = Counter(question_fold(f"question {number}") for number in range(1000))
    assert FOLDS == 5 and sizes.keys() == set(range(FOLDS))
    assert all(150 < size < 250 for size in sizes.values())
