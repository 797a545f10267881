"""The engine for OpenAI-compatible endpoints, with structured output, retries and time limits."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from srrag.core.spec import place_field
from srrag.engine.base import Model
from srrag.engine.call import Session
from srrag.engine.openai.circuit_breaker import GRACE_S
from srrag.engine.openai.protocol import DROPPED, appended
from srrag.llm.completion import Answer, EngineStopped

STRUCTURED = ("json_schema", "json_object", "none")


@dataclass(frozen=True, kw_only=True)
class HttpEngine(Model):
    """An endpoint with OpenAI's chat completions API, such as vLLM, SGLang or a hosted one.

    `structured` says how the endpoint enforces a schema; unless it is `json_schema`, the schema is
    part of the system message. `bounds` says which bounds of the schema are sent (parsing enforces
    all of them): "all"; "items", which omits string lengths, because with them the grammars of
    xgrammar (vLLM, SGLang) forbid quotation marks and line breaks; or "none", for hosted endpoints
    that refuse bounds.
    """

    model: str
    revision: str = ""
    structured: str = "json_schema"
    strict: bool = True
    bounds: str = "items"

    folder: str | None = place_field(None)
    """Folder of batch files: prompts go there, and answers come from there, instead of by HTTP."""
    base_url: str = place_field("http://127.0.0.1:8000/v1")
    api_key_env: str | None = place_field(None)
    """Name of the environment variable that holds the API key; null for an endpoint without one."""
    timeout_s: float = place_field(120.0)
    """Time limit of one attempt; in a stream, of one silence."""
    max_retries: int = place_field(6)
    breaker_failures: int = place_field(5)
    """Consecutive calls failed after all retries, or refused connections, that end the run.

    A refused connection uses up no retry.
    """
    breaker_grace_s: float = place_field(GRACE_S)
    """Least duration of the failures that end the run, so that a short outage does not."""

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
            "concurrency": (self.concurrency >= 1, "is at least 1"),
            "timeout_s": (self.timeout_s > 0, "is above 0"),
            "max_retries": (self.max_retries >= 0, "is at least 0"),
            "breaker_failures": (self.breaker_failures >= 1, "is at least 1"),
            "breaker_grace_s": (self.breaker_grace_s >= 0, "is at least 0"),
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

    def key(self) -> str:
        """Read the API key from the environment, or return "" if the endpoint needs none.

        Raises EngineStopped if the variable is unset or holds no valid key.
        """
        if self.api_key_env is None:
            return ""
        key = os.environ.get(self.api_key_env, "").strip()
        if not (key and key.isascii() and key.isprintable()):
            why = "holds what no key can hold" if key else "is not set"
            raise EngineStopped(f"{self.name}: the environment variable {self.api_key_env} {why}")
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
