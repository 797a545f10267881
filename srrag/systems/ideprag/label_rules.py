"""By rules: the sentences of a unit, and the hyper-relation that the cue words of each one tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from srrag.systems.ideprag.hyper_relations import REST

Span = tuple[int, int]

_STOP = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+(?=[A-Z0-9\"'“‘(\[])|\n+")
# Of several labels whose cues a sentence has, the first in this order.
_CUES: tuple[tuple[str, str], ...] = (
    ("contraindications", r"contra-?indicat\w*|should not be (?:used|given|prescribed)"),
    ("drug interactions", r"interact\w*|co-?administ\w*|concomitant\w*"),
    ("interactions", r"interact\w*|co-?administ\w*|concomitant\w*"),
    ("adverse reactions", r"adverse|side[ -]effects?|toxicit\w*|safety|tolerab\w*|tolerated"),
    ("adverse effects", r"adverse|side[ -]effects?|toxicit\w*|safety|tolerab\w*|tolerated"),
    ("precautions", r"precaution\w*|caution|monitor\w*|warning\w*"),
    ("usage", r"dos(?:e|es|age|ing)|mg|daily|administ\w*|regimen\w*"),
    ("dosage", r"dos(?:e|es|age|ing)|mg|daily|administ\w*|regimen\w*"),
    ("special populations", r"pregnan\w*|children|paediatric|pediatric|elderly|renal impairment"),
    ("mechanism", r"mechanis\w*|inhibit\w*|receptors?|agonists?|antagonists?|pathways?|binds?"),
    ("indications", r"indicat\w*|approved|treatment of|used (?:for|to|in)"),
    ("definition", r"(?:is|are) (?:an?|the) .{0,60}?(?:disease|disorder|syndrome|condition)|"
                   r"defined as|characteri[sz]ed by|refers? to"),
    ("diagnosis", r"diagnos\w*|screening|biomarkers?|imaging|tests?|detect\w*|sensitivity|scans?"),
    ("prevention", r"prevent\w*|prophyla\w*|vaccin\w*|protect\w*"),
    ("causes", r"caus\w*|mutations?|genes?|genetic|risk factors?|due to|associated with|etiolog\w*|"
               r"pathogen\w*|mediated"),
    ("prognosis", r"prognos\w*|surviv\w*|mortality|outcomes?|recurren\w*|relaps\w*|follow-up"),
    ("epidemiology", r"prevalen\w*|inciden\w*|epidemi\w*|per 100,?000|worldwide"),
    ("treatment", r"treat\w*|therap\w*|interventions?|effective\w*|efficacy|surg\w*|exercises?|"
                  r"rehabilitat\w*|improv\w*|reduc\w*|trials?|management"),
    ("symptoms", r"symptoms?|signs?|pain|fever|fatigue|clinical(?:ly)? (?:features|present\w*)|"
                 r"manifest\w*|present(?:s|ed|ing)? with"),
)  # fmt: skip
_PATTERNS = {label: re.compile(rf"\b(?:{cues})\b", re.IGNORECASE) for label, cues in _CUES}


def sentence_spans(text: str) -> Iterator[Span]:
    """Yield start and end of each sentence or line that holds a letter, blanks trimmed."""
    start = 0
    for stop in [*(found.span() for found in _STOP.finditer(text)), (len(text), len(text))]:
        piece = text[start : stop[0]]
        if any(char.isalpha() for char in piece):
            low = start + len(piece) - len(piece.lstrip())
            yield low, start + len(piece.rstrip())
        start = stop[1]


def label_of(sentence: str, labels: Sequence[str]) -> str:
    """The first label in order of the table whose cue a sentence has, `general` for none."""
    for label, pattern in _PATTERNS.items():
        if label in labels and pattern.search(sentence):
            return label
    return REST


def labelled_runs(text: str, labels: Sequence[str], most: int = 700) -> list[tuple[str, Span]]:
    """The label and span of each run of neighbouring sentences with one label.

    A run ends before it would be longer than `most` characters.
    """
    runs: list[tuple[str, Span]] = []
    for low, high in sentence_spans(text):
        label = label_of(text[low:high], labels)
        if runs and runs[-1][0] == label and high - runs[-1][1][0] <= most:
            runs[-1] = (label, (runs[-1][1][0], high))
        else:
            runs.append((label, (low, high)))
    return runs
