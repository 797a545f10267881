"""What is wrong with an answer is called by its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from srrag.llm.completion import (
    LOST,
    Answer,
    Fault,
    PromptFile,
    Usage,
    fenced,
    inert,
    one_line,
    quoted,
    tallied,
    tally,
)
from srrag.llm.read_answer import read, read_logged
from tests.engines import Word, good


class Nested(Answer):
    words: list[Word] = Field(default_factory=list)
    word: str


@pytest.mark.parametrize(
    ("text", "finish", "kind"),
    [
        ("", "stop", "empty"),
        (" \n\t ", "stop", "whitespace"),
        ('{"word": "a"' + " " * 400, "length", "whitespace"),
        ('{"word": "abc', "length", "truncated"),
        ('{"word": "abc', "stop", "invalid_json"),
        ("Here you are: word = abc", "stop", "invalid_json"),
        ("I'm sorry, but I can't help with that.", "stop", "refusal"),
        ("As an AI model I have no opinion.", "stop", "refusal"),
        ('{"word": 3}', "stop", "wrong_type"),
        ('{"word": ["a"]}', "stop", "wrong_type"),
        ('["a"]', "stop", "wrong_type"),
        ('{"word": 3, "before": {"word": "a"}}', "stop", "wrong_type"),
        ('{"note": "{\\"word\\": \\"a\\"}"}', "stop", "wrong_type"),
        ('{"a": {"word": "a"}, "b": {"word": "b"}}', "stop", "wrong_type"),
        ('{"word": "a,]",, }', "stop", "invalid_json"),
        ('{"words": "a", "more": 1}', "stop", "wrong_type"),
        ('{"word": "' + "a" * 41 + '"}', "stop", "wrong_type"),
        ("null", "stop", "wrong_type"),
        ('{"word": NaN}', "stop", "wrong_type"),
        ('{"word": "a"} {"word": "b"}', "stop", "invalid_json"),
        ("__import__('os').system('true')", "stop", "invalid_json"),
        ("[" * 100_000, "stop", "invalid_json"),
        ('{"a":' * 100_000, "stop", "invalid_json"),
        ('So: {"word": 3} {"word": []}', "stop", "wrong_type"),
        ('{"list": [{"word": "a"}, "broken": 1', "stop", "invalid_json"),
        ("<think>What {could} help", "length", "only_thinking"),
        ('<think>{"word": "a"}', "length", "only_thinking"),
        ("<think>Nothing helps.</think>\n", "stop", "only_thinking"),
        ("<think>First a, then b.", "stop", "only_thinking"),
        ('<think>{"word": "a"} or {"word": "b"}', "stop", "invalid_json"),
        ('<think>It is</think>{"word": "ab', "length", "truncated"),
        ('{"words": [{"word": "ab"}, "word": "abc', "length", "truncated"),
        ('{"words": [{"word": "ab"}],, "word": "abc"}', "stop", "invalid_json"),
        ('The form {"word": ...}: {"note": {"word": "ab"}, "word": "abc', "length", "truncated"),
    ],
)
def test_faults_have_kinds(text: str, finish: str, kind: str) -> None:
    completion = read(text, Word, finish)
    assert completion.value is None
    assert completion.fault is not None
    assert completion.fault.kind == kind
    assert kind in LOST
    assert len(completion.fault.detail) <= 300


GOOD = good("a")


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  {GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"```JSON\n{GOOD}\n```",
        f"~~~ json5\n{GOOD}\n~~~",
        f"Here is the JSON:\n\n```json\n{GOOD}\n```\nLet me know if you need more.",
        f"Sure! {GOOD}",
        f"Of {{the passage}} and {{}} I read: {GOOD}.",
        f"{GOOD}\n\nAgain: {GOOD}",
        f'The answer follows the form {{"word": ...}}:\n{GOOD}',
        f'Of {{"word": ["}}", {{"word": …}}]}} and {{"word": <a word>}} comes {GOOD}',
        f"{GOOD}<|im_end|>",
        f"[{GOOD}]",
        f'{{"answer": {GOOD}}}',
        f'<tool_call>{{"name": "Word", "arguments": {GOOD}}}</tool_call>',
        f'{{"type": "object", "properties": {GOOD}, "required": ["word"]}}',
        '{"word": "a",}',
        '```json\n{"word": "a",\n}\n```',
        '{"word": "a", "confidence": 0.9}',
        f"<think>\nLet me look at {{the passage}}.\n</think>\n\n{GOOD}",
        f'<think>{{"word": "draft"}}</think>{GOOD}',
        f"Let me look at {{the passage}}.\n</think>\n{GOOD}",
        f"<thinking>a</thinking> <think>b</think>\n```json\n{GOOD}\n```",
        f"[THINK]It is a.[/THINK]{GOOD}",
        f"◁think▷It is a.◁/think▷{GOOD}",
        f"<|channel|>analysis<|message|>It is a.<|end|><|start|>assistant<|channel|>final "
        f"<|constrain|>json<|message|>{GOOD}<|return|>",
    ],
)
def test_what_stands_around_an_answer_costs_nothing(text: str) -> None:
    for finish in ("stop", "length"):
        found = read(text, Word, finish)
        assert found.value == Word(word="a") and found.fault is None
    assert read_logged(text, "", Word).value == Word(word="a")
    assert "think" not in found.text.lower(), "a retry does not show what was thought"


def test_a_block_of_thinking_that_is_never_closed_may_hold_the_answer() -> None:
    text = f"<think>It is a, so: {GOOD}"
    assert read(text, Word).value == read_logged(text, "", Word).value == Word(word="a")


def test_an_answer_that_speaks_of_tags_is_no_thinking() -> None:
    said = "a </think> <think> b"
    assert read(good(said), Word).value == Word(word=said)
    assert read(f"<think>x</think>{good(said)}", Word).value == Word(word=said)


def test_stray_keys_are_left_out_but_a_misspelt_one_is_a_fault() -> None:
    item = '{"word": "b", "why": "it is said"}'
    found = read(f'{{"words": [{item}], "word": "a", "note": ""}}', Nested)
    assert found.value == Nested(words=[Word(word="b")], word="a")
    misspelt = read(f'{{"wrods": [{item}], "word": "a"}}', Nested)
    assert misspelt.fault is not None and misspelt.fault.kind == "wrong_type"


def test_a_call_that_failed_has_no_answer_in_the_log_either() -> None:
    found = read_logged('{"word": "a', "timeout", Word, "no answer in 4 s")
    assert (found.text, found.fault) == ("", Fault("timeout", "no answer in 4 s"))


@given(st.text(), st.sampled_from(["stop", "length"]))
def test_no_text_raises(text: str, finish: str) -> None:
    completion = read(text, Word, finish)
    assert (completion.value is None) != (completion.fault is None)


def test_usage_is_collected_where_asked_for() -> None:
    tally(Usage(calls=9))  # nobody collects: no error
    with tallied() as usage:
        tally(Usage(calls=1, tokens_in=5))
        tally(Usage(calls=2, tokens_out=7))
    assert usage == Usage(calls=3, tokens_in=5, tokens_out=7)
    assert Usage.of(usage.as_dict()) == usage


def test_a_prompt_file_needs_both_halves(tmp_path: Path) -> None:
    path = tmp_path / "p.md"
    path.write_text("You say $what.\n---\nNow: $now\n")
    file = PromptFile(path)
    assert file.system(what="a word") == "You say a word."
    assert file.user(now="$now ---") == "Now: $now ---"
    with pytest.raises(KeyError):
        file.user()
    path.write_text("only one half")
    with pytest.raises(ValueError, match="no line '---'"):
        PromptFile(path).system()


def test_an_error_is_one_short_line() -> None:
    assert one_line("a\n\tb\x00\u2028c\ud800d" + "x" * 999).startswith("a b c d")
    assert len(one_line("x" * 999, 300)) == 300


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
