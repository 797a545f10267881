"""Typed mentions: runs labelled P, I or O, refined by cue words, plus patterns."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from srrag.reading.lexicon import alternatives, bounded, words
from srrag.reading.tagger import LABELS, best_path, emissions, margins, shipped_lexicon
from srrag.reading.tokens import HEADINGS, tokenise

_BREAK = re.compile(
    r"^[ \t]{0,8}#{1,6}[ \t][^\n]*\n"  # the line of a heading
    r"|\n?^[ \t]{0,8}(?:[-*+•]|\d{1,3}[.)])[ \t]"  # the mark of an item
    r"|[ \t\n]\|[ \t\n]",  # the edge of a cell
    re.MULTILINE,
)

Span = tuple[int, int]


def find_breaks(text: str) -> list[Span]:
    """Return the spans [start, end) that separate blocks; the line of a heading is one span."""
    return [match.span() for match in _BREAK.finditer(text)]


def in_blocks(breaks: Sequence[Span], start: int, end: int) -> list[Span]:
    """Split a run at the breaks; a run inside a heading stays whole."""
    inside = [(a, b) for a, b in breaks if a < end and b > start]
    if any(a <= start and end <= b for a, b in inside):
        return [(start, end)]
    starts, ends = [start, *(b for _, b in inside)], [*(a for a, _ in inside), end]
    return [(a, b) for a, b in zip(starts, ends, strict=True) if a < b]


MAX_CHARS = 300
PATTERN_CONFIDENCE = 0.9


Run = tuple[str, int, int, float]
"""A label (P, I or O), its span [start, end) in a text, and a confidence."""


class Mention(NamedTuple):
    """A span [start, end) of a text with its entity type and a confidence in (0, 1)."""

    type: str
    start: int
    end: int
    confidence: float


_TRIM = words("edge")
_HEADING_WORDS = frozenset(HEADINGS)
_EDGE_WORD = re.compile(r"\S+")

_PERSON = re.compile(rf"\b(?:{alternatives('person', 'animal', 'grouped')})\b")
_SUFFERING = bounded(
    r"\b(?:with|having|who (?:have|had)|suffering from|diagnosed (?:with|as having)|"
    r"affected by|treated for|at (?:high |increased )?risk (?:of|for))\s+"
)
_CONTROL = bounded(
    r"\b(?:placebo|sham|no (?:treatment|intervention|exercise|therapy|supplement\w*)|untreated|"
    r"usual care|usual treatment|standard (?:care|treatment|therapy)|routine care|"
    r"conventional (?:care|treatment|therapy)|wait(?:ing)?[- ]list|attention control|"
    r"control (?:group|condition|arm|treatment|diet|intervention)s?|controls?|"
    r"treatment as usual|vehicle|best supportive care)\b"
)
_AGAINST = bounded(
    r"(?:\bversus|\bvs\.?|\bcompar(?:ed|ison|ing) (?:with|to)|\brelative to|\bagainst|\bthan|"
    r"\bas opposed to|\brather than)\s+(?:an? |the |that (?:of|in|with) )?$"
)
_TAIL = bounded(
    r"(?:\s*\(\s*n\s*=\s*\d+\s*\)|\s+(?:for|over|during|after|at)\s+(?:\d+|one|two|three|four|six)"
    r"[\s-]*(?:hours?|days?|weeks?|months?|years?))$"
)
"""Words that follow a name inside a labelled run without being part of it."""
_PIECE = bounded(
    r"\s*,\s*(?:and |or )?|\s+(?:and|or|versus|vs\.?|compared (?:with|to)|plus or minus)\s+|"
    r"\s*;\s*|\s+(?:followed by|in comparison (?:with|to))\s+"
)
_ARM = bounded(r"\b(?:groups?|arms?|cohorts?)$")
_ARM_NEXT = bounded(r"\s+(?:groups?|arms?)\b")
_DEVICE = bounded(
    r"\b(?:devices?|brac(?:e|es|ing)|orthos[ei]s|splints?|insoles?|tap(?:e|es|ing)|kinesiotape|"
    r"crutch(?:es)?|walkers?|wheelchairs?|canes?|stents?|catheters?|prosthes[ei]s|implants?|pumps?|"
    r"pacemakers?|inhalers?|nebuli[sz]ers?|treadmills?|ergometers?|robots?|exoskeletons?|"
    r"stimulators?|electrodes?|lasers?|mattress(?:es)?|bandages?|dressings?|casts?|collars?|"
    r"pedometers?|accelerometers?|dumbbells?|resistance bands?|ventilators?|masks?|lens(?:es)?)\b"
)
_ADVERSE = bounded(
    r"\b(?:adverse|side[- ]effects?|complications?|toxicit(?:y|ies)|nausea|vomiting|headaches?|"
    r"diarrh(?:o?ea)|rash(?:es)?|bleeding|h(?:a?e)morrhage|hypoglyc(?:a?e)mia|bruising|reinjur\w*|"
    r"re-?ruptures?|falls?|infections?|neutropenia|anaphyla\w+|dizziness|drowsiness|sedation|"
    r"constipation|dry mouth|discontinuations?|safety|tolerability)\b"
)
_TIMEPOINT = bounded(
    r"\b(?:(?:at|after|for|over|within|during|until|to|by|and|every)\s+(?:the\s+)?)?"
    r"(?:baseline|follow-?up|"
    r"(?:(?<!± )\d{1,3}(?:\.\d{1,2})?|one|two|three|four|five|six|eight|nine|ten|twelve|eighteen|"
    r"twenty-four)"
    r"(?:\s*(?:-|–|to|and|or)\s*\d+)?[\s-]*"
    r"(?:hours?|hrs?|days?|weeks?|wks?|months?|mos?|years?|yrs?)\b"
    r"(?!\s*(?:of age|old|-old))(?:\s+(?:of\s+)?follow-?up|\s+post[\w-]{0,20}|\s+later)?)"
)
_DOSED = bounded(
    r"\b([a-z][a-z-]{4,30})\s+\(?\s*\d+(?:\.\d+)?\s*(?:mg|µg|μg|mcg|microg|micrograms?|iu|mmol)\b"
)
_NOT_DOSED = words("not_dosed")
_EVENT = bounded(
    r"\b(?:(?:serious |severe |treatment-related )?adverse (?:events?|effects?|reactions?)|"
    r"side[ -]effects?|nausea|vomiting|dizziness|drowsiness|constipation|diarrho?ea)\b"
)
_CLAUSE = r"[^.;|\n]{0,260}"
_RECOMMEND = bounded(
    rf"(?:\b(?:we|guidelines?|panel|consensus|authors?|experts?)\b[^.;\n]{{0,60}})?"
    rf"\b(?:recommend(?:s|ed)?\b|(?:is|are) (?:not )?(?:advised|indicated)\b|"
    rf"should (?:not )?(?:be )?(?:\w+ly )?(?:offered|considered|used|performed|prescribed|given|"
    rf"avoided|started|encouraged|begin|receive|undergo)\b){_CLAUSE}"
)
_CONTRA = bounded(rf"\bcontra-?indicat(?:ed|ion|ions)\b(?:\s+(?:in|for|to|with|include))?{_CLAUSE}")


def zone_of(section: str) -> int:
    """Return the zone of a section's name; 0 if it contains no heading word."""
    for word in re.findall(r"[a-z]+", section.lower())[::-1]:
        if word in HEADINGS:
            return HEADINGS[word]
    return 0


