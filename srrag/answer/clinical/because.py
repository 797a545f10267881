"""Why a piece of evidence is there, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CHANNELS = {
    "dense": "its meaning is close to the question", "sparse": "it uses the question’s words",
    "graph": "the evidence graph leads to it", "hyde": "it resembles a passage made up to search",
}  # fmt: skip


def here_because(item: Mapping[str, Any], why: Mapping[str, Any] | None) -> str:
    """Say what found a piece of evidence; "" where nothing tells."""
    if why is None:
        return ""
    channels = dict.fromkeys(find["channel"] for find in why["found"])
    reasons = [_CHANNELS[each] for each in _CHANNELS if each in channels]
    if item["grade"] == "A" and any(f.get("track") == "guidelines" for f in why["found"]):
        reasons.append("it was found among the guidelines")
    if not reasons:
        return ""
    told = reasons[0] if len(reasons) == 1 else ", ".join(reasons[:-1]) + " and " + reasons[-1]
    return f"Here because {told}."
