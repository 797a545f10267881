"""Answers of the test endpoint: JSON that fills the asked schema with words of the prompt."""

from __future__ import annotations

import hashlib
import json
import random
import re
from typing import Any


def answer_by_schema(request: dict[str, Any]) -> str:
    """Answer a chat request: an instance of its schema, or plain words; equal in, equal out."""
    text = "\n".join(turn["content"] for turn in request["messages"] if turn["role"] == "user")
    seed = hashlib.blake2b(f"{request.get('seed')} {text}".encode(), digest_size=8).digest()
    schema = asked_schema(request)
    if schema is None:
        return _words(random.Random(seed), text, 20, 200)
    made = sample_json(schema, text, random.Random(seed))
    if schema.get("title") == "SearchPlan":
        made["passages"] = made["passages"] or [text]  # so that their channel finds something
    return json.dumps(made, ensure_ascii=False)


def supported(request: dict[str, Any]) -> str:
    """Call each sentence of a prompt of CheckAnswer supported."""
    numbers = re.findall(r'^\{"n": (\d+), "text": ', request["messages"][1]["content"], re.M)
    told = {"reason": "It is there.", "verdict": "full", "correction": "", "cites": []}
    return json.dumps({"checks": [{"n": int(n), **told} for n in numbers]})


READING = ("PapersAnswer", "SearchingAnswer", "ChosenFromPapers")
"""Titles of the schemas of ReadAndAnswer."""


def read_papers(request: dict[str, Any], *more: str) -> str:
    """Answer a prompt of ReadAndAnswer with the first sentence of paper 1, then with `more` texts.

    All of them cite that sentence; without papers the state is "not".
    """
    found = re.search(r"^\[(1\.[1-9]\d*)\] (\".*\")$", request["messages"][1]["content"], re.M)
    said = [
        {"text": text, "sentences": [found[1]]}
        for text in ((json.loads(found[2]), *more) if found else ())
    ]
    told = {"findings": [], "state": "answered" if said else "not", "verdict": "", "choice": 0,
            "answer": said[:3], "evidence": said[3:], "limits": [], "missing": "",
            "search": []}  # fmt: skip
    asked = (asked_schema(request) or {})["properties"]
    return json.dumps({name: told[name] for name in asked})


def asked_schema(request: dict[str, Any]) -> dict[str, Any] | None:
    """The schema in `response_format`, else one that stands as the system message's last line.

    Its title is the name that `response_format` gives it.
    """
    asked = request.get("response_format") or {}
    if asked.get("type") == "json_schema":
        told = asked["json_schema"]
        return {**told["schema"], "title": told["name"]}
    for turn in request["messages"]:
        last = turn["content"].rstrip().rpartition("\n")[2]
        if turn["role"] == "system" and last.startswith("{"):
            loaded: dict[str, Any] = json.loads(last)
            return loaded
    return None


def sample_json(schema: dict[str, Any], text: str, draw: random.Random) -> Any:
    """Draw a small instance; strings are verbatim pieces of the text.

    Knows what pydantic writes, but for `format`, and of `pattern` names to choose from alone:
    raises ValueError on the others.
    """
    return _sample(schema, schema.get("$defs", {}), text, draw)


def _sample(node: dict[str, Any], defs: dict[str, Any], text: str, draw: random.Random) -> Any:
    if "$ref" in node:
        return _sample(defs[node["$ref"].rpartition("/")[2]], defs, text, draw)
    if "const" in node:
        return node["const"]
    if "enum" in node:
        return draw.choice(node["enum"])
    if options := node.get("anyOf") or node.get("oneOf") or node.get("allOf"):
        return _sample(draw.choice(options), defs, text, draw)
    if re.fullmatch(r"\^\((\(\w+\)\|?)+\)\$", node.get("pattern", "")):  # the names of `allowed`
        return draw.choice(re.findall(r"\w+", node["pattern"]))
    if "pattern" in node or "format" in node:
        raise ValueError(f"cannot draw an instance of {node}")
    match node.get("type"):
        case "object":
            fields = node.get("properties", {})
            return {name: _sample(child, defs, text, draw) for name, child in fields.items()}
        case "array":
            least = node.get("minItems", 0)
            size = draw.randint(least, min(node.get("maxItems", least + 2), least + 2))
            return [_sample(node.get("items", {}), defs, text, draw) for _ in range(size)]
        case "string":
            return _words(draw, text, node.get("minLength", 0), node.get("maxLength", 60))
        case "integer":
            return draw.randint(*_bounds(node, 1))
        case "number":
            low, high = _bounds(node, 0)
            return round(draw.uniform(low, high), 3)
        case "boolean":
            return draw.random() < 0.5
        case _:
            return None


def _bounds(node: dict[str, Any], step: int) -> tuple[Any, Any]:
    low = node.get("minimum", node.get("exclusiveMinimum", 0) + step)
    high = node.get("maximum", node.get("exclusiveMaximum", low + 10 + step) - step)
    return low, max(low, high)


def _words(draw: random.Random, text: str, least: int, most: int) -> str:
    starts = [found.start() for found in re.finditer(r"\S+", text)] or [0]
    first = draw.randrange(len(starts))
    last = min(first + draw.randint(2, 6), len(starts))
    end = starts[last] if last < len(starts) else len(text)
    piece = text[starts[first] : max(end, starts[first] + least)][: min(most, 200)].strip()
    return piece.ljust(least, "x")
