"""Evidence of a text unit on its keywords, with the entities it names (EbmKG, Eq. 1 to 3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import pyarrow as pa
from pydantic import Field

from srrag.core.rows import Row, live
from srrag.core.schema import FINDING_VECTORS, INCIDENCE
from srrag.core.spec import content_id
from srrag.core.step import Function, LLMStep, Place, Step
from srrag.index.encode import EncodeWindows, VectorCache, text_keys
from srrag.llm.completion import (
    Answer,
    Completion,
    Fault,
    Prompt,
    PromptFile,
    Rules,
    fenced,
    quoted,
)
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.model.encoder import Encoder
from srrag.reading.numbers import lost_numbers
from srrag.reading.prose import find_quote
from srrag.reading.vocabulary import Matcher, Vocabulary, key
from srrag.systems.ideprag.document_keywords import KEYWORD_TYPES, REST, HyperRelations

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


MAX_FINDINGS = 12
Combination = tuple[str, str, str]
"""Keyword, its type, and the label."""
EntityType = Literal[
    "Disease", "Symptom", "Life Habits", "Pathogen", "Medical Test", "Drug", "Surgery"
]
"""The paper's own."""


class NamedEntity(Answer):
    """An entity by the heading that it stands for."""

    heading: Annotated[str, Text(10, "of Medical Subject Headings, or as they would name it")]
    type: Annotated[EntityType, Means("what it is")]


class UnitFinding(Answer):
    """What a unit says on one aspect of a keyword, and whom and what it names."""

    keyword: Annotated[int, Field(ge=0, le=99), Means("the number of the keyword")]
    aspect: Annotated[str, Text(4, "one of those listed behind the keyword")]
    text: Annotated[
        str,
        Text(
            90,
            "one to three sentences that can be understood alone, with population, conditions, "
            "doses, times and numbers exactly, and word for word where that is possible",
        ),
    ]
    entities: Annotated[
        list[NamedEntity],
        Items(8, "all medical entities in it; one that combines several headings is several",
              "it names none"),
    ]  # fmt: skip


class UnitFindings(Answer):
    """What a unit says on its keywords."""

    example: ClassVar[dict[str, Any] | None] = {
        "findings": [
            {
                "keyword": 1,
                "aspect": "prevention",
                "text": "In 220 children of 2 to 5 years, fluoride varnish twice a year lowered "
                "caries increment.",
                "entities": [
                    {"heading": "Dental Caries", "type": "Disease"},
                    {"heading": "Fluorides, Topical", "type": "Drug"},
                ],
            }
        ]
    }

    findings: Annotated[
        list[UnitFinding],
        Items(MAX_FINDINGS, "an aspect of a keyword each; one may have several",
              "the passage says nothing on any"),
    ]  # fmt: skip


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "findings.md", UnitFindings)


