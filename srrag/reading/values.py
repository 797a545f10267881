"""Find attributes by patterns on lower-cased text: numbers, units, designs, settings, scales."""

from __future__ import annotations

import re
from typing import NamedTuple

from srrag.reading.lexicon import bounded
from srrag.reading.numbers import NUMBER_WORDS, SMALL, TENS


class Value(NamedTuple):
    """An attribute, its normalised value, and its span [start, end) in the text."""

    attribute: str
    value: str
    start: int
    end: int


class Pattern(NamedTuple):
    """A pattern of an attribute; it runs only on texts that contain one of `needles`."""

    attribute: str
    needles: tuple[str, ...]
    regex: re.Pattern[str]


_UNITS_OF_TIME = r"(?:hours?|days?|weeks?|months?|years?)"
_DIGITS = tuple("0123456789")
WEEKS_IN = {"hour": 1 / 168, "day": 1 / 7, "week": 1.0, "month": 365.25 / 84, "year": 365.25 / 7}
"""Weeks in one unit of time (a month is a twelfth of 365.25 days)."""

_WRITTEN = rf"(?:{'|'.join(TENS)})(?:-(?:{'|'.join(SMALL[1:10])}))?|{'|'.join(SMALL[2:])}"

_SOURCES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("sample_size", ("n = ", "n=", "n ="), r"\bn\s*=\s*(\d[\d,]*)"),
    (
        "sample_size",
        (
            "patients",
            "subjects",
            "participants",
            "men",
            "children",
            "adults",
            "infants",
            "people",
            "volunteers",
            "individuals",
            "athletes",
            "students",
        ),
        # "aged 18 to 64 years and adults" is no sample size.
        # "Seven in ten patients" is a share, "seven of ten patients" are of ten.
        r"\b(?:one|<written>|\d+)\s+in\s+(?:10|100|1,?000|<written>)\b"
        # "COVID-19 patients", "type 2 diabetic patients" and "1.5 million people" tell none.
        r"|(?<![\w.,-])(?<!type )(?<!grade )(?<!stage )(?<!phase )(?<!class )(?<!level )"
        r"(\d[\d,]*|<written>)\s+"
        r"(?!(?:year|month|week|day|hour|h|minute|min|time|session|million|billion)s?\b)"
        r"(?:(?!(?:in|of|out)\s)[a-z-]+\s+){0,3}?(?:patients|subjects|participants|women|"
        r"men|children|adults|infants|people|volunteers|individuals|athletes|students)\b",
    ),
    (
        "age_range",
        ("age", "years"),
        r"\b(?:aged?(?:\s+range)?[\s:,(]{0,4}(?:between\s+|from\s+)?)"
        r"(\d+(?:\.\d+)?\s*(?:-|–|to|and)\s*\d+(?:\.\d+)?"
        r"(?:[\s-]*(?:months?|weeks?|days?|hours?)\b)?)(?:\s*(?:years|yrs))?",
    ),
    (
        "age_range",
        ("years",),
        r"\b(\d+\s*(?:-|–|to)\s*\d+)[\s-]+years?(?:\s+of\s+age|[\s-]+olds?)\b",
    ),
    (
        "age_bin",
        ("child", "adolescen", "adult", "elder", "infant", "neonat", "newborn", "older", "geriatr"),
        r"\b(children|child|adolescents?|young adults?|older adults?|adults?|elderly|infants?|"
        r"neonates?|newborns?|geriatric|older (?:people|persons|women|men|patients))\b",
    ),
    ("sex", ("men", "male", "boys", "girls"), r"\b(women|men|females?|males?|boys|girls)\b"),
    (
        "baseline_severity",
        ("mild", "moderate", "severe", "grade"),
        r"\b((?:mild|moderate|severe)(?:(?:\s+to\s+|-to-|\s+or\s+)(?:moderate|severe))?"
        r"|grades?\s+(?:[ivx]{1,4}|\d)\b)(?!\s+(?:adverse|of recommendation|evidence|intensity))",
    ),
    (
        "time_since_injury_or_surgery",
        ("after", "post", "since", "following"),
        r"\b(\d+(?:\.\d+)?[\s-]*<time>)\s+(?:after|since|following|post)[\s-]*(?:the\s+)?"
        r"(?:injury|surgery|operation|stroke|reconstruction|operative|fracture|trauma|onset)",
    ),
    (
        "inclusion_criteria",
        ("inclusion criteri",),
        r"\binclusion criteri(?:a|on)\b\W{0,4}([^.\n]{3,250})",
    ),
    (
        "exclusion_criteria",
        ("exclusion criteri",),
        r"\bexclusion criteri(?:a|on)\b\W{0,4}([^.\n]{3,250})",
    ),
    (
        "dose",
        _DIGITS,
        r"(?<![\w.])(\d[\d.,]*\s*(?:mg|mcg|µg|μg|ug|microg|micrograms?|milligrams?|g|grams?|ml|iu|"
        r"units?|mmol|mumol|gy|cgy|mj)(?:\s*/\s*(?:kg|day|d|m2|dose|h|hour|min|week|ml|l)){0,2})"
        r"(?![\w/])",
    ),
    (
        "frequency",
        ("daily", "day", "week", "hour", "month"),
        r"\b((?:once|twice|thrice|(?:\d+|one|two|three|four|five|six|seven)(?:\s*(?:-|–|to)\s*\d+)?\s+"
        r"(?:times|sessions|days|doses))\s*(?:a|per|each|every|/)?\s*(?:daily|weekly|monthly|day|week|"
        r"month)|every\s+(?:\d+|other|second|two|three|four|six|eight)\s*(?:hours?|days?|weeks?|"
        r"months?)|(?:once |twice )?(?:daily|weekly))\b",
    ),
    (
        "session_duration",
        ("min",),
        r"\b(\d+(?:\s*(?:-|–|to)\s*\d+)?[\s-]*min(?:ute)?s?)\b"
        r"(?=\s*(?:sessions?|per\s|each|of\s|daily|a\s+day|/|,?\s*\d\s*times|bouts?|classes))",
    ),
    (
        "intensity",
        ("intensity", "%"),
        r"\b((?:low|light|moderate|high|vigorous)(?:[\s-]to[\s-](?:moderate|vigorous|high))?"
        r"[\s-]intensity|\d+(?:\s*(?:-|–|to)\s*\d+)?\s*%\s*(?:of\s+)?(?:the\s+)?(?:1[\s-]?rm|one[\s-]"
        r"repetition|vo2|hr|heart rate|max\w*|peak))",
    ),
    (
        "progression_rule",
        ("progress", "increas"),
        r"\b(progress(?:ed|ively increas\w+)\s+(?:by|every|each|when|to|from)\s[^.;\n]{3,120}|"
        r"increas\w+\s+by\s+\d[^.;,\n]{1,40}(?:every|each|per)\s+(?:week|session|day|month)s?)",
    ),
    (
        "setting",
        ("home", "patient", "hospital", "care", "communit", "practice", "clinic", "unit", "school"),
        r"\b(home-based|at home|outpatients?|inpatients?|primary care|intensive care unit|"
        r"community-based|in the community|general practices?|(?:university |teaching )?hospitals?|"
        r"rehabilitation (?:centre|center|clinic)s?|nursing homes?|schools?)\b",
    ),
    (
        "supervision",
        ("supervis",),
        r"\b((?:un|non-?)?supervised|(?:with|under|without) supervision)\b",
    ),
    (
        "followup_weeks",
        ("follow",),
        r"\bfollow(?:ed)?[\s-]?up\s+(?:\w+\s+)?(?:of|for|at|was|after|over)\s+(\d+(?:\.\d+)?)[\s-]*"
        r"(<time>)\b",
    ),
    (
        "followup_weeks",
        ("follow",),
        r"\b(\d+(?:\.\d+)?)[\s-]*(<time>)(?:\s+of)?[\s-]+follow[\s-]?up\b",
    ),
    (
        "measure_name",
        ("scale", "score", "index", "questionnaire", "inventory", "test", "vas", "womac", "sf-"),
        r"\b((?:[a-z0-9-]+\s+){1,3}(?:scale|score|index|questionnaire|inventory|test)|vas|womac|"
        r"sf-\d+|koos|dash|oswestry|ikdc)\b",
    ),
    (
        "outcome_domain",
        (
            "pain",
            "function",
            "strength",
            "quality",
            "range",
            "balance",
            "mortality",
            "disab",
            "gait",
            "adheren",
            "return",
        ),
        r"\b(pain|physical function|functional (?:capacity|status|outcome)|muscle strength|"
        r"quality of life|range of motion|balance|mortality|disability|gait|adherence|"
        r"return to (?:sport|work|play))\b",
    ),
    (
        "primary_outcome",
        ("primary", "main outcome"),
        r"\b(?:primary|main)\s+(?:outcome|end\s?-?point)(?:\s+measure)?s?\s*(?:was|were|:|is|-|–|"
        r"included)?\s+([^.;\n]{3,160})",
    ),
    (
        "recommendation_strength",
        ("recommend",),
        r"\b((?:strong|weak|conditional)(?:ly)?\s+recommend\w*|grade\s+[a-d]\s+recommendations?)",
    ),
    (
        "evidence_certainty",
        ("evidence",),
        r"\b((?:very\s+low|low|moderate|high)[\s-](?:quality|certainty)(?:\s+of)?\s+evidence|"
        r"(?:quality|certainty) of (?:the )?evidence (?:was|is) (?:very )?(?:low|moderate|high))\b",
    ),
    (
        "study_design",
        ("trial", "study", "review", "analysis", "cross", "cohort"),
        r"\b((?:(?:double|single|triple)[\s-]blind(?:ed)?,?\s+)?(?:placebo[\s-]controlled,?\s+)?"
        r"randomi[sz]ed(?:,?\s+[a-z-]+){0,3}?\s+(?:trial|study)|systematic review|meta-?analysis|"
        r"(?:prospective |retrospective )?cohort study|case[\s-]control study|cross-?over "
        r"(?:trial|study|design)|cross-sectional (?:study|survey)|pilot study|"
        r"observational study)\b",
    ),
    (
        "protocol_params",
        ("sets",),
        r"\b((?:\d+|one|two|three|four|five)\s+sets?\s+of\s+[^.;,\n]{2,50})",
    ),
)

