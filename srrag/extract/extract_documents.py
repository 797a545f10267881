"""Constrained extraction, a document at a time: entities, relations and findings (SR-RAG §4.3)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import WithJsonSchema

from srrag.core.ontology import Ontology
from srrag.core.schema import EXTRACTS
from srrag.core.spec import content_id
from srrag.core.step import Function, LLMStep, OpenedLLMStep, Place
from srrag.extract.document_claims import DERIVED, DocumentClaims, Row
from srrag.extract.find_mentions import FindByRules, FindMentions
from srrag.extract.lines import EntityLine, Told, entity_line, patterns, read_entity, read_lines
from srrag.extract.numbered import NumberedBlock, blocks
from srrag.extract.rule_lines import rule_lines
from srrag.llm.completion import (
    Answer,
    Completion,
    Enums,
    Fault,
    Prompt,
    PromptFile,
    Rules,
    fenced,
    quoted,
)
from srrag.reading.concepts import CONCEPTS, abbreviations

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "extract_document.md")
FINDINGS_PART = PROMPT.path.parent / "parts" / "finding_lines.md"
EXAMPLE = (
    '"findings": ["found 1 > 2 : 3 = better; effect: 310 vs. 335 ms; ci: 95% -41 to -9; p: 0.003'
    ' @24", "found 1 : 4 = effect: 3 of 40 @25"], '
)

MAX_ENTITY_LINES = 60
MAX_RELATION_LINES = 30
MAX_FINDING_LINES = 30
MAX_PROPOSALS = 3
_MAX_TABLE = 60
"""Entities of earlier parts that are shown with the next one: those it names, then the earliest."""
UNTOLD = (*DERIVED, "followup_weeks")
"""Attributes that no model writes: a Timepoint and `follow_up` say the same as printed."""
_TABLE = re.compile(r"<entities>\n(.*?)\n</entities>", re.DOTALL)
_MAX_DETAIL_CHARS = 200
_MAX_SHOWN = 5


def _at_most(lines: int) -> WithJsonSchema:
    item = {"type": "string", "maxLength": 600}
    return WithJsonSchema({"type": "array", "items": item, "maxItems": lines})


class Extraction(Answer):
    """What a block of a document says, in lines (`srrag.extract.lines`).

    Lines beyond the bounds, which guide the decoding, are read all the same.
    """

    entities: Annotated[list[str], _at_most(MAX_ENTITY_LINES)]
    relations: Annotated[list[str], _at_most(MAX_RELATION_LINES)]
    findings: Annotated[list[str], _at_most(MAX_FINDING_LINES)]
    proposals: Annotated[list[str], _at_most(MAX_PROPOSALS)]


@dataclass(frozen=True, kw_only=True)
class ExtractDocuments(LLMStep):
    """Read each document whole and write what it studied and found, with sentence numbers.

    DOCUMENTS → EXTRACTS, one row a block of about `block_tokens`: an abstract is one. Of a longer
    text, each block is asked with the entities of the blocks before, so that a thing keeps its
    name. The program fills every quote and span from the sentence numbers. A fact outside the
    schema, without a sentence, or below `min_confidence` carries its `reason`: unknown_type,
    unknown_relation, unknown_attribute, type_mismatch, unknown_id, repeated_id, malformed,
    ungrounded, low_confidence; a proposal for the schema has the reason `proposed`. A faulty answer
    rejects its block. Blank and rejected documents have no rows.

    The rules find PICO types, and no findings. Where the ontology lacks the types (neutral schema,
    Table S2) they write Population, Condition, Intervention, Comparator and Arm as ClinicalConcept,
    Outcome as OutcomeMeasure; Timepoint is left out. With the rules as engine, `mentions` selects
    the source of the typed mentions: the rules or a trained tagger. A language model finds its own.
    """

    ontology: Ontology
    mentions: FindMentions = field(default_factory=FindByRules)
    min_confidence: float = 0.0
    max_faulty_share: float = 0.2
    """Maximum share of lines that break a rule before the model is asked again."""
    block_tokens: int = 1800
    max_tokens: int = 3072
    """An abstract takes 500 to 1,100; full lists of lines of the usual length some 3,000."""

    version: ClassVar[int] = 7
    reads: ClassVar[tuple[str, ...]] = ("doc_id", "title", "text", "grade", "reject")
    writes: ClassVar[pa.Schema] = EXTRACTS
    keeps_rows: ClassVar[bool] = False
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path, FINDINGS_PART)

    def __post_init__(self) -> None:
        """Raise ValueError for thresholds out of range, or for a tagger beside a language model."""
        for name in ("min_confidence", "max_faulty_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in [0, 1], not {getattr(self, name)}")
        if self.block_tokens < 100:
            raise ValueError(f"block_tokens is {self.block_tokens}: it has to be 100 or more")
        if not isinstance(self.engine, Rules) and not isinstance(self.mentions, FindByRules):
            raise ValueError(
                f"mentions: engine {self.engine.name!r} finds its own; to extract by "
                f"{self.mentions.name!r}, stages.extracts.run.engine has to be the rules"
            )

    def identity(self) -> dict[str, Any]:
        """The prompt; by rules also the version of the naming rules."""
        rules = {"names": CONCEPTS} if isinstance(self.engine, Rules) else {}
        return super().identity() | rules

    @property
    def answered_by(self) -> str:
        """The author of the facts, as named in outputs."""
        by_rules = isinstance(self.mentions, FindByRules)
        return self.engine.name if by_rules else f"{self.mentions.name}, relations by rules"

    def open(self, at: Place) -> Function:
        """Load the finder of mentions, bind the engine; return what asks block after block."""
        self.mentions.open(at.threads)
        asked = OpenedLLMStep(self, at.client(self.engine))

        def run(batch: pa.Table) -> pa.Table:
            documents = self._documents(batch)
            waiting = self._prompts(documents)
            known: dict[int, dict[int, EntityLine]] = {row: {} for row in documents}
            done: list[tuple[Prompt, Completion]] = []
            while waiting:
                first = {prompt.row: prompt for prompt in reversed(waiting)}
                now = list(first.values())[::-1]
                answers = asked.answer(batch, now)
                done += zip(now, answers, strict=True)
                waiting = [each for each in waiting if each is not first[each.row]]
                if not isinstance(self.engine, Rules):  # the rules count anew in each block
                    for prompt, answer in zip(now, answers, strict=True):
                        known[prompt.row] |= self._known(documents[prompt.row], prompt, answer)
                    waiting = [self._with_table(each, known[each.row]) for each in waiting]
            done.sort(key=lambda pair: (pair[0].row, _number(pair[0])))
            return self._parsed(documents, [p for p, _ in done], [answer for _, answer in done])

        return run

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render a prompt for each block, as it is asked if earlier blocks name nothing."""
        return self._prompts(self._documents(batch))

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Answer by rules, from the mentions that `mentions` finds."""
        documents = self._documents(batch)
        asked = [documents[prompt.row].blocks[_number(prompt)] for prompt in prompts]
        return [
            json.dumps(
                {
                    "entities": [line for line in lines if ":" in line.split("@")[0]],
                    "relations": [line for line in lines if ":" not in line.split("@")[0]],
                    "findings": [],
                    "proposals": [],
                }
            )
            for lines in rule_lines(asked, self.ontology, self.mentions.find)
        ]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Return a fault if too many lines break a rule: the commonest kind, and its lines."""
        (document,) = self._documents(batch.slice(prompt.row, 1)).values()
        claims = self._claims(document, prompt)
        told = _told(value, claims.known)
        facts = claims.facts(told)
        bad = [row for row in [*facts, *claims.findings(told)] if row["reason"]]
        if len(bad) <= self.max_faulty_share * (len(facts) + len(value.findings)):
            return None
        kind = Counter(row["reason"] for row in bad).most_common(1)[0][0]
        bad = [row for row in bad if row["reason"] == kind]
        detail = _wanted(kind, [*map(_words, bad)])
        if kind == "ungrounded" and any("outcome" in row for row in bad):
            detail += " The title alone states no finding."
        return Fault(kind, detail)

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Check every line against the schema and the text; returns a row a block."""
        return self._parsed(self._documents(batch), prompts, completions)

    def _parsed(
        self,
        documents: Mapping[int, _Document],
        prompts: Sequence[Prompt],
        completions: Sequence[Completion],
    ) -> pa.Table:
        rows = [
            self._row(documents[prompt.row], prompt, completion)
            for prompt, completion in zip(prompts, completions, strict=True)
        ]
        return pa.Table.from_pylist(rows, schema=EXTRACTS)

    def _documents(self, batch: pa.Table) -> dict[int, _Document]:
        """The documents that have text and are not rejected, by row."""
        return {
            number: _Document(
                row["doc_id"],
                row["grade"],
                tuple(blocks(row["text"], row["title"], self.block_tokens)),
                dict(abbreviations(row["text"])),
            )
            for number, row in enumerate(batch.select(self.reads).to_pylist())
            if row["reject"] is None
        }

    def _prompts(self, documents: dict[int, _Document]) -> list[Prompt]:
        findings, example = "", '"findings": [], '
        if self.ontology.findings:
            findings = FINDINGS_PART.read_text("utf-8").replace(
                "$max_findings", str(MAX_FINDING_LINES)
            )
            example = EXAMPLE
        system = PROMPT.system(
            ontology=self.ontology.outline(UNTOLD),
            max_entities=MAX_ENTITY_LINES,
            max_relations=MAX_RELATION_LINES,
            max_proposals=MAX_PROPOSALS,
            findings=findings,
            example=example,
        )
        enums: Enums = tuple(
            (f"Extraction.{name}", lines) for name, lines in patterns(self.ontology, UNTOLD).items()
        )
        return [
            Prompt(
                row=row,
                slot=f"block {number}",
                system=system,
                user=PROMPT.user(known="", document=document.shown(number)),
                schema=Extraction,
                max_tokens=self.max_tokens,
                enums=enums,
            )
            for row, document in documents.items()
            for number in range(len(document.blocks))
        ]

    def _with_table(self, prompt: Prompt, known: Mapping[int, EntityLine]) -> Prompt:
        """The prompt with entities of earlier blocks in front, as many as it may hold."""
        if not known:
            return prompt
        document = prompt.user[prompt.user.index("<document>") :]
        text = document.casefold()

        def rank(entity: EntityLine) -> tuple[bool, int]:
            names = (entity.name, *entity.names)
            return not any(name.casefold() in text for name in names), entity.id

        chosen = sorted(sorted(known.values(), key=rank)[:_MAX_TABLE], key=lambda each: each.id)
        shown = fenced("entities", "\n".join(map(entity_line, chosen)))
        return replace(prompt, user=PROMPT.user(known=f"{shown}\n", document=document))

    def _known(
        self, document: _Document, prompt: Prompt, answer: Completion
    ) -> dict[int, EntityLine]:
        """The entities that a block was shown, and those of its answer."""
        claims = self._claims(document, prompt)
        if answer.value is None:
            return {**claims.known}
        here = claims.entities(_told(answer.value, claims.known))
        return {n: each for n, each in here.items() if self.ontology.knows_type(each.type)}

    def _claims(self, document: _Document, prompt: Prompt) -> DocumentClaims:
        known = {entity.id: entity for entity in _shown(prompt)}
        block = document.blocks[_number(prompt)]
        return DocumentClaims(self.ontology, block, document.doc_id, known, document.long)

    def _row(self, document: _Document, prompt: Prompt, completion: Completion) -> Row:
        block = document.blocks[_number(prompt)]
        row: Row = {
            "unit_id": content_id(document.doc_id, "extract", str(block.start), str(block.end)),
            "doc_id": document.doc_id,
            "char_start": block.start,
            "char_end": block.end,
            "text": block.text[block.start : block.end],
            "grade": document.grade,
            "facts": [],
            "findings": [],
            "reject": None,
        }
        if completion.fault is not None:
            fault = completion.fault
            return {**row, "reject": _reject(fault.kind, fault.detail)}
        claims = self._claims(document, prompt)
        told = _told(completion.value, claims.known)
        proposed = read_lines(completion.value.proposals)
        facts = [*claims.facts(told), *claims.proposals(proposed, told)]
        for fact in facts:
            if not fact["reason"] and fact["confidence"] < self.min_confidence:
                fact["reason"] = "low_confidence"
        return {**row, "facts": facts, "findings": claims.findings(told)}


@dataclass(frozen=True)
class _Document:
    doc_id: str
    grade: str
    blocks: tuple[NumberedBlock, ...]
    long: dict[str, str]

    def shown(self, number: int) -> str:
        """A block as the prompt shows it, with the long forms that an earlier block gives."""
        block = self.blocks[number]
        text = "\n".join(block.lines)
        here = block.text[block.start : block.end]
        earlier = {
            short: long
            for short, long in self.long.items()
            if long not in here and re.search(rf"\b{re.escape(short)}\b", here)
        }
        said = "; ".join(f"{short} = {long}" for short, long in earlier.items())
        return fenced("document", f"Abbreviations: {said}\n{text}" if said else text)


def _number(prompt: Prompt) -> int:
    return int(prompt.slot.rpartition(" ")[2])


def _told(value: Extraction, known: Mapping[int, EntityLine]) -> Told:
    return read_lines([*value.entities, *value.relations, *value.findings], known)


def _shown(prompt: Prompt) -> Iterator[EntityLine]:
    """The entities of earlier blocks that a prompt shows."""
    if table := _TABLE.match(prompt.user):
        for line in table[1].split("\n"):
            if entity := read_entity(line):
                yield entity


def _words(row: Row) -> str:
    """What a refused line says; of an unknown type its name, of a finding its outcome."""
    if "outcome" in row and not row["quote"]:
        return f"{row['kind']} {row['outcome']} = {row['direction']}"
    quote = "" if row["reason"] == "unknown_type" else row["quote"]
    return str(quote or f"{row.get('head', '')} {row['relation']} {row['tail']}")


_WANTED = {
    "malformed": "These lines have none of the forms: {}.",
    "ungrounded": "These lines name no sentence of the document: {}. End each with @ and the "
    "numbers of the sentences that state it.",
    "unknown_id": "These ids are not among the entities: {}. List the entity, or leave it out.",
    "repeated_id": "These ids were given twice: {}. Give each thing an id of its own.",
}


def _wanted(kind: str, words: Sequence[str]) -> str:
    """Describe faulty lines for the retry prompt: the first few, shortened, as data."""
    different = list(dict.fromkeys(words))
    shown = ", ".join(quoted(word[:60]) for word in different[:_MAX_SHOWN])
    more = len(different) - _MAX_SHOWN
    text = _WANTED.get(kind, "The schema does not allow: {}. Keep to its types and relations.")
    return text.format(shown + (f" and {more} more" if more > 0 else ""))


def _reject(reason: str, detail: str) -> dict[str, str]:
    safe = detail.encode("utf-8", "replace").decode("utf-8")
    return {"stage": "extract", "reason": reason, "detail": safe[:_MAX_DETAIL_CHARS]}
