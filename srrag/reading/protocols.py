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
    r"[wt](?<!\w[wt])(?:ill|o) be (?:\w+ly )?(?:randomi[sz]ed|recruited|enrol\w+|allocated|assigned"
    r"|assessed|measured|evaluated|compared|conducted|followed|collected|analy[sz]ed|included"
    r"|performed)\b"
    r"|w(?<!\ww)ill (?:\w+ly )?(?:receive|undergo|assess|evaluate|compare|investigate|examine"
    r"|recruit|determine|establish|provide|attend|complete)\b"
)
_MEASURED = re.compile(
    r"p(?<!\wp)\s*[=<>≤≥]\s*0?[.·,]\d|95(?<!\w95)\s*%\s*(?:ci|confidence)|±"
    r"|s(?<!\ws)ignificantly (?:\w+er|more|less)\b|w(?<!\ww)(?:as|ere) (?:not )?significant"
)
"""Of texts in small letters. A pattern that begins with a letter, and then looks back for the edge
of a word, is looked for eight times as fast as one that begins with an edge or folds letters."""
_PLANS = 3
"""Statements about the future that make a plan of a paper that reports no figure."""


def has_no_results(title: str, text: str) -> bool:
    """Whether a paper is a protocol: no paper that reports a test or an interval is one."""
    folded = text.lower()
    if _MEASURED.search(folded):
        return False
    plans = len(_PLANNED.findall(folded))
    return bool(
        plans >= _PLANS
        or (plans and (_SAID.search(text) or _DESIGN.search(text)))
        or _TITLED.search(title)
    )
