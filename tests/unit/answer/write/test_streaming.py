import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.answer.write.cited import (
    AGAIN,
    INSTEAD,
    AnswerStream,
    CitedAnswer,
    answer_text,
    show,
    text_so_far,
)
from srrag.answer.write.papers_answer import PapersAnswer
from srrag.llm.completion import Prompt

SENTENCES = st.lists(
    st.fixed_dictionaries(
        {"text": st.text(max_size=20), "cites": st.lists(st.integers(0, 15), max_size=3)}
    ),
    max_size=4,
)
ANSWERS = st.fixed_dictionaries(
    {
        "answer": SENTENCES,
        "evidence": SENTENCES,
        "limits": SENTENCES,
        "insufficient": st.booleans(),
        "missing": st.text(max_size=5),
    }
)
PROMPT = Prompt(0, "answer", "", 'Question: "?"\n{"n": 1, "x": 0}\n{"n": 2, "x": 0}', CitedAnswer)


def said(*cites: list[int], **more: Any) -> dict[str, Any]:
    sentences = [{"text": f"S{i}.", "cites": each} for i, each in enumerate(cites, 1)]
    return {"answer": sentences, "evidence": [], "limits": [], "insufficient": False} | more


@given(ANSWERS, st.booleans())
def test_text_only_grows_and_ends_as_the_answer(answer: Any, ascii: bool) -> None:
    whole = json.dumps(answer, ensure_ascii=ascii)
    shown = ""
    for end in range(len(whole) + 1):
        text = text_so_far(whole[:end], 12)
        assert text.startswith(shown)
        shown = text
    names = [f"e{n}" for n in range(1, 13)]
    rows = show(CitedAnswer(**answer), names).sentences
    assert shown == answer_text(rows, {name: n for n, name in enumerate(names, 1)}, "")


def test_a_sentence_comes_with_its_markers_or_not_at_all() -> None:
    whole = json.dumps(said([1], [9], [2, 1], missing=""))
    first = whole.index("S2")
    assert text_so_far(whole[: first - 20], 2) == ""
    assert text_so_far(whole[:first], 2) == "S1. [1]"
    assert text_so_far(whole, 2) == "S1. [1]\n\n- S3. [2][1]"
    assert text_so_far("```json\n" + whole, 2) == "S1. [1]\n\n- S3. [2][1]"


@given(st.text(max_size=60) | ANSWERS.map(json.dumps).map(lambda text: text[::-1]))
def test_garbage_shows_nothing_that_is_uncited(garbage: str) -> None:
    text = text_so_far(garbage, 12)
    assert text == "" or "]" in text


@pytest.mark.parametrize("wrong", ['{"answer": 1, "evidence"', "[]", "null", '{"answer": [1, 2'])
def test_other_json_shows_nothing(wrong: str) -> None:
    assert text_so_far(wrong, 12) == ""


def streamed(*attempts: str, answer: str) -> str:
    written: list[str] = []
    stream = AnswerStream(written.append)
    for attempt, text in enumerate(attempts):
        for start in range(0, len(text), 7):
            stream(PROMPT, attempt, text[start : start + 7])
    stream.finish(answer)
    return "".join(written)


def test_the_stream_is_the_answer_that_counts() -> None:
    text = json.dumps(said([1], [2], missing=""))
    told = "S1. [1]\n\n- S2. [2]"
    assert streamed(text, answer=told) == told
    assert streamed(text, answer=f"{told}\n\nLimits: L.").endswith("[2]\n\nLimits: L.")
    assert streamed(answer="From the log. [1]") == "From the log. [1]"
    assert streamed(text, answer="Other.") == f"{told}{INSTEAD}Other."


def test_thinking_is_not_shown() -> None:
    shown: list[str] = []
    stream = AnswerStream(shown.append)
    draft, whole = json.dumps(said([2])), json.dumps(said([1], missing=""))
    for piece in f"<think>Perhaps {draft}, or not.</think>\n{whole}":
        stream(PROMPT, 0, piece)
    assert "".join(shown) == "S1. [1]"


def test_another_attempt_is_announced() -> None:
    bad, good = json.dumps(said([1], [], missing="")), json.dumps(said([2], missing=""))
    assert streamed(bad, good, answer="S1. [2]") == f"S1. [1]{AGAIN}S1. [2]"
    assert streamed("no", good, answer="S1. [2]") == "S1. [2]"


READ = {
    "findings": [
        {"sentences": ["2.3"], "says": "pain fell by 2 points", "kind": "result"},
        {"sentences": ["9.9"], "says": "a paper that is not there", "kind": "result"},
    ],
    "state": "answered",
    "verdict": "yes",
    "answer": [{"text": "It helps.", "sentences": ["2.3", "1.1"]}],
    "evidence": [],
    "limits": [{"text": "One trial is small.", "sentences": ["1"]}],
    "missing": "",
}
PAPERS = 'Question: "Q"\nPapers, 2 in all:\nPaper 1; 2015\n[1.1] "A."\nPaper 2\n[2.3] "B."'


def read_aloud(checked: bool) -> tuple[str, list[Any]]:
    written: list[str] = []
    found: list[Any] = []
    stream = AnswerStream(written.append, checked=checked, find=found.append)
    prompt = Prompt(0, "read", "", PAPERS, PapersAnswer)
    for character in json.dumps(READ):
        stream(prompt, 0, character)
        assert found or not written, "findings come before the answer"
    return "".join(written), found


def test_findings_come_first_and_then_the_sentences_with_the_numbers_of_papers() -> None:
    text, found = read_aloud(checked=False)
    assert found == [{"text": "pain fell by 2 points", "kind": "result", "number": 2}]
    assert text == "It helps. [2][1]\n\nLimits: One trial is small. [1]"


def test_a_checked_answer_waits_and_its_findings_do_not() -> None:
    text, found = read_aloud(checked=True)
    assert (text, len(found)) == ("", 1)


def test_a_second_reading_begins_anew() -> None:
    written: list[str] = []
    stream = AnswerStream(written.append)
    for user in (PAPERS, PAPERS + '\n[2.4] "C."'):
        stream(Prompt(0, "read", "", user, PapersAnswer), 0, json.dumps(READ))
    assert written[1] == AGAIN and written[0] == written[2]
