"""What the fields of an answer mean and how much each holds, said once.

A class derived from Answer annotates each field. From that follow the guide of decoding, the text
that a prompt shows (`explained`), the reading, and the tokens to allow (`most_tokens`).
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin

import pydantic
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, core_schema

SLACK = 2
"""A text may have as many times its limit of words; what is beyond is cut."""
MIN_TOKENS = 512
_CHARS_A_WORD = 16
"""Long enough for any word, so that a guide cuts no text that fits its limit."""
_TOKENS_A_WORD = 1.5
_TOKENS_A_FIELD = 6
_TOKENS_A_VALUE = 4
_SENTENCE_END = re.compile(r"[.!?。！？][\"'”’)\]]*(?=\s|$)")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Text:
    """A text: its most words, its meaning, and when it is empty ("" for never).

    A text of more than `SLACK` times as many words ends after the last whole sentence within that
    bound, or the last word; length refuses nothing. Only an empty text that may not be is an error.
    """

    most: int
    meaning: str
    blank: str = ""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: pydantic.GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Cut the text that is read."""
        return core_schema.no_info_after_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: pydantic.GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Bound the guide, by characters."""
        shape = handler(schema)
        shape["maxLength"] = self.most * SLACK * _CHARS_A_WORD
        if not self.blank:
            shape["minLength"] = 1
        return shape

    def _read(self, text: str) -> str:
        text = cut(text.strip(), self.most * SLACK)
        if not text and not self.blank:
            raise PydanticCustomError("string_too_short", "this must not be empty")
        return text


@dataclass(frozen=True)
class Items:
    """A list: its most items, its meaning, when it is empty ("" for never), and the fewest to ask.

    Items that are not as they should be are left out, and so are those beyond the limit. A list is
    an error if it is empty and may not be, or if none of its items stands.
    """

    most: int
    meaning: str
    blank: str = ""
    fewest: int = 1

    def __get_pydantic_core_schema__(
        self, source: Any, handler: pydantic.GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Read item by item."""
        return core_schema.with_info_wrap_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: pydantic.GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Bound the guide."""
        shape = handler(schema)
        shape["maxItems"] = self.most
        if not self.blank:
            shape["minItems"] = self.fewest
        return shape

    def _read(
        self,
        given: Any,
        handler: core_schema.ValidatorFunctionWrapHandler,
        info: core_schema.ValidationInfo,
    ) -> list[Any]:
        if not isinstance(given, list):
            return list(handler(given))
        kept: list[Any] = []
        first: pydantic.ValidationError | None = None
        for item in given:
            try:
                kept += handler([item])
            except pydantic.ValidationError as error:
                first = first or error
                if isinstance(info.context, Losses):
                    info.context.items += 1
        if first is not None and not kept:
            raise first
        if not kept and not self.blank:
            raise PydanticCustomError("too_short", "this list must not be empty")
        return kept[: self.most]


@dataclass(frozen=True)
class Means:
    """The meaning of a field that is neither text nor list, and of each of its values, by name."""

    meaning: str
    values: Mapping[str, str] | None = None

    def __hash__(self) -> int:
        """Hash the text, as the mapping has no hash."""
        return hash(self.meaning)


@dataclass
class Losses:
    """Items that were left out while an answer was read."""

    items: int = 0


def cut(text: str, most: int) -> str:
    """Return the first whole sentences of a text within `most` words, or else its first words."""
    words = list(_WORD.finditer(text))
    if len(words) <= most:
        return text
    head = text[: words[most - 1].end()]
    ends = [found.end() for found in _SENTENCE_END.finditer(head)]
    return head[: ends[-1]] if ends else head


def explained(
    schema: type[pydantic.BaseModel],
    limits: Mapping[str, int] | None = None,
    enums: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return what a prompt says of its answer: its fields in order, their limits, an example.

    `limits` lowers the most words or items of fields, named "Model.field", to those that a step is
    set to; `enums` names the values that guided decoding allows for a field. Raises ValueError for
    a name that is no field's, and for a field without a meaning.
    """
    unused = {*(limits or {}), *(enums or {})}
    lines = ["Answer with one JSON object and nothing else. Its fields, in this order:"]
    lines += _fields(schema, "", limits or {}, enums or {}, unused)
    if unused:
        raise ValueError(f"{', '.join(sorted(unused))}: no field of {schema.__name__}")
    example = getattr(schema, "example", None)
    if example is not None:
        told = json.dumps(example, ensure_ascii=False, separators=(",", ":"))
        lines.append(f"An example of the form, about another case: {told}")
    return "\n".join(lines)


