"""Delimiters that what stands between them cannot close: documents and questions are data."""

from __future__ import annotations

import json
import re

# What a prompt cannot show, but for line feed and tab.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# Tags, and the special tokens of chat templates, which tokenizers read in any text: </x>, <x>,
# <|x|>. "p < 0.05" and "x<y" are none.
_TAG = re.compile(r"<(?=\s{0,9}[/|｜]|[A-Za-z_][^\s<>]{0,60}>)")
_BRACKET = re.compile(r"\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_[A-Z]{1,12})\])")


def inert(text: str) -> str:
    """Text without control characters, tags and special tokens, character by character.

    Every offset stays what it was: control characters become blanks, the opening bracket of a
    tag or token becomes another one.
    """
    return _BRACKET.sub("(", _TAG.sub("‹", _CONTROL.sub(" ", text)))


def fenced(tag: str, text: str) -> str:
    """A text as it is between <tag> lines, for what is to be copied verbatim."""
    return f"<{tag}>\n{inert(text)}\n</{tag}>"


def quoted(value: object) -> str:
    """A value as one line of JSON, whose strings what they hold cannot close."""
    return inert(json.dumps(value, ensure_ascii=False))