def lower_same_length(text: str) -> str:
    """Lower-case a text and keep every offset (a few capitals have two-character lower cases)."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def label_runs(
    texts: Sequence[str], sections: Sequence[str], leads: Sequence[bool]
) -> list[list[Run]]:
    """Return the labelled runs of each text by the lexicon; `leads` marks document starts."""
    lexicon = shipped_lexicon()
    tokens = tokenise(texts, [zone_of(section) for section in sections], leads, lexicon.values)
    scores = emissions(tokens, lexicon)
    labels = best_path(scores, tokens.first, lexicon.moves)
    lead = np.concatenate([[0.0], np.cumsum(margins(scores, labels))])  # sixteenths: exact sums
    change = tokens.opens.copy()
    change[1:] |= labels[1:] != labels[:-1]
    begins = np.flatnonzero(change)
    ends = np.append(begins[1:], len(labels))[: len(begins)]
    wanted = labels[begins] > 0
    begins, ends = begins[wanted], ends[wanted]
    owner = np.searchsorted(tokens.first, begins, side="right") - 1
    mean = (lead[ends] - lead[begins]) / (ends - begins)
    runs: list[list[Run]] = [[] for _ in texts]
    for text, label, start, end, confidence in zip(
        owner.tolist(),
        labels[begins].tolist(),
        tokens.start[begins].tolist(),
        tokens.end[ends - 1].tolist(),
        [round(1.0 / (1.0 + math.exp(-value)), 3) for value in mean.tolist()],
        strict=True,
    ):
        runs[text].append((LABELS[label], start, end, confidence))
    return runs


def type_runs(texts: Sequence[str], runs: Sequence[Sequence[Run]]) -> list[list[Mention]]:
    """Return typed mentions of each text, by start: runs refined by cue words, plus patterns."""
    found = []
    for text, labelled in zip(texts, runs, strict=True):
        lower = lower_same_length(text)
        breaks = find_breaks(lower)
        mentions = [
            mention
            for label, start, end, confidence in labelled
            for piece in in_blocks(breaks, start, end)
            for mention in _refine(lower, label, piece, confidence)
        ]
        _add_patterns(lower, mentions)
        mentions.sort(key=lambda m: (m.start, m.end, m.type))
        found.append(mentions)
    return found


def find_mentions(
    texts: Sequence[str], sections: Sequence[str], leads: Sequence[bool]
) -> list[list[Mention]]:
    """Return typed mentions of each text by the rules alone."""
    return type_runs(texts, label_runs(texts, sections, leads))


def read_mentions(text: str) -> list[tuple[str, int, int]]:
    """Return typed spans (type, start, end) of a whole abstract, which `evaluate.pico` scores."""
    return [mention[:3] for mention in find_mentions([text], [""], [True])[0]]


def _trim(lower: str, start: int, end: int) -> tuple[int, int]:
    """Drop function words and marks from both ends; close an open bracket."""
    inner = [(m.start(), m.end()) for m in _EDGE_WORD.finditer(lower, start, end)]
    while inner and _is_trimming(lower[slice(*inner[0])]):
        inner.pop(0)
    while inner and _is_trimming(lower[slice(*inner[-1])]):
        inner.pop()
    if not inner:
        return start, start
    start, end = inner[0][0], inner[-1][1]
    while match := _TAIL.search(lower, start, end):
        end = match.start()
    while end > start + 1 and lower[end - 1] in ".,;:-(":
        end -= 1
    piece = lower[start:end]
    if piece.count("(") > piece.count(")"):
        close = lower.find(")", end, end + 3)
        end = close + 1 if close >= 0 else end
    return start, end


def _is_trimming(word: str) -> bool:
    """Whether a word at the edge of a run is a function word or a mark, outside the name."""
    return word in _TRIM or not any(map(str.isalnum, word))


def _refine(lower: str, label: str, run: tuple[int, int], confidence: float) -> list[Mention]:
    """Return the typed mentions of one labelled run."""
    start, end = _trim(lower, *run)
    if end - start < 2 or not any(map(str.isalpha, lower[start:end])):
        return []
    if lower[start:end] in _HEADING_WORDS:
        return []
    if label == "P":
        return _population(lower, start, end, confidence)
    if label == "I":
        return _interventions(lower, start, end, confidence)
    if not _ADVERSE.search(lower, start, end):
        return [Mention("Outcome", start, end, confidence)]
    return [
        Mention("AdverseEvent" if _ADVERSE.search(lower, *piece) else "Outcome", *piece, confidence)
        for piece in _pieces(lower, start, end)
    ]


def _pieces(lower: str, start: int, end: int) -> list[tuple[int, int]]:
    """Cut a run at conjunctions and commas; pieces without a letter are dropped."""
    cuts = [(m.start(), m.end()) for m in _PIECE.finditer(lower, start, end)]
    starts, ends = [start, *(cut[1] for cut in cuts)], [*(cut[0] for cut in cuts), end]
    trimmed = [_trim(lower, *piece) for piece in zip(starts, ends, strict=True)]
    return [(a, b) for a, b in trimmed if b - a > 1 and any(map(str.isalpha, lower[a:b]))]


def _population(lower: str, start: int, end: int, confidence: float) -> list[Mention]:
    if not _PERSON.search(lower, start, end) and not lower[start].isdigit():
        return [Mention("Condition", start, end, confidence)]
    mentions = [Mention("Population", start, end, confidence)]
    if match := _SUFFERING.search(lower, start, end):
        inner, stop = _trim(lower, match.end(), end)
        if stop - inner > 2:
            mentions.append(Mention("Condition", inner, stop, confidence))
    return mentions


def _interventions(lower: str, start: int, end: int, confidence: float) -> list[Mention]:
    """Type each piece of a run; a piece after "versus" or with a control's name is a Comparator."""
    mentions = []
    for begin, stop in _pieces(lower, start, end):
        if _CONTROL.search(lower, begin, stop) or _AGAINST.search(lower, max(0, begin - 40), begin):
            kind = "Comparator"
        elif _ARM.search(lower, begin, stop) or _ARM_NEXT.match(lower, stop):
            kind = "Arm"
        else:
            kind = "Device" if _DEVICE.search(lower, begin, stop) else "Intervention"
        mentions.append(Mention(kind, begin, stop, confidence))
    return mentions


