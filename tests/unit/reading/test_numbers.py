import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.reading.numbers import lost_numbers

SAME = [
    ("12 weeks", "twelve weeks"),
    ("twelve weeks", "12 weeks"),
    ("2 trials", "two trials"),
    ("24 patients", "twenty-four patients"),
    ("120 adults", "one hundred and twenty adults"),
    ("two hundred people", "200 people"),
    ("type 2 diabetes", "type II diabetes"),
    ("grade III", "grade 3"),
    ("phase 4", "phase IV"),
    ("phase IV", "phase 4"),
    ("grade V", "grade 5"),
    ("class 9", "class IX"),
    ("1.2.3", "1.2.3"),
    ("1.234.567,8 km", "1234567.8 km"),
    ("a hundred people", "100 people"),
    ("p < 0.001", "P<.001"),
    ("p = 0.02", "P = .02"),
    ("p = .02", "p=0.020"),
    ("1.8 points", "1·8 points"),
    ("1.8 points", "1,8 Punkte"),
    ("1,8 puntos", "1.8 points"),
    ("5.0 mg", "5 mg"),
    ("5 mg", "5mg"),
    ("1200 people", "1,200 people"),
    ("1,200 people", "1200 people"),
    ("1.200 Personen", "1200 people"),
    ("1200 personas", "1 200 personas"),
    ("12,345 people", "12\u202f345 people"),
    ("1.234,5 Punkte", "1,234.5 points"),
    ("at 1 year", "for a year"),
    ("1 year", "12 months"),
    ("52 weeks", "a year"),
    ("24 months", "over two years"),
    ("50 %", "half of them"),
    ("75%", "three quarters of them"),
    ("66.7 %", "two thirds"),
    ("2 times", "twice as often"),
    ("2 times", "a twofold rise"),
    ("1.5 hours", "one and a half hours"),
    ("2.5 years", "2½ years"),
    ("the 2nd group", "the second group"),
    ("lower by 2.1", "a change of −2.1"),
    ("95 % CI 6 to 52", "(95% CI, 6–52)"),
    ("mean 3,4; n = 12", "(3.4, 12)"),
    ("in 2019", "by mid-2019"),
    ("1:1", "in a ratio of 1 to 1, one to one"),
]
NAMES = [
    "the 6-minute walk test", "6MWT", "the 10-m walk", "SF-36", "HbA1c", "vitamin D3", "omega-3",
    "EQ-5D", "COVID-19", "the 11-point pain scale", "one-repetition maximum", "a 3D scan", "GLP-1",
    "the 30-second chair stand test", "WOMAC and KOOS12",
]  # fmt: skip
LOST = [
    ("lower at 12 months", "lower at 3 months", ["12"]),
    ("12 weeks", "three months", ["12"]),
    ("29 points (95 % CI 6 to 25)", "29 points (95 % CI 6 to 52)", ["25"]),
    ("two weeks later", "3 weeks later", ["two"]),
    ("type II diabetes", "type 1 diabetes", ["type II"]),
    ("type 2 diabetes", "type I diabetes", ["2"]),
    ("grade 6", "grade IV", ["6"]),
    ("stage IV", "stage 6", ["stage IV"]),
    ("7.5.3", "75.3", ["7.5.3"]),
    ("1.234.567,8", "1.234.567,9", ["1.234.567,8"]),
    ("0.02", "0.2", ["0.02"]),
    ("1,200 people", "2,100 people", ["1,200"]),
    ("50 %", "a third", ["50"]),
    ("36 patients", "SF-36 in 24 patients", ["36"]),
    ("5.5", "5 of 5", ["5.5"]),
    ("5 points", "after 3 weeks", ["5"]),
    ("500 mg", "0.500 mg", ["500"]),
    ("12 and 12 and 13", "", ["12", "13"]),
    ("2 trials", "a trial", ["2"]),
    ("vitamin D 4000IU", "vitamin D 2000 IU", ["4000"]),
    ("20MG and 500ML", "10 mg and 250 ml", ["20", "500"]),
]


@pytest.mark.parametrize(("said", "held"), SAME)
def test_a_value_that_a_source_spells_otherwise_is_held(said: str, held: str) -> None:
    assert lost_numbers(said, [held]) == []


@pytest.mark.parametrize("name", NAMES)
def test_digits_of_a_name_are_no_number(name: str) -> None:
    assert lost_numbers(f"They measured {name} again.", ["walking"]) == []


@pytest.mark.parametrize(("said", "held", "lost"), LOST)
def test_a_value_that_no_source_holds_is_lost(said: str, held: str, lost: list[str]) -> None:
    assert lost_numbers(said, [held]) == lost


def test_words_up_to_ten_count_what_the_writer_sees() -> None:
    assert lost_numbers("Two trials agree, three do not.", ["no number"]) == []
    assert lost_numbers("Pain fell by two points in twelve people.", []) == ["two", "twelve"]


def test_each_source_counts() -> None:
    assert lost_numbers("A 2019 review of 12 trials", ["2019", "twelve trials"]) == []


@given(st.lists(st.integers(0, 99999), max_size=5), st.text(max_size=80))
def test_a_text_loses_nothing_of_itself(numbers: list[int], text: str) -> None:
    said = f"{text} " + "; ".join(map(str, numbers))
    assert lost_numbers(said, [said]) == []
