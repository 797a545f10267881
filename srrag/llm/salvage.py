"""Finds the JSON of an answer: behind thinking, within prose, or in one that was cut off."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import pydantic

A = TypeVar("A", bound=pydantic.BaseModel)

_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|"', re.DOTALL)
_IN_LIST = ["{", "["]
_TAGS = "think|thinking|thought|reasoning|seed:think"
_OPEN = re.compile(rf"<(?:{_TAGS})>|\[THINK\]|◁think▷|<\|channel\|>analysis", re.IGNORECASE)
_CLOSE = re.compile(
    rf"</(?:{_TAGS})>|\[/THINK\]|◁/think▷|<\|channel\|>final[^{{]*?<\|message\|>", re.IGNORECASE
)
_BEGINS = re.compile(r'\{\s*["}]')
_DECODER = json.JSONDecoder()


def spoken(text: str) -> str:
    """Return an answer without the thinking before it; "" if it holds nothing else.

    The opening tag of a block may be missing, since chat templates write it into the prompt. A text
    that begins with a brace holds no thinking, whatever its strings say.
    """
    rest = text
    while not rest.lstrip().startswith("{"):
        if (close := _CLOSE.search(rest)) is None:
            return "" if _OPEN.match(rest.lstrip()) else rest
        rest = rest[close.end() :]
    return rest


def objects(text: str) -> Iterator[str]:
    """Yield the JSON objects of a text in order, none from within one that is broken or cut off."""
    begins = _BEGINS.search(text)
    while begins is not None:
        start = begins.start()
        try:
            end = _DECODER.raw_decode(text, start)[1]
            yield text[start:end]
        except (ValueError, RecursionError):
            end = _closed(text, start)
        begins = _BEGINS.search(text, end)


def _closed(text: str, start: int) -> int:
    """Where the brackets that open at `start` are closed, as those of a skeleton {"word": ...}."""
    depth = 0
    for found in _PART.finditer(text, start):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[0], 0)
        if not depth:
            return found.end()
        if found[0] == '"':
            break  # a string that never ends
    return len(text)


def salvaged(text: str, schema: type[A]) -> A | None:
    """Return an answer with the complete, distinct items of a text's lists, or None.

    The text has to end within a list of its outermost object, after at least one complete item.
    Lists and texts that were not begun are empty where they may be; where another field is missing,
    there is no answer.
    """
    cut = _cut(text)
    try:
        value = json.loads(cut) if cut else None
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    lists = {name: _distinct(item) for name, item in value.items() if isinstance(item, list)}
    empty: dict[str, Any] = {}
    for name, field in schema.model_json_schema().get("properties", {}).items():
        if field.get("type") == "array" and not field.get("minItems"):
            empty[name] = []
        elif field.get("type") == "string" and not ({"minLength", "enum"} & field.keys()):
            empty[name] = ""
    try:
        return schema.model_validate({**empty, **value, **lists})
    except pydantic.ValidationError:
        return None


def _cut(text: str) -> str | None:
    """Close a text after the last complete item of the list that it ends in."""
    open_brackets: list[str] = []
    end = 0
    for found in _PART.finditer(text):
        part = found[0]
        if part == '"':
            break  # a string that never ends
        if part[0] == '"':
            if open_brackets == _IN_LIST:
                end = found.end()
        elif part in "{[":
            open_brackets.append(part)
        elif part in "}]" and open_brackets:
            open_brackets.pop()
            if open_brackets == _IN_LIST:
                end = found.end()
    return text[:end] + "]}" if end and open_brackets[:2] == _IN_LIST else None


def _distinct(items: list[Any]) -> list[Any]:
    return list({json.dumps(item, sort_keys=True): item for item in items}.values())