_PATTERNS = (
    (
        "Timepoint",
        _TIMEPOINT,
        ("baseline", "follow", "hour", "hr", "day", "week", "wk", "mo", "year", "yr"),
    ),
    ("Contraindication", _CONTRA, ("indicat",)),
    ("Recommendation", _RECOMMEND, ("recommend", "should", "advised", "indicated")),
)


def _add_patterns(lower: str, mentions: list[Mention]) -> None:
    """Append pattern matches: timepoints, recommendations, contraindications.

    Drugs before a dose and adverse events are added outside labelled runs only.
    """
    taken = [(mention.start, mention.end) for mention in mentions]
    for kind, pattern, group in (("Intervention", _DOSED, 1), ("AdverseEvent", _EVENT, 0)):
        for match in pattern.finditer(lower):
            start, end = match.span(group)
            free = all(stop <= start or end <= begin for begin, stop in taken)
            if free and match.group(group) not in _NOT_DOSED:
                mentions.append(Mention(kind, start, end, PATTERN_CONFIDENCE))
    for kind, pattern, needles in _PATTERNS:
        if any(needle in lower for needle in needles):
            for match in pattern.finditer(lower):
                start, end = _trim(lower, *match.span())
                if start < end <= start + MAX_CHARS:
                    mentions.append(Mention(kind, start, end, PATTERN_CONFIDENCE))
