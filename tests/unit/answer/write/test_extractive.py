from srrag.answer.select.quotes import ChosenSentence, Extract
from srrag.answer.write.compose import low_grade_note, quoted_answer

CHOICES = [
    ChosenSentence("Best.", [3]),
    ChosenSentence("Second.", [1, 2]),
    ChosenSentence("From a cohort.", [4]),
    ChosenSentence("From a guideline.", [5, 4]),
    ChosenSentence("Another guideline.", [5]),
    ChosenSentence("Of no grade.", [6]),
]
GRADES = ["B", "D", "C", "D", "A", ""]


def texts(name: str, choices: list[ChosenSentence]) -> list[str]:
    answer = quoted_answer(Extract(choices, 1.0, []), GRADES)
    assert all(each.cites for each in answer.sentences())
    return [each.text for each in getattr(answer, name)]


def test_best_quotes_first_then_by_grade() -> None:
    assert texts("answer", CHOICES) == ["Best.", "Second."]
    assert texts("evidence", CHOICES) == [
        "Grade A, guideline or consensus: From a guideline.",
        "Another guideline.",
        "Grade D, cohort study: From a cohort.",
        "Without a grade: Of no grade.",
    ]
    assert texts("limits", CHOICES) == []


def test_that_the_grades_are_low_is_said_where_all_are() -> None:
    assert low_grade_note(["E", "D"]) == "Nothing quoted here is above grade D (cohort study)."
    for high in (["A"], ["D", "C"], [""], []):
        assert low_grade_note(high) == ""


def test_without_quotes_there_is_an_abstention_that_says_why() -> None:
    answer = quoted_answer(Extract([], 0.22, ["2", "allograft"]), GRADES)
    assert (answer.sentences(), answer.insufficient) == ([], True)
    assert answer.missing.startswith("The best passage covers 22% of the question.")
    assert answer.missing.endswith("Nowhere in the evidence: allograft.")
    assert not quoted_answer(Extract(CHOICES, 1.0, []), GRADES).insufficient


def test_evidence_that_holds_nothing_of_the_question_has_no_share_of_it() -> None:
    answer = quoted_answer(Extract([], 0.004, ["ketamine", "hiccups"]), GRADES)
    assert answer.missing == "Nowhere in the evidence: ketamine, hiccups."
