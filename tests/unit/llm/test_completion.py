"""What is wrong with an answer is called by its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.llm.completion import LOST, PromptFile, Usage, one_line, read, tallied, tally
from tests.engines import Word, good


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
        ('{"word": "a", "more": 1}', "stop", "wrong_type"),
        ('{"word": "' + "a" * 41 + '"}', "stop", "wrong_type"),
        ("null", "stop", "wrong_type"),
        ('{"word": NaN}', "stop", "wrong_type"),
        ('{"word": "a"} {"word": "b"}', "stop", "invalid_json"),
        ("__import__('os').system('true')", "stop", "invalid_json"),
        ("[" * 100_000, "stop", "invalid_json"),
    ],
)
def test_faults_have_kinds(text: str, finish: str, kind: str) -> None:
    completion = read(text, Word, finish)
    assert completion.value is None
    assert completion.fault is not None
    assert completion.fault.kind == kind
    assert kind in LOST
    assert len(completion.fault.detail) <= 300


@pytest.mark.parametrize("text", [good("a"), f"  {good('a')}\n", f"```json\n{good('a')}\n```"])
def test_good_answers(text: str) -> None:
    assert read(text, Word).value == Word(word="a")
    assert read(text, Word, "length").value == Word(word="a")


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
