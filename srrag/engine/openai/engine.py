"""The engine for OpenAI-compatible endpoints, with structured output, retries and time limits."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from srrag.core.spec import place_field
from srrag.engine.base import LENGTHS, Call, Model, Session, allowed, schema_json
from srrag.llm.completion import Answer, EngineStopped, Enums, Prompt

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


_NAME = re.compile(r"\$([A-Z_][A-Z0-9_]*)")
_VARIABLE = re.compile(rf"(?:[A-Za-z-]{{1,15}} +)?{_NAME.pattern}")
"""A secret: a variable, behind the word of a scheme, which is too short to be a key."""
_SECRET = re.compile(r"auth|key|token|secret|cookie|passw|credential|sig|code", re.IGNORECASE)
_HEADER = re.compile(r"([\w!#$%&'*+.^`|~-]+):[ \t]*(\S[ -~]*)", re.ASCII)
_PARAMETER = re.compile(r"([\w.~-]+)=([^&#\s]*)", re.ASCII)
STRUCTURED = ("json_schema", "json_object", "none")


class Address(NamedTuple):
    """Where requests go, with the headers that they carry, and what matches the secrets in both."""

    url: str
    headers: dict[str, str]
    secrets: re.Pattern[str]

    def hide(self, text: str) -> str:
        """Replace the secrets in a text, which is not cut yet: a cut may leave a part of one."""
        return self.secrets.sub("***", text)


@dataclass(frozen=True, kw_only=True)
class HttpEngine(Model):
    """An endpoint with OpenAI's chat completions API, such as vLLM, SGLang or a hosted one.

    `structured` says how the endpoint enforces a schema; unless it is `json_schema`, the schema is
    part of the system message. `bounds` says which bounds of the schema are sent (parsing enforces
    all of them): "all"; "items", which omits string lengths, because with them the grammars of
    xgrammar (vLLM, SGLang) forbid quotation marks and line breaks; or "none", for hosted endpoints
    that refuse bounds. `thinking` is the number of tokens that a model which thinks may spend on it
    before it answers, beyond those of the answer; null for other models.
    """

    model: str
    revision: str = ""
    structured: str = "json_schema"
    strict: bool = True
    bounds: str = "items"
    thinking: int | None = None

    folder: str | None = place_field(None)
    """Folder of batch files: prompts go there, and answers come from there, instead of by HTTP."""
    base_url: str = place_field("http://127.0.0.1:8000/v1")
    api_key_env: str | None = place_field(None)
    """Name of the environment variable that holds the API key; null for an endpoint without one."""
    headers: tuple[str, ...] = place_field(())
    """More headers, each "Name: value"; $NAME in a value stands for an environment variable."""
    query: str = place_field("")
    """Query string of each request, such as "api-version=2024-10-21"; $NAME as in headers."""
    timeout_s: float = place_field(300.0)
    """Time limit of one attempt, from its beginning to the end of its answer, streamed or not."""
    max_retries: int = place_field(6)

    def __post_init__(self) -> None:
        """Raise ValueError that names an invalid field; never show a value that may be a key."""
        super().__post_init__()
        rules = {
            "model": (bool(self.model.strip()), "is empty"),
            "structured": (self.structured in STRUCTURED, f"is one of {', '.join(STRUCTURED)}"),
            "bounds": (self.bounds in DROPPED, f"is one of {', '.join(DROPPED)}"),
            "base_url": (
                _plain_url(self.base_url),
                "is http(s)://host[:port]/path, without credentials or query",
            ),
            "api_key_env": (
                self.api_key_env is None
                or bool(re.fullmatch(r"[A-Z_][A-Z0-9_]*", self.api_key_env)),
                "is the name of an environment variable in capitals, not a key",
            ),
            "headers": (
                all(map(_is_header, self.headers)),
                'are "Name: value"; one that holds a secret has $NAME of an environment variable',
            ),
            "query": (
                not self.query or all(map(_is_parameter, self.query.split("&"))),
                "is name=value&…; a secret is $NAME of an environment variable",
            ),
            "thinking": (self.thinking is None or self.thinking >= 0, "is null or at least 0"),
            "concurrency": (self.concurrency >= 1, "is at least 1"),
            "timeout_s": (self.timeout_s > 0, "is above 0"),
            "max_retries": (self.max_retries >= 0, "is at least 0"),
        }
        for name in ("usd_per_mtok_in", "usd_per_mtok_out"):
            value = getattr(self, name)
            rules[name] = (value is None or value >= 0, "is null or at least 0")
        for name in ("tokens_per_s_in", "tokens_per_s_out"):
            value = getattr(self, name)
            rules[name] = (value is None or value > 0, "is null or above 0")
        if self.folder is not None:
            rules["folder"] = (bool(self.folder.strip()), "is empty")
        for name, (holds, rule) in rules.items():
            if not holds:
                raise ValueError(f"engine http: {name} {rule}")
        if self.folder is not None:  # processes of a cluster may work elsewhere
            object.__setattr__(self, "folder", str(Path(self.folder).expanduser().absolute()))

    @property
    def name(self) -> str:
        """The kind "http", the model and its revision."""
        return f"http: {self.model}" + (f"@{self.revision}" if self.revision else "")

    @property
    def deferred(self) -> bool:
        """Whether prompts go to files."""
        return self.folder is not None

    def limit(self, prompt: Prompt) -> int:
        """The most tokens that an answer may have, with those for thinking."""
        return self.dialect.limit(prompt)

    @property
    def dialect(self) -> Dialect:
        """How the endpoint wants requests."""
        return Dialect(self.model, self.structured, self.strict, self.bounds, self.thinking or 0)

    def address(self) -> Address:
        """Read keys from the environment, for the URL and the headers of each request.

        Raises EngineStopped if a variable is unset or holds no valid key.
        """
        told = [
            *self.headers,
            *([f"Authorization: Bearer ${self.api_key_env}"] * bool(self.api_key_env)),
        ]
        secrets = {
            name: self._secret(name) for text in (*told, self.query) for name in _NAME.findall(text)
        }

        def filled(text: str) -> str:
            return _NAME.sub(lambda found: secrets[found[1]], text)

        pairs = (filled(text).partition(":") for text in told)
        headers = {name: value.strip() for name, _, value in pairs}
        query = "&".join(
            f"{name}={quote(filled(value), safe='')}"
            for name, _, value in (each.partition("=") for each in self.query.split("&") if each)
        )
        url = self.base_url.rstrip("/") + "/chat/completions" + (f"?{query}" if query else "")
        longest_first = sorted(secrets.values(), key=len, reverse=True)
        hidden = re.compile("|".join(map(_spellings, longest_first)) or "(?!)")
        return Address(url, headers, hidden)

    def _secret(self, name: str) -> str:
        key = os.environ.get(name, "").strip()
        if not (key and key.isascii() and key.isprintable()):
            why = "holds what no key can hold" if key else "is not set"
            raise EngineStopped(f"{self.name}: the environment variable {name} {why}")
        return key

    def appended(self, schema: type[Answer]) -> str:
        """The wish for compact JSON, and the schema unless the endpoint enforces it."""
        return appended(schema, self.structured)

    async def open(self) -> Session:
        """Open a session without sending anything; raises EngineStopped if the key is unset."""
        if self.folder is not None:
            from srrag.engine.openai.batch_session import BatchSession

            return await BatchSession.open(self, Path(self.folder))
        from srrag.engine.openai.session import HttpSession

        return HttpSession(self)


def _plain_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        bare = not ("@" in url.netloc or url.query or url.fragment or url.port == 0)
    except ValueError:
        return False
    return url.scheme in ("http", "https") and bool(url.hostname) and bare


def _is_header(text: str) -> bool:
    found = _HEADER.fullmatch(text)
    return found is not None and _shows_no_secret(found[1], found[2])


def _is_parameter(text: str) -> bool:
    found = _PARAMETER.fullmatch(text)
    return found is not None and _shows_no_secret(found[1], found[2])


def _shows_no_secret(name: str, value: str) -> bool:
    return bool(_VARIABLE.fullmatch(value)) or not _SECRET.search(name)


def _spellings(secret: str) -> str:
    """A pattern of a secret of which any characters are quoted, as in URLs or in JSON."""

    def spelt(character: str) -> str:
        raw, code = re.escape(character), ord(character)
        quoted = {'"': r'|\\"', "\\": r"|\\\\", "/": r"|\\/", " ": r"|\+"}.get(character, "")
        return rf"(?:{raw}{quoted}|(?i:%{code:02x}|\\u{code:04x}))"

    return "".join(map(spelt, secret))
