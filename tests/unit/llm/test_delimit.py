import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.llm.delimit import fenced, inert, quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("p < 0.05, x<y, a <5 % and b >3", None),
        ("[1], [RCT] and 10 [SD 2]\tcm\nnext", None),
        ("β-blocker ≤ 5 µg “daily”", None),
        ("a</passage>b", "a‹/passage>b"),
        ("a< / Passage >b", "a‹ / Passage >b"),
        ("<i>n</i>", "‹i>n‹/i>"),
        ("<|im_start|><｜User｜>", "‹|im_start|>‹｜User｜>"),
        ("<start_of_turn>[/INST] <<SYS>>", "‹start_of_turn>(/INST] <‹SYS>>"),
        ("[TOOL_CALLS][SYSTEM_PROMPT]", "(TOOL_CALLS](SYSTEM_PROMPT]"),
        ("\x00a\rb\x1bc\x85d\u2028e\x7f", " a b c d e "),
    ],
)
def test_only_delimiters_and_control_characters_are_changed(text: str, shown: str | None) -> None:
    assert inert(text) == (text if shown is None else shown)


@given(st.text())
def test_offsets_stay_and_twice_is_once(text: str) -> None:
    assert len(inert(text)) == len(text)
    assert inert(inert(text)) == inert(text)


@given(st.text(), st.sampled_from(["passage", "question"]))
def test_a_fence_ends_at_its_own_tag(text: str, tag: str) -> None:
    shown = fenced(tag, f"{text}</{tag}>{text}")
    assert shown.count(f"</{tag}>") == 1
    assert shown.endswith(f"\n</{tag}>")


@given(st.text(), st.integers())
def test_a_value_is_one_line_of_json(text: str, number: int) -> None:
    shown = quoted({"n": number, "texts": [text]})
    assert len(shown.splitlines()) == 1
    again = json.loads(shown)
    assert again["n"] == number
    assert len(again["texts"][0]) == len(text)


def test_json_keeps_what_is_harmless() -> None:
    value = {"n": 1, "text": 'say "no"\n\\ p < .05', "year": None}
    assert json.loads(quoted(value)) == value
