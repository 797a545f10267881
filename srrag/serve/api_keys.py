"""API keys with their roles, and their rate limit."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROLES = ("reader", "runs", "admin")
"""What a key may do: ask and browse; read stored runs too; reload the build too."""

_LINE = re.compile(r"(?P<name>[\w.-]{1,64})\s+(?P<hash>[0-9a-f]{64})(?:\s+(?P<role>[a-z]+))?")
_MAX_BUCKETS = 10_000


@dataclass(frozen=True)
class ApiKey:
    """The sha256 of a key, in hex, and its role."""

    hash: str
    role: str = ROLES[0]

    def may(self, role: str) -> bool:
        """Whether this key may do what a role may."""
        return ROLES.index(self.role) >= ROLES.index(role)


def read_keys(path: Path) -> dict[str, ApiKey]:
    """Read lines `name sha256-of-the-key [role]`; raises ValueError that names a malformed line."""
    keys: dict[str, ApiKey] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        match = _LINE.fullmatch(text)
        if match is None or match["name"] in keys:
            raise ValueError(f"{path}: line {number} is not a new name and a sha256 in hex")
        role = match["role"] or ROLES[0]
        if role not in ROLES:
            raise ValueError(f"{path}: line {number}: {role!r} is none of {', '.join(ROLES)}")
        keys[match["name"]] = ApiKey(match["hash"], role)
    if not keys:
        raise ValueError(f"{path} holds no key")
    return keys


def owner(keys: Mapping[str, ApiKey], key: str) -> str | None:
    """The name of a key's owner, or None. Compares with every key, each time in constant time."""
    given = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
    found = None
    for name, known in keys.items():
        if hmac.compare_digest(given, known.hash):
            found = name
    return found


@dataclass
class Rate:
    """A token bucket per caller: `burst` at once, then `per_minute`; 0 per minute is unlimited.

    Each of several replicas grants its share of both, and at least one request at once. What
    `charge` takes beyond what is there is paid off before the next request.
    """

    per_minute: float
    burst: int
    replicas: int = 1
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def charge(self, caller: str, tokens: float) -> None:
        """Take more tokens of a caller whose request asks for more work than one token pays."""
        if caller in self._buckets:
            left, then = self._buckets[caller]
            self._buckets[caller] = (left - tokens, then)

    def wait_s(self, caller: str, now: float | None = None) -> float:
        """Take a token of a caller: returns 0, or the seconds until the next one is available."""
        if not self.per_minute:
            return 0.0
        now = time.monotonic() if now is None else now
        most, a_second = max(1.0, self.burst / self.replicas), self.per_minute / 60 / self.replicas
        left, then = self._buckets.pop(caller, (most, now))
        left = min(most, left + (now - then) * a_second)
        wait = 0.0 if left >= 1 else (1 - left) / a_second
        self._buckets[caller] = (left - (0 if wait else 1), now)
        if len(self._buckets) > _MAX_BUCKETS:
            del self._buckets[next(iter(self._buckets))]  # the least recently used
        return wait