PATTERNS = tuple(
    Pattern(
        name,
        needles,
        bounded(source.replace("<time>", _UNITS_OF_TIME).replace("<written>", _WRITTEN)),
    )
    for name, needles, source in _SOURCES
)


def find_values(lower: str) -> list[Value]:
    """Return attribute values in one lower-cased text, the first mention of each, by start.

    `followup_weeks` is converted to weeks, `sample_size` to digits; other values stay verbatim.
    """
    found: dict[tuple[str, str], Value] = {}
    for name, needles, regex in PATTERNS:
        if not any(needle in lower for needle in needles):
            continue
        for match in regex.finditer(lower):
            value = _normal(name, match)
            if value:
                found.setdefault((name, value), Value(name, value, *match.span()))
    return sorted(found.values(), key=lambda item: (item.start, item.end, item.attribute))


def _normal(attribute: str, match: re.Match[str]) -> str:
    value = " ".join((match.group(1) or "").split())
    if attribute == "sample_size":
        number = NUMBER_WORDS.get(value)
        return str(number) if number is not None else value.replace(",", "")
    if attribute == "followup_weeks":
        return f"{float(value) * WEEKS_IN[match.group(2).rstrip('s')]:.4g}"
    if attribute == "measure_name":
        return _measure(value)
    return value.rstrip(" ,:")


_MEASURE_STOP = frozenset(
    ["a", "an", "the", "and", "or", "of", "on", "in", "with", "by", "to", "for", "using", "this"]
)


def _measure(words: str) -> str:
    """Return a scale's name: the words after the last function word; "" if only "scale" is left."""
    name = words.split()
    while stops := [i for i, word in enumerate(name) if word in _MEASURE_STOP]:
        name = name[stops[-1] + 1 :]
    return " ".join(name) if len(name) > 1 or words in _KNOWN_MEASURES else ""


_KNOWN_MEASURES = frozenset(["vas", "womac", "sf-36", "sf-12", "koos", "dash", "oswestry", "ikdc"])


_POINT = bounded(
    r"(\d+(?:\.\d+)?|<written>|one)[\s-]*(hour|day|week|month|year)".replace("<written>", _WRITTEN)
)


def timepoint(lower: str) -> tuple[str, str] | None:
    """Return number and unit ("6", "weeks") of a timepoint's text; None if it has none."""
    match = _POINT.search(lower)
    if not match:
        return None
    number = match.group(1)
    return str(NUMBER_WORDS.get(number, number)), match.group(2) + "s"
