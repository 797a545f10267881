"""Renders calls as requests of the chat completions API, as the endpoint at hand takes them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from srrag.engine.call import LENGTHS, Call, allowed, schema_json
from srrag.llm.completion import Answer, Enums, Prompt

COMPACT = "\n\nWrite the JSON on one line, without indentation or blanks between its parts."
"""Asked of every endpoint: indentation is up to half of an answer's tokens."""
NUMBERS = frozenset(
    {"minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
)
DROPPED: Mapping[str, frozenset[str]] = {
    "all": frozenset(),
    "items": LENGTHS,
    "none": LENGTHS | NUMBERS | {"pattern"},
}
"""Schema keywords that are left out, by the value of `HttpEngine.bounds`."""
OPTIONAL = ("max_tokens", "temperature", "seed", "stream_options")
"""Fields of a request that some endpoints refuse, and that an answer can do without."""
_REFUSED = re.compile(
    r"unsupported|(?:not|n't) (?:support|allow|permit|accept|a valid|recogni[sz]e)"
    r"|unknown|unrecogni[sz]ed|unexpected|extra inputs|deprecated",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Dialect:
    """How an endpoint wants requests; the fields are those of HttpEngine.

    `refused` are the OPTIONAL fields that the endpoint has refused. In place of `max_tokens` it
    then gets `max_completion_tokens`.
    """

    model: str
    structured: str
    strict: bool
    bounds: str
    thinking: int = 0
    refused: frozenset[str] = frozenset()

    def limit(self, prompt: Prompt) -> int:
        """The most tokens that an answer may have, with those for thinking."""
        return prompt.max_tokens + self.thinking

    def added(self, prompt: Prompt) -> str:
        """What a request appends to a system text; it is sent, so it counts."""
        return appended(prompt.schema, self.structured)

    def without(self, message: str) -> Dialect | None:
        """Return the dialect without the field that an endpoint's message refuses, if any."""
        for name in OPTIONAL:
            named = re.search(rf"(?<!\w){name}(?!\w)", message)
            other = name != "max_tokens" or "max_completion_tokens" in message
            if name not in self.refused and named and other and _REFUSED.search(message):
                return replace(self, refused=self.refused | {name})
        return None

    def request(self, call: Call, *, stream: bool = False) -> bytes:
        """Render the JSON body of a call."""
        messages = call.messages()
        messages[0]["content"] += self.added(call.prompt)
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "max_tokens": self.limit(call.prompt),
            "temperature": call.prompt.temperature,
            "seed": call.seed,
        }
        schema = call.prompt.schema
        if self.structured == "json_schema":
            body["response_format"] = _response_format(
                schema, self.strict, self.bounds, call.prompt.enums
            )
        elif self.structured == "json_object":
            body["response_format"] = {"type": "json_object"}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if "max_tokens" in self.refused:
            body["max_completion_tokens"] = body["max_tokens"]
        body = {name: value for name, value in body.items() if name not in self.refused}
        return json.dumps(body, separators=(",", ":")).encode("ascii")


def appended(schema: type[Answer], structured: str) -> str:
    """Return the text appended to a system text: without guided decoding it states the schema."""
    if structured == "json_schema":
        return COMPACT
    return f"{COMPACT}\n\nAnswer with one JSON object of this JSON schema:\n{schema_json(schema)}"


@lru_cache(maxsize=256)
def _response_format(
    schema: type[Answer], strict: bool, bounds: str, enums: Enums
) -> dict[str, Any]:
    shape = allowed(schema, enums, DROPPED[bounds])
    name = re.sub(r"[^\w-]", "_", schema.__name__, flags=re.ASCII)[:64]
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": shape, "strict": strict},
    }
