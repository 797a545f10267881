"""Salvages the complete list items of an answer that was cut off."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import pydantic

A = TypeVar("A", bound=pydantic.BaseModel)

_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|"', re.DOTALL)
_IN_LIST = ["{", "["]


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
