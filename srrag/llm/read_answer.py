"""Reads the answer in what a model said: behind thinking, within prose, cut off or in a loop."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pydantic
import pydantic_core

from srrag.llm.completion import FAILED_CALLS, Answer, Completion, Fault
from srrag.llm.fields import Losses

MIN_REPEATED_CHARS = 400
"""Minimum length of a repeated stretch, so that no short list counts as a loop."""

MIN_COPIES = 3
"""Minimum number of copies in the stretch."""

MAX_TAIL_CHARS = 6000
"""How far back a repeat is sought: three copies of an item of 2,000 characters."""

_EVERY_CHARS = 200


def repeated(text: str) -> int | None:
    """Return the start of the second copy of the stretch that the text's end repeats, or None.

    The end is a loop if its last n ≥ `MIN_REPEATED_CHARS` characters have a period of at most n /
    `MIN_COPIES`. The period is that of the failure function (Knuth, Morris, Pratt 1977) of the
    reversed end, so the cost is linear in `MAX_TAIL_CHARS`.
    """
    tail = text[-MAX_TAIL_CHARS:][::-1]
    size = len(tail)
    if size < MIN_REPEATED_CHARS:
        return None
    border = [0] * size
    length = best = period = 0
    for n in range(1, size):
        while length and tail[n] != tail[length]:
            length = border[length - 1]
        if tail[n] == tail[length]:
            length += 1
        border[n] = length
        if n + 1 >= MIN_REPEATED_CHARS and MIN_COPIES * (n + 1 - length) <= n + 1:
            best, period = n + 1, n + 1 - length
    return len(text) - best + period if best else None


def ended(text: str, finish: str) -> tuple[str, str]:
    """Return an answer's text and finish reason, with all but the first copy of a loop cut off.

    An answer that reached its limit ("length") within a loop is "looped" too.
    """
    start = repeated(text) if finish in ("length", "looped") else None
    return (text, finish) if start is None else (text[:start], "looped")


class LoopWatch:
    """Takes the pieces of an answer, and tells when it begins to loop."""

    def __init__(self) -> None:
        """Begin with no text."""
        self._tail = ""
        self._unseen = 0

    def loops(self, piece: str) -> bool:
        """Whether the answer, with this piece, repeats its end."""
        self._tail = (self._tail + piece)[-MAX_TAIL_CHARS:]
        self._unseen += len(piece)
        if self._unseen < _EVERY_CHARS:
            return False
        self._unseen = 0
        end = self._tail[-_EVERY_CHARS:]
        seen_before = self._tail.find(end) < len(self._tail) - len(end)
        return seen_before and repeated(self._tail) is not None


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


CUT_OFF = ("length", "looped")
"""Finish reasons of an incomplete answer."""


_CONTROL = re.compile(r"[\x00-\x1f]")


_REFUSAL = re.compile(
    r"\b(?:sorry|apologi[sz]e|(?:can(?:no|')t|unable to|not able to|won't|will not) "
    r"(?:\w+ ){0,3}(?:help|assist|comply|provide|answer|fulfil|do)|as an ai)\b",
    re.IGNORECASE,
)


_MAX_DETAIL_CHARS = 300


_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\Z))|,(?=\s*[}\]])', re.DOTALL)


def read(text: str, schema: type[Answer], finish: str = "stop") -> Completion:
    """Parse an answer by its schema; an invalid answer becomes a Completion with a fault.

    Thinking before the JSON, prose, fences or an object around it, and commas behind the last of
    its items cost nothing. Of several objects, one alone may fit the schema.
    """
    said = spoken(text)
    # Guided decoding lets raw control characters through, although JSON forbids them.
    body = _CONTROL.sub(" ", said.strip())
    if not body and said != text:
        # A block that is never closed may still hold the answer, unless it was cut off.
        if finish not in CUT_OFF and (found := _within(text, schema)) is not None:
            return found
        return Completion(fault=Fault("only_thinking", "The answer held nothing but thinking."))
    if not body:
        kind = "whitespace" if text else "empty"
        return Completion(text, fault=Fault(kind, "The answer held no text."))
    try:
        return _valid(body, schema, said)
    except pydantic.ValidationError as failed:
        error = failed
    begun = body[max(0, body.find("{")) :]
    if finish in CUT_OFF and (rescued := salvaged(begun, schema)) is not None:
        return Completion(said, value=rescued, cut=True)
    for tried in (body, _LAST_COMMA.sub(r"\1", body)):
        found = _within(tried, schema)
        if found is not None and found.value is not None:
            return found
    prose = error.errors()[0]["type"] == "json_invalid"
    return found if prose and found else Completion(said, fault=_fault(said, finish, error))


def _valid(body: str, schema: type[Answer], said: str) -> Completion:
    """Validate a JSON text; stray keys are left out if no field is missing beside them."""
    losses = Losses()
    try:
        given = pydantic_core.from_json(body)
    except ValueError:
        given = None
    whole = isinstance(given, dict) and schema.model_fields.keys() <= given.keys()
    value = schema.model_validate_json(body, context=losses, extra="ignore" if whole else None)
    return Completion(said, value=value, lost=losses.items)


def _within(text: str, schema: type[Answer]) -> Completion | None:
    """The one object of a text that fits the schema, else the fault of the first; None without."""
    first: Completion | None = None
    fitting: dict[str, Completion] = {}
    for each in (inner for outer in objects(text) for inner in (outer, *_wrapped(outer, schema))):
        try:
            found = _valid(each, schema, each)
            fitting.setdefault(found.value.model_dump_json(), found)
        except pydantic.ValidationError as error:
            first = first or Completion(text, fault=_fault(each, "stop", error))
    if len(fitting) > 1:
        detail = "The answer held several JSON objects of the schema."
        return Completion(text, fault=Fault("invalid_json", detail))
    return next(iter(fitting.values()), first)


def _wrapped(text: str, schema: type[Answer]) -> list[str]:
    """Answers within an object that has no field of theirs, as {"answer": {…}}."""
    fields = schema.model_fields.keys()
    try:
        outer = pydantic_core.from_json(text)
    except ValueError:  # too deep
        return []
    inner = () if fields & outer.keys() else outer.values()
    return [json.dumps(each) for each in inner if isinstance(each, dict) and fields <= each.keys()]


def read_logged(text: str, fault: str, schema: type[Answer], detail: str = "") -> Completion:
    """Parse a logged answer with its logged fault ("" for none), as `read` did at that time.

    This version may accept what an older one did not; but an answer that was cut off stays cut off,
    and a call that failed has no answer.
    """
    if fault in FAILED_CALLS:
        return Completion(fault=Fault(fault, detail))
    cut = ("", "truncated", "looped", "only_thinking")
    completion = read(text, schema, "length" if fault in cut else "stop")
    if not fault and completion.value is None:
        completion = read(text, schema)
    if completion.fault is not None and fault:
        return replace(completion, fault=Fault(fault, detail or completion.fault.detail))
    return completion


def _fault(text: str, finish: str, error: pydantic.ValidationError) -> Fault:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    detail = f"{where}: {first['msg']}" if where else str(first["msg"])
    detail = detail.encode("utf-8", "replace").decode()[:_MAX_DETAIL_CHARS]
    if finish in CUT_OFF:
        # A weak model under guided decoding may emit whitespace up to the token limit.
        if re.search(r"\s{50,}", text):
            return Fault("whitespace", "The answer was cut off: too long.")
        if finish == "looped" or repeated(text) is not None:
            return Fault("looped", "The answer repeated itself without an end.")
        return Fault("truncated", "The answer was cut off: too long.")
    if first["type"] != "json_invalid":
        return Fault("wrong_type", detail)
    start = text.lstrip()[:300]
    if start[:1] not in "{[" and _REFUSAL.search(start):
        return Fault("refusal", "The answer was a refusal.")
    return Fault("invalid_json", detail)
