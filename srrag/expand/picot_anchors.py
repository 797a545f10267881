"""PICOT anchors: the words of a question that name its parts (SR-RAG, section 4.4), as a model
copies them or by rules.

The rules take the words between the cues of an English question. The tagger of the extraction rules
was trained on abstracts: on a whole question its runs take in verbs and clauses. So cues cut the
question first, and the tagger types the pieces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import pyarrow as pa

from srrag.core.rows import Row, RowStep
from srrag.core.schema import ANCHORS, relation
from srrag.llm.completion import Answer, PromptFile, inert
from srrag.llm.fields import Items, Text, most_tokens
from srrag.reading.mentions import find_mentions, type_runs

MAX_ANCHORS = 4
MAX_CHARS = 160
_MAX_WORDS = 10
_STOP = "stop"

_CUES: Mapping[str, str] = {
    "C": r"compared (?:with|to)|versus|vs\.?|than|instead of|rather than|as opposed to|against",
    "P": r"in|among|for|after|following",
    "O": (
        r"reduces?|increases?|improves?|prevents?|affects?|shortens?|lowers?|lessens?|limits?|"
        r"delays?|relieves?|changes?|predicts?|worsens?|alleviates?|eases?|decreases?|preserves?|"
        r"influences?|speeds? up|raises?"
    ),
    "I": (
        r"does|do|did|is|are|can|could|should|must|may|might|will|would|role of|safety of|"
        r"(?:effect|effectiveness|efficacy|impact|benefit)s? of|"
        r"follows?|receives?|takes?|wears?"
    ),
    _STOP: (
        r"how|what|which|when|where|who|why|whether|if|that|there|it|they|we|you|i|as|by|at|"
        r"within|until|before|during|be|been|being|was|were|has|have|had|done|"
        r"better|worse|best|more|most|less|faster|sooner|effective|effectively|superior|inferior|"
        r"long|often|much|many|performed|prescribed|used|useful|recommended|offered|considered|"
        r"given|allowed|indicated|acceptable|safe|equal|accurate|equivalent|necessary|works?|"
        r"helps?|leads? to|matters?|add|adds|brings?|keeps?|waits?|starts?|returns?|"
        r"returning|returned|needs?|needed|worn|met|related to|"
        r"associated with|linked (?:to|with)|involved in"
    ),
}
_EDGE = re.compile(
    "|".join(rf"(?P<{part}>(?<![\w-])(?:{words})(?![\w-]))" for part, words in _CUES.items())
    + r"|[?!;:()]|[.,](?=\s|$)",
    re.IGNORECASE,
)
_COMPARED = re.compile(
    r"(?:saf|cheap|strong|weak|quick|fast|slow|easi|mild|great|high|low|long|short|small)er", re.I
)
"""Words at the end that compare what was named."""
_TARGET = re.compile(r"(?<![\w-])on(?![\w-])", re.IGNORECASE)
"""The target of an effect; only "on" after "effect of" marks it."""
_LOOSE_TEXT = (
    "a an the of on to from for by with and or both all any each every its their these this those "
    "not only"
)
_LOOSE = frozenset(_LOOSE_TEXT.split())
PERSON = re.compile(
    r"(?<![\w-])(?:patients?|people|persons?|adults?|wom[ae]n|m[ae]n|child(?:ren)?|infants?|girls?|"
    r"boys?|adolescents?|teenagers?|athletes?|runners?|players?|footballers?|gymnasts?|recruits|"
    r"dancers?|workers?|students?|veterans?|survivors?)(?![\w-])",
    re.IGNORECASE,
)
_POPULATION = frozenset(("Population", "Condition"))
_TREATMENT = frozenset(("Intervention", "Device", "Arm"))


class _Piece(NamedTuple):
    """A span of a question and the part that the cue before it points to."""

    question: int
    part: str
    text: str


def rule_anchors(questions: Sequence[str]) -> list[dict[str, list[str]]]:
    """Verbatim phrases of each question for P, I, C, O and T, in order; a part may have none."""
    found = [{part: list[str]() for part in "PICOT"} for _ in questions]
    pieces: list[_Piece] = []
    patterns = type_runs(questions, [[]] * len(questions))  # of a question's own, times are enough
    for number, (text, mentions) in enumerate(zip(questions, patterns, strict=True)):
        times = [(m.start, m.end) for m in mentions if m.type == "Timepoint"]
        found[number]["T"] = [text[start:end] for start, end in times]
        pieces += [_Piece(number, part, piece) for part, piece in _pieces(text, times)]
    texts = [piece.text for piece in pieces]
    types = find_mentions(texts, [""] * len(texts), [False] * len(texts)) if texts else []
    treated = {piece.question for piece in pieces if piece.part == "I"}
    for piece, mentions in zip(pieces, types, strict=True):
        told = {mention.type for mention in mentions}
        part = _part(piece, told, named=piece.question in treated)
        found[piece.question][part].append(piece.text)
    return [{part: _first(anchors) for part, anchors in parts.items()} for parts in found]


def _pieces(text: str, times: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
    """Part and words between each cue and the next, without pieces that name no part."""
    edges = [
        (edge.start(), edge.end(), edge.lastgroup or _STOP)
        for edge in _EDGE.finditer(text)
        if not any(start <= edge.start() < end for start, end in times)
    ]
    edges = sorted([*edges, *((start, end, _STOP) for start, end in times)])
    edges.append((len(text), len(text), _STOP))
    if (bare := _compared(text, edges)) is not None:
        edges = [*(edge for edge in edges if edge[1] <= bare), (bare, bare, "I"),
                 *(edge for edge in edges if edge[1] > bare)]  # fmt: skip
    pieces = []
    for (cue, start, part), (end, _, _) in pairwise(edges):
        target = _TARGET.search(text, start, end) if text[cue:start].endswith("of") else None
        spans = [(part, start, target.start() if target else end)]
        if target:
            spans.append(("O", target.end(), end))
        pieces += [(part, _trimmed(text[a:b])) for part, a, b in spans if part != _STOP]
    return [(part, piece) for part, piece in pieces if _names_something(piece)]


def _compared(text: str, edges: Sequence[tuple[int, int, str]]) -> int | None:
    """Where a treatment begins that a question without a verb compares: "aspirin versus rest".

    None for a question with a verb before what it compares with, or without such a comparison.
    """
    parts = [part for _, _, part in edges]
    last = parts.index("C") if "C" in parts else 0
    if "C" not in parts or not {*parts[:last]} <= {"P", _STOP}:
        return None
    for number in range(last, -1, -1):
        cue, start, _ = edges[number - 1] if number else (0, 0, "")
        if not text[cue:start].isalpha() and text[start : edges[number][0]].strip():
            return None if PERSON.search(text, start, edges[last][0]) else start
    return None


def _trimmed(text: str) -> str:
    """Strip articles, prepositions and the like from both ends, and what compares at the end."""
    words = list(re.finditer(r"\S+", text))
    while words and words[0][0].casefold() in _LOOSE:
        words.pop(0)
    while words and (words[-1][0].casefold() in _LOOSE or _COMPARED.fullmatch(words[-1][0])):
        words.pop()
    return text[words[0].start() : words[-1].end()] if words else ""


def _names_something(piece: str) -> bool:
    return (
        2 < len(piece) <= MAX_CHARS
        and len(piece.split()) <= _MAX_WORDS
        and any(map(str.isalpha, piece))
    )


def _part(piece: _Piece, types: set[str], named: bool) -> str:
    """The part of a piece: the part of its cue, unless the piece is clearly another one.

    Whom a treatment is for is none itself, where the question has `named` one.
    """
    if piece.part == "I" and (PERSON.search(piece.text) or "Population" in types):
        return "P"
    if piece.part == "P" and not named and types & _TREATMENT and not types & _POPULATION:
        return "P" if PERSON.search(piece.text) else "I"
    return piece.part


def _first(anchors: Sequence[str]) -> list[str]:
    """The first few distinct anchors, ignoring case."""
    distinct: dict[str, str] = {}
    for anchor in anchors:
        distinct.setdefault(anchor.casefold(), anchor)
    return list(distinct.values())[:MAX_ANCHORS]


Phrase = Annotated[str, Text(12, "words of the question as they stand there")]
PARTS = ("people", "treatment", "comparator", "outcome", "time")


class QuestionParts(Answer):
    """The words of a question that name its parts."""

    example: ClassVar[dict[str, Any] | None] = {
        "people": ["kids"], "treatment": ["fluoride paint"], "comparator": [],
        "outcome": ["holes"], "time": ["for two years"],
    }  # fmt: skip

    people: Annotated[list[Phrase], Items(4, "whom or what condition it is on", "it names none")]
    treatment: Annotated[list[Phrase], Items(4, "treatment, test or exposure", "it names none")]
    comparator: Annotated[list[Phrase], Items(4, "what it is compared with", "it names none")]
    outcome: Annotated[list[Phrase], Items(4, "what may change", "it names none")]
    time: Annotated[list[Phrase], Items(4, "when", "it names none")]

    def anchors(self, question: str) -> dict[str, list[str]]:
        """What of it the question holds, as it spells it, by the letters of PICOT."""
        parts = zip("PICOT", (getattr(self, name) for name in PARTS), strict=True)
        found = {letter: [locate(each, question) for each in said] for letter, said in parts}
        return {letter: [*dict.fromkeys(filter(None, said))] for letter, said in found.items()}


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "picot_anchors.md", QuestionParts)


@dataclass(frozen=True, kw_only=True)
class FindAnchors(RowStep):
    """Copy the phrases that name P, I, C, O and T out of `text`.

    An anchor is a verbatim part of the question in its spelling; what the question does not hold is
    dropped, so nothing is invented, and an unnamed part stays empty. The rules read English
    questions. A faulty answer rejects its row.
    """

    version: ClassVar[int] = 4

    max_tokens: int = most_tokens(QuestionParts)

    reads: ClassVar[tuple[str, ...]] = ("text",)
    writes: ClassVar[pa.Schema] = relation(("anchors", ANCHORS))
    auxiliary: ClassVar[bool] = True
    slot: ClassVar[str] = "anchors"
    file: ClassVar[PromptFile] = PROMPT

    def ruled(self, rows: Sequence[Row]) -> list[QuestionParts]:
        """The words between the cues of a question, typed by the rules of extraction."""
        return [
            QuestionParts(**{name: anchors[key] for name, key in zip(PARTS, "PICOT", strict=True)})
            for anchors in rule_anchors([row["text"] for row in rows])
        ]

    def columns(self, value: QuestionParts, row: Row) -> Row:
        """The anchors that the question holds, as it spells them, each once."""
        return {"anchors": value.anchors(row["text"])}


def locate(anchor: str, question: str) -> str | None:
    """The stretch of whole words that is the anchor but for case and blanks, None if none is."""
    words = r"\s+".join(re.escape(word) for word in inert(anchor).split())
    # Match whole words and numbers only: "5" is no anchor of "1.5".
    pattern = rf"(?<![A-Za-z0-9])(?<!\d[.,]){words}(?![A-Za-z0-9])(?![.,]\d)"
    found = re.search(pattern, inert(question), re.IGNORECASE) if words else None
    return question[found.start() : found.end()] if found else None
