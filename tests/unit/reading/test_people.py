import pytest

from srrag.reading.people import asked_people, conditions_in, contradiction, traits


def differs(asked: str, title: str, text: str = "") -> str:
    found = contradiction(traits(asked), title, text)
    return found.phrase if found else ""


@pytest.mark.parametrize(
    ("asked", "title", "found"),
    [
        ("adults", "Knee pain in adolescent athletes: a cohort", "adolescent athletes"),
        ("adolescents", "A guideline for adults", "adults"),
        ("a ten-year-old boy", "Trial in adults", "adults"),
        ("prepubertal patients", "Training of adolescents", ""),
        ("prepubertal children", "Training of teenagers with a repaired heart", ""),
        ("children", "Falls of older people", "older people"),
        ("people over 65", "Falls of older people", ""),
        ("older women", "Trial in adults", ""),
        ("people aged 18 to 30", "Adults aged 65 or older", ""),
        ("pregnant women", "A trial in men", "men"),
        ("women after childbirth", "Male football players", "Male football players"),
        ("women", "Men and women in a trial", ""),
        ("sedentary adults", "Achilles pain in runners", "runners"),
        ("football players", "Exercise for sedentary adults", "sedentary adults"),
        ("adults", "Tendon repair in rats", "rats"),
        ("", "Tendon repair in rats", "rats"),
        ("", "A guideline for adolescents", ""),
        ("adults", "", ""),
        ("women", "The menu of a mental ward", ""),
        ("adults", "Passive intervals (PIG) of rest", ""),
    ],
)
def test_titles_contradict_what_is_asked(asked: str, title: str, found: str) -> None:
    assert differs(asked, title) == found


def test_a_text_contradicts_by_a_range_of_ages_alone() -> None:
    assert differs("adolescents", "A trial", "Players aged 18 to 60 took part.") == "aged 18 to 60"
    assert differs("adolescents", "A trial", "Adults took part.") == ""
    assert differs("adolescents", "A trial", "Age above 30 was a risk.") == ""
    assert differs("adults", "A trial", "Pupils, twelve to sixteen years old.") != ""


def test_months_and_weeks_are_no_years() -> None:
    told = "Participants aged 6 to 35 months took part."
    assert differs("infants", "A trial", told) == ""
    assert differs("adults", "A trial", told) == "aged 6 to 35 months"
    (weeks,) = traits("aged over 6 weeks")
    assert (weeks.low, weeks.high) == (0, 200)
    ages = {
        (each.low, each.high) for each in traits("children under 6 months") if each.kind == "age"
    }
    assert (0, 1) in ages


def test_what_a_text_adds_makes_up_for_its_title() -> None:
    assert differs("adults", "Adolescent pain", "Adults took part as well.") == ""
    assert differs("adults", "Tendons of rats", "Forty adults took part too.") == ""


def test_words_that_only_look_like_conditions_are_none() -> None:
    assert conditions_in("fruit aroma, an early diagnosis") == []
    assert conditions_in("Walking with chronic neck pain") == ["chronic neck pain"]


def test_whom_a_question_is_about_stands_at_its_end() -> None:
    asked = {
        "Does rest relieve pain in the knee in patients with gout of the toe?":
            "patients with gout of the toe?",
        "Is yoga safe in pregnancy?": "pregnancy?",
        "How effective is physiotherapy for whiplash?": "whiplash?",
        "What is the effect of rest on pain in subjects with pain in the knee?":
            "subjects with pain in the knee?",
        "What changes in quality of life are to be expected?": "",
    }  # fmt: skip
    assert {question: asked_people(question) for question in asked} == asked
