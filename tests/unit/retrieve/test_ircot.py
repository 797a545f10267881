from srrag.llm.read_answer import read
from srrag.retrieve.ircot import Reflection, render

EVIDENCE = [{"grade": "B", "title": "T", "text": "Pain fell.", "score": 1.0}]


def test_a_round_ends_or_asks_on() -> None:
    more = '{"reflection": "Dose is open.", "state": "open", "next_question": "Which dose?"}'
    assert read(more, Reflection).value.asks() == "Which dose?"
    for end in ("answered", "hopeless"):
        assert read(more.replace("open", end), Reflection).value.asks() == ""
    assert read('{"state": "answered"}', Reflection).fault is not None


def test_notes_and_evidence_are_lines() -> None:
    _, user = render("Q?", [("A?", "So far."), ("B?", "")], EVIDENCE)
    assert user.splitlines()[3:] == [
        "Notes, 1 in all:",
        '{"asked": "A?", "reflection": "So far."}',
        'Searched for in this round: "B?"',
        "Evidence, 1 in all:",
        '{"n": 1, "grade": "B", "title": "T", "text": "Pain fell."}',
    ]


def test_the_first_round_has_no_notes() -> None:
    assert 'Notes, 0 in all:\nSearched for in this round: "Q?"' in render("Q?", [("Q?", "")], [])[1]