@dataclass(frozen=True, kw_only=True)
class ExtractFindings(LLMStep):
    """Write the findings of each unit with their entities: one call a unit that has keywords.

    The paper asks a call a unit, keyword and label (`relations` says which go together), and one a
    finding for its entities. A finding of another combination is dropped; one that is a stretch of
    the unit has its span. One with a number that unit, title and keywords lack is asked for again,
    then dropped. Of an entity stands the heading alone, with id and type where `vocabulary` knows
    it. A unit without an answer becomes a reject row.

    By rules findings are verbatim: each run of neighbouring sentences whose cue words tell the same
    label. It belongs to the keyword of that type that it names first, else to the document's first
    keyword of that type. Sentences without a cue, and units without a keyword, have the label
    `general`, which no model is asked for; so all of a text is evidence. Their entities are the
    longest matches of the vocabulary, and the keyword.
    """

    version: ClassVar[int] = 4

    relations: HyperRelations = field(default_factory=HyperRelations)
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    max_tokens: int = most_tokens(UnitFindings)

    reads: ClassVar[tuple[str, ...]] = (
        "unit_id", "doc_id", "title", "char_start", "text", "grade", "keywords", "reject",
    )  # fmt: skip
    writes: ClassVar[pa.Schema] = INCIDENCE
    keeps_rows: ClassVar[bool] = False
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    def open(self, at: Place) -> Function:
        """Bind the engine; rules need no prompt."""
        if not isinstance(self.engine, Rules):
            return super().open(at)
        matcher = self.vocabulary.open()

        def run(batch: pa.Table) -> pa.Table:
            made = [
                finding(row, combination, row["text"][low:high], (low, high))
                for _, row in live(batch, self.reads)
                for combination, (low, high) in self._by_rules(row)
            ]
            return _table([each | {"entities": _matched(each, matcher)} for each in made])

        return run

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a unit that has a keyword."""
        system = PROMPT.system()
        return [
            Prompt(
                number,
                "findings",
                system,
                PROMPT.user(
                    title=quoted(row["title"]),
                    keywords="\n".join(self._lines(row)),
                    passage=fenced("passage", row["text"]),
                ),
                UnitFindings,
                max_tokens=self.max_tokens,
                enums=(("UnitFinding.aspect", tuple(dict.fromkeys(c[2] for c in asked))),),
            )
            for number, row in live(batch, self.reads)
            if (asked := self._combinations(row))
        ]

    def _lines(self, row: Mapping[str, Any]) -> Iterator[str]:
        for n, each in enumerate(row["keywords"], 1):
            told = {"n": n, "keyword": each["name"], "type": each["type"]}
            yield quoted(told | {"aspects": self.relations.of(each["type"])})

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The runs that have a label, with the matches of the vocabulary."""
        rows, matcher = dict(live(batch, self.reads)), self.vocabulary.open()
        answers = []
        for prompt in prompts:
            row = rows[prompt.row]
            names = [each["name"] for each in row["keywords"]]
            told: list[UnitFinding] = []
            for combination, (low, high) in self._by_rules(row):
                if combination[2] != REST and len(told) < MAX_FINDINGS:
                    item = finding(row, combination, row["text"][low:high], None)
                    named = [
                        NamedEntity(heading=each["name"], type=each["type"])
                        for each in _matched(item, matcher)
                        if each["type"] in get_args(EntityType)
                    ]
                    told.append(
                        UnitFinding(
                            keyword=names.index(combination[0]) + 1,
                            aspect=combination[2],
                            text=item["text"],
                            entities=named[:8],
                        )
                    )
            answers.append(UnitFindings(findings=told).model_dump_json())
        return answers

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Fault: findings with numbers that the unit does not hold."""
        row = batch.select(["title", "text", "keywords"]).slice(prompt.row, 1).to_pylist()[0]
        lost = {n: _invented(each.text, row) for n, each in enumerate(value.findings)}
        wrong = [n for n, numbers in lost.items() if numbers]
        if not wrong:
            return None
        told = ", ".join(dict.fromkeys(number for n in wrong for number in lost[n]))
        detail = f"The passage does not hold these numbers of the findings: {told}."
        return Fault("ungrounded", detail, tuple(("findings", n) for n in wrong))

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """A row a finding; repeated findings on one aspect become one."""
        rows, matcher = dict(live(batch, self.reads)), self.vocabulary.open()
        made: dict[str, Row] = {}
        for prompt, answer in zip(prompts, completions, strict=True):
            row = rows[prompt.row]
            if fault := answer.fault:
                reject = {"stage": "findings", "reason": fault.kind, "detail": fault.detail}
                name = content_id("finding", row["doc_id"], row["unit_id"])
                lost = finding(row, ("", "", ""), "", None)
                lost |= {"evidence_id": name, "reject": reject}
                made[lost["evidence_id"]] = lost
                continue
            allowed = set(self._combinations(row))
            for each in answer.value.findings:
                if not 1 <= each.keyword <= len(row["keywords"]) or _invented(each.text, row):
                    continue
                keyword = row["keywords"][each.keyword - 1]
                combination = (keyword["name"], keyword["type"], each.aspect)
                if combination in allowed:
                    item = finding(row, combination, each.text, find_quote(each.text, row["text"]))
                    found = (_entity(e.heading, e.type, matcher) for e in each.entities)
                    entities = {entity["name"]: entity for entity in found}
                    made.setdefault(
                        item["evidence_id"], item | {"entities": list(entities.values())}
                    )
        return _table(list(made.values()))

    def _combinations(self, row: Mapping[str, Any]) -> list[Combination]:
        """The prompts' subjects: each keyword with the labels of its type."""
        return [
            (each["name"], each["type"], label)
            for each in row["keywords"]
            for label in self.relations.of(each["type"])
        ]

    def _by_rules(self, row: Mapping[str, Any]) -> list[tuple[Combination, Span]]:
        """The runs of each type of keyword, once if two types give it the same label."""
        found: dict[tuple[str, Span], Combination] = {}
        kinds = [k for k in KEYWORD_TYPES if any(each["type"] == k for each in row["keywords"])]
        for kind in kinds or [""]:
            names = [each["name"] for each in row["keywords"] if each["type"] == kind]
            for label, (low, high) in labelled_runs(row["text"], self.relations.of(kind)):
                name = _named(names, row["text"][low:high])
                found.setdefault((label, (low, high)), (name, kind, label))
        return _without_doubles(found)


