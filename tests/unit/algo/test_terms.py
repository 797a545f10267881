from __future__ import annotations

import pytest

from srrag.algo import terms as module
from srrag.algo.terms import terms


def test_content_words_are_stemmed_in_order_and_numbers_stay() -> None:
    assert terms("Is the Immobilisation of sprained_ankles for 10 days helpful?") == [
        "immobilis", "sprain", "ankl", "10", "day", "help",
    ]  # fmt: skip
    assert terms("What is the best evidence?") == []


def test_stems_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STEM", stem := module._StemOf())
    monkeypatch.setattr(module, "_MOST_WORDS", 3)
    said = ["trained", "of", "legs", "of", "runners", "trained"]
    assert terms(" ".join(said)) == ["train", "leg", "runner", "train"]
    assert len(stem) == 2  # of the last words
