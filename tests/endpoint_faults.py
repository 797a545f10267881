"""What can go wrong at the test endpoint, and when."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

STATUSES: dict[str, tuple[int, dict[str, Any]]] = {
    "rate_limit": (429, {"message": "Rate limit reached", "code": "rate_limit_exceeded"}),
    "quota": (429, {"message": "You are out of credit", "code": "insufficient_quota"}),
    "error": (500, {"message": "worker died"}),
    "busy": (503, {"message": "all replicas are busy"}),
    "too_long": (400, {"message": "This model's maximum context length is 64 tokens."}),
    "bad_request": (400, {"message": "keyword 'minItems' is not\nsupported"}),
    "forbidden": (403, {"message": "no access to this model"}),
    "unknown_model": (404, {"message": "The model does not exist."}),
    "moved": (307, {"message": "moved"}),
}
BODIES = {
    "garbage": "<html><body>502 Bad Gateway</body></html>",
    "half_json": '{"choices": [{"message": {"cont',
    "no_choices": '{"object": "chat.completion", "choices": []}',
    "huge": '{"choices": [{"message": {"content": "' + "x" * 9_000_000 + '"}}]}',
}
KINDS = {
    *STATUSES, *BODIES, "slow", "drop", "half_body", "stall", "half_stream", "short_stream",
    "nonsense", "empty", "refusal", "filtered", "length", "keep_alive", "drip", "endless",
}  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """A fault and when it strikes.

    `kind=0.1`: that share of all sends, by hash of the prompt and of how often it was sent.
    `kind@3`, `kind@3-5`, `kind@3-`: the third send, third to fifth, from the third on.
    `kind#2`: the first two sends of every prompt.
    """

    kind: str
    share: float = 0.0
    first: int = 0
    last: float = 0
    sends: int = 0

    @classmethod
    def read(cls, text: str) -> Planned:
        """Read one plan; raises ValueError that shows it."""
        found = re.fullmatch(r"(\w+)(?:=([\d.]+)|@(\d+)(-(\d*))?|#(\d+))", text.strip())
        if not found or found[1] not in KINDS:
            raise ValueError(f"fault {text!r}: not kind=share, kind@n-m or kind#n of {KINDS}")
        kind, share, first, span, last, sends = found.groups()
        end = int(last) if last else float("inf") if span else int(first or 0)
        return cls(kind, float(share or 0), int(first or 0), end, int(sends or 0))

    def strikes(self, digest: str, sent: int, arrival: int) -> bool:
        """Whether it strikes the `sent`-th send of a prompt, the `arrival`-th of all."""
        if self.share:
            drawn = hashlib.blake2b(f"{self.kind} {digest} {sent}".encode(), digest_size=4)
            return int.from_bytes(drawn.digest(), "big") < self.share * 2**32
        if self.sends:
            return sent <= self.sends
        return self.first <= arrival <= self.last