def _invented(text: str, row: Mapping[str, Any]) -> list[str]:
    """The numbers of a finding that neither unit, title nor keywords hold."""
    named = (each["name"] for each in row["keywords"])
    return lost_numbers(text, (row["title"], row["text"], *named))


def _without_doubles(
    found: Mapping[tuple[str, Span], Combination],
) -> list[tuple[Combination, Span]]:
    """Leave out runs without a label where another type has a label for the same span."""
    labelled = {span for label, span in found if label != REST}
    return [
        (combination, span)
        for (label, span), combination in sorted(found.items(), key=lambda item: item[0][1])
        if label != REST or span not in labelled
    ]


def _named(names: Sequence[str], text: str) -> str:
    """The first name that a text has, else the first."""
    low = text.casefold()
    return next((name for name in names if name.casefold() in low), names[0] if names else "")


def finding(row: Mapping[str, Any], combination: Combination, text: str, span: Span | None) -> Row:
    """A row of INCIDENCE without entities; `span` is in the unit, None for no verbatim text."""
    name, kind, label = combination
    shift = row["char_start"]
    start, end = (-1, -1) if span is None else (shift + span[0], shift + span[1])
    place = text if span is None else f"{start}-{end}"
    return {
        "evidence_id": content_id("finding", row["doc_id"], name, label, place),
        "doc_id": row["doc_id"],
        "unit_id": row["unit_id"],
        "keyword": name,
        "keyword_type": kind,
        "label": label,
        "text": text,
        "char_start": start,
        "char_end": end,
        "grade": row["grade"],
        "entities": [],
        "reject": None,
    }


def _matched(row: Row, matcher: Matcher) -> list[Row]:
    """The vocabulary's terms in a finding, and its keyword."""
    found = {each.term.name: each.term._asdict() for each in matcher.find(row["text"])}
    if row["keyword"]:
        keyword = _entity(row["keyword"], row["keyword_type"], matcher)
        found.setdefault(keyword["name"], keyword)
    return [found[name] for name in sorted(found)]


def _entity(name: str, kind: str, matcher: Matcher) -> Row:
    """A name by its heading if the whole of it is one term of the vocabulary."""
    term = matcher.names.get(key(name))
    return {"name": name, "type": kind, "mesh": ""} if term is None else dict(term._asdict())


def _table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=INCIDENCE)


@dataclass(frozen=True, kw_only=True)
class EncodeFindings(Step):
    """Findings → their vectors; texts that any build of this root has as windows are copied."""

    encoder: Encoder = field(default_factory=Encoder)

    reads: ClassVar[tuple[str, ...]] = ("evidence_id", "text", "reject")
    writes: ClassVar[pa.Schema] = FINDING_VECTORS
    packed: ClassVar[Mapping[str, tuple[str, float]]] = {"vector": ("float32", 1e-5)}

    def open(self, at: Place) -> Function:
        """Load the encoder."""
        from srrag.model.embed import load

        model = load(self.encoder, at.device, at.threads)
        cache = VectorCache(at.root, EncodeWindows(encoder=self.encoder))

        def run(batch: pa.Table) -> pa.Table:
            texts = batch["text"].to_pylist()
            keys = text_keys(texts)
            found = {number: row[0] for number, row in cache.find(keys).items()}
            new = {n: t for n, t in zip(keys.tolist(), texts, strict=True) if n not in found}
            vectors = model.encode(list(new.values())) if new else ()
            found |= {n: v.tobytes() for n, v in zip(new, vectors, strict=True)}
            packed = pa.array([found[number] for number in keys.tolist()], pa.binary())
            columns = [batch["evidence_id"], packed, batch["reject"]]
            return pa.table(columns, schema=FINDING_VECTORS)

        return run
