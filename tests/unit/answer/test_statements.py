import pytest

from srrag.answer.statements import content, effects, negated, num_negations, numbers


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Pain was reduced in the trained group.", ["down"]),
        ("Pain was not reduced in the trained group.", ["none"]),
        ("There was no significant difference in pain.", ["none"]),
        ("Function improved and pain decreased.", ["better", "down"]),
        ("Training failed to improve function.", ["none"]),
        ("Pain did not change, but function improved.", ["better"]),
        ("Outcomes were not similar.", []),
        ("Patients were enrolled in May.", []),
    ],
)
def test_effects_have_a_direction_unless_they_are_negated(text: str, kinds: list[str]) -> None:
    assert [cue.value for cue in effects(text)] == kinds


def test_an_effect_knows_the_words_around_it() -> None:
    (cue,) = effects("In adults, pain was reduced by exercise.")
    assert {"pain", "exercis"} <= cue.around


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,200 adults, p = 0.050", ["1200", "0.05"]),
        ("a ratio of 0·50 in three trials", ["0.5", "3"]),
        ("IL-6 and HbA1c and 12-week training", ["12"]),
        ("no number, one idea", []),
    ],
)
def test_numbers_are_read_as_decimals(text: str, values: list[str]) -> None:
    assert [cue.value for cue in numbers(text)] == values


def test_a_negation_reaches_over_its_clause_and_not_further() -> None:
    assert negated("Bed rest should not be prescribed, exercise should.") == {"prescrib"}
    assert negated("It should be prescribed.") == frozenset()
    assert num_negations("It is not known, nor was it asked.") == 2


def test_content_leaves_digits_out() -> None:
    assert content("Three of 12 knees") == content("three knees")
