from srrag.completion import read
from srrag.expand.picot_anchors import PicotAnchors, invented, render

QUESTION = "In adults with  heel pain, do night splints reduce pain?"


def test_anchors_are_words_of_the_question() -> None:
    anchors = PicotAnchors(
        P=["Adults with heel pain"], I=["night splints"], C=["placebo"], O=["pain"], T=["6 weeks"]
    )
    assert invented(anchors, QUESTION) == ["placebo", "6 weeks"]


def test_parts_may_be_missing_but_not_unsaid() -> None:
    empty = '{"P": [], "I": ["night splints"], "C": [], "O": [], "T": []}'
    assert read(empty, PicotAnchors).value.I == ["night splints"]
    for bad in ('{"P": []}', empty.replace("night splints", " "), empty.replace("I", "X")):
        assert read(bad, PicotAnchors).fault is not None


def test_only_the_question_changes_the_prompt() -> None:
    (system, user), (same, other) = render(QUESTION), render("Why?")
    assert system == same
    assert user == f"<question>\n{QUESTION}\n</question>"
    assert "Why?" in other
