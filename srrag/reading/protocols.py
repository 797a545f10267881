"""Whether a paper only plans a study: its title says so, or its text tells it in the future."""

import re

_TITLED = re.compile(
    r"\b(?:study|trial|review|research) protocols?\b"
    r"|\bprotocols? (?:for|of) (?:an? |the )?(?:[\w-]+ ){0,8}(?:trial|study|review|meta-analysis)\b"
    r"|[:.–-] (?:an? )?protocol\b|^protocol\s?:"
    r"|\b(?:rationale and (?:study )?design|(?:study )?design and rationale)\b"
    r"|\b(?:study|trial) design\W*$",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"\bthis (?:is|paper|article|study|report|manuscript)\b[^.]{0,60}"
    r"\b(?:protocol|design|methodology|methods|rationale)\b[^.]{0,40}\b(?:trial|study|review)\b",
    re.IGNORECASE,
)
_DESIGN = re.compile(r"(?m)^#* *methods?/design\W*$", re.IGNORECASE)
"""The heading of a protocol in journals that print them."""
_PLANNED = re.compile(
    r"\b(?:will|to) be (?:\w+ly )?(?:randomi[sz]ed|recruited|enrol\w+|allocated|assigned|assessed"
    r"|measured|evaluated|compared|conducted|followed|collected|analy[sz]ed|included|performed)\b"
    r"|\bwill (?:\w+ly )?(?:receive|undergo|assess|evaluate|compare|investigate|examine|recruit"
    r"|determine|establish|provide|attend|complete)\b",
    re.IGNORECASE,
)
_MEASURED = re.compile(
    r"\bP\s*[=<>≤≥]\s*0?[.·,]\d|\b95\s*%\s*(?:CI|confidence)|±"
    r"|\bsignificantly (?:\w+er|more|less)\b|\b(?:was|were) (?:not )?significant",
    re.IGNORECASE,
)
_PLANS = 3
"""Statements about the future that make a plan of a paper that reports no figure."""


def has_no_results(title: str, text: str) -> bool:
    """Whether a paper is a protocol: no paper that reports a test or an interval is one."""
    if _MEASURED.search(text):
        return False
    plans = len(_PLANNED.findall(text))
    return bool(
        _TITLED.search(title)
        or plans >= _PLANS
        or (plans and (_SAID.search(text) or _DESIGN.search(text)))
    )
