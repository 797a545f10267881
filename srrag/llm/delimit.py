"""Delimits documents and questions in prompts, so that their text cannot close the delimiter."""

from __future__ import annotations

import json
import re

# Non-printing characters except line feed and tab.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# Tags and special tokens of chat templates, which tokenizers recognise in any text: </x>, <x>,
# <|x|>; but not "p < 0.05" or "x<y".
_TAG = re.compile(r"<(?=\s{0,9}[/|｜]|[A-Za-z_][^\s<>]{0,60}>)")
_BRACKET = re.compile(r"\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_[A-Z]{1,12})\])")


def inert(text: str) -> str:
    """Disarm control characters, tags and special tokens, without changing any offset.

    Control characters become blanks; another bracket replaces the opening one of a tag or token.
    """
    return _BRACKET.sub("(", _TAG.sub("‹", _CONTROL.sub(" ", text)))


def fenced(tag: str, text: str) -> str:
    """Put a text between <tag> lines, with its line breaks, so that a model can quote it."""
    return f"<{tag}>\n{inert(text)}\n</{tag}>"


def quoted(value: object) -> str:
    """Write a value as one line of JSON, disarmed, so that its text cannot end a string."""
    return inert(json.dumps(value, ensure_ascii=False))
