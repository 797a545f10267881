from srrag.completion import read
from srrag.expand.reformulate import Reformulations, render


def test_exactly_three_versions() -> None:
    good = '{"clinical": "A?", "patient": "B?", "aspect": "C?"}'
    assert read(good, Reformulations).value.distinct("Q?") == ["A?", "B?", "C?"]
    for bad in ('{"clinical": "A?", "patient": "B?"}', good.replace("B?", " ")):
        assert read(bad, Reformulations).fault is not None


def test_repetitions_are_left_out() -> None:
    versions = Reformulations(clinical="A?", patient=" Q? ", aspect="A?")
    assert versions.distinct("Q?") == ["A?"]


def test_topic_and_narrative_are_empty_unless_given() -> None:
    assert render("Q?")[1].endswith('Topic: ""\nNarrative: ""')
    assert 'Topic: "heels"' in render("Q?", topic="heels")[1]
