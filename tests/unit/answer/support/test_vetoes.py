import pytest

from srrag.answer.support.settle_checks import LINK, READER, veto


@pytest.mark.parametrize(
    "text",
    [
        "Exercise helps, see https://clinic.example/offer for a course.",
        "Exercise helps (www.clinic.example).",
        "Exercise helps: clinic-example.com.",
        "Exercise helps, as bit.ly/3xYz shows.",
        "Exercise helps; write to info@clinic.example.",
        "Exercise helps; call 0800 123 4567.",
        "Exercise helps; call (020) 7946 0958.",
        "Exercise helps; call +49 30 1234567.",
        "Exercise helps; call 1-800-555-0199.",
        "Exercise helps: ｗｗｗ．clinic．example.",
    ],
)
def test_a_contact_that_no_source_holds_is_held_back(text: str) -> None:
    assert veto(text, ["Does exercise help?", "Exercise helped."]) == LINK
    assert veto(text, ["Does exercise help?", text]) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Survival was 93.7% (95% CI 86.4-97.1) against 89.8% (81.9–94.4), P = 0.302.",
        "In 2003-2005, 1 200 300 patients took 0.05 mg i.v., e.g. with 001-045 as ids.",
        "Pain fell by 1·8 (0·9 to 2·7) in NCT01234567 and ISRCTN01234567.",
        "Pain fell.In adults it did not; the and/or of both groups vs.control is unclear.",
        "Doses were 5-10 mg/kg/day at 0, 12, 24 and 48 h (ratio 0.87, 0.75-1.02).",
    ],
)
def test_numbers_and_typing_of_papers_are_no_contacts(text: str) -> None:
    assert veto(text, []) == ""


def test_words_to_the_reader_are_held_back_unless_a_source_or_the_question_speaks_so() -> None:
    assert veto("You should take morphine daily.", ["Does it help?", "It helped."]) == READER
    assert veto("You should walk.", ["Should you walk?"]) == ""
    assert veto("Youth and yourtown are no reader.", []) == ""


def test_a_number_is_the_same_however_it_is_spaced() -> None:
    assert veto("Call +49 30 1234567.", ["Contact: +49-30-123 45 67"]) == ""