def _fields(
    schema: type[pydantic.BaseModel],
    indent: str,
    limits: Mapping[str, int],
    enums: Mapping[str, Sequence[str]],
    unused: set[str],
) -> list[str]:
    lines = []
    for name, info in schema.model_fields.items():
        key = f"{schema.__name__}.{name}"
        unused.discard(key)
        inner = _inner(info.annotation)
        if marks(info) is None:
            raise ValueError(f"{key} says nothing of what it means: Text, Items or Means")
        lines.append(f"{indent}- `{name}`: {_told(info, limits.get(key), enums.get(key))}")
        if inner is not None:
            lines += _fields(inner, f"{indent}  ", limits, enums, unused)
    return lines


def _told(info: FieldInfo, limit: int | None, values: Sequence[str] | None) -> str:
    """The line of a field, after its name."""
    said = marks(info)
    if isinstance(said, Text):
        most = limit or said.most
        size = "one word" if most == 1 else f"at most {most} words"
        among = f"one of {', '.join(values)}; " if values else f"{size}: "
        return f"{among}{said.meaning}" + (f'; "" if {said.blank}' if said.blank else "")
    if isinstance(said, Items):
        most = limit or said.most
        least = f"exactly {most}" if said.fewest >= most else f"{said.fewest} to {most}"
        size = least if said.fewest > 1 else f"at most {most}"
        each = _words_of_items(info)
        text = f"a list of {size}{each}: {said.meaning}"
        text += f"; [] if {said.blank}" if said.blank else ""
        return f"{text}. Each has" if _inner(info.annotation) is not None else text
    allowed = get_args(info.annotation) if get_origin(info.annotation) is Literal else ()
    text = said.meaning if said else ""
    if isinstance(said, Means) and said.values:
        each = "; ".join(f"{json.dumps(v)} {said.values[v]}".rstrip() for v in allowed)
        return f"{text}: {each}" if text else each
    if allowed:
        return f"{' or '.join(json.dumps(value) for value in allowed)}: {text}"
    if info.annotation is bool:
        return f"true or false: {text}"
    return f"{text}. It has" if _inner(info.annotation) is not None else text


def _words_of_items(info: FieldInfo) -> str:
    """The limit of each text in a list of texts."""
    (item,) = get_args(info.annotation) or (None,)
    for mark in getattr(item, "__metadata__", ()):
        if isinstance(mark, Text):
            return f", each {mark.meaning}, at most {mark.most} words"
    return ""


def marks(info: FieldInfo) -> Text | Items | Means | None:
    """Return what a field is annotated with."""
    return next((m for m in info.metadata if isinstance(m, (Text, Items, Means))), None)


def _inner(annotation: Any) -> type[pydantic.BaseModel] | None:
    """Return the class of answers that a field or the items of its list hold, if any."""
    for each in (annotation, *get_args(annotation)):
        bare = get_args(each)[0] if hasattr(each, "__metadata__") else each
        if get_origin(bare) in (Union, types.UnionType):
            continue
        if isinstance(bare, type) and issubclass(bare, pydantic.BaseModel):
            return bare
    return None


@lru_cache(maxsize=256)
def most_tokens(schema: type[pydantic.BaseModel]) -> int:
    """Return the tokens to allow: every list and text full to its limit, at least `MIN_TOKENS`."""
    return max(MIN_TOKENS, -(-int(_tokens(schema)) // 64) * 64)


def _tokens(schema: type[pydantic.BaseModel]) -> float:
    return sum(_TOKENS_A_FIELD + _tokens_of(info) for info in schema.model_fields.values())


def _tokens_of(info: FieldInfo) -> float:
    said, inner = marks(info), _inner(info.annotation)
    if isinstance(said, Text):
        return said.most * _TOKENS_A_WORD
    one: float = _TOKENS_A_VALUE if inner is None else _tokens(inner)
    if isinstance(said, Items):
        (item,) = get_args(info.annotation) or (None,)
        for mark in getattr(item, "__metadata__", ()):
            if isinstance(mark, Text):
                one = mark.most * _TOKENS_A_WORD + 2
            if isinstance(mark, Items):
                one = mark.most * _TOKENS_A_VALUE
        return said.most * one
    return one
