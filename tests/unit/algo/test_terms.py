from __future__ import annotations

from srrag.algo.terms import _stemmer, terms


def test_content_words_are_stemmed_in_order_and_numbers_stay() -> None:
    _stemmer.cache_clear()  # as in a process that has stemmed nothing yet
    assert terms("Is the Immobilisation of sprained_ankles for 10 days helpful?") == [
        "immobilis", "sprain", "ankl", "10", "day", "help",
    ]  # fmt: skip
    assert terms("What is the best evidence?") == []
