"""Evidence of a text unit on its keywords, one hyper-relation at a time (EbmKG, Eq. 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.core.ids import content_id
from srrag.core.rows import Row, live
from srrag.core.schema import KEYWORD_FINDINGS
from srrag.core.step import Function, LLMStep, Place
from srrag.llm.completion import Answer, Completion, Prompt, PromptFile, Rules
from srrag.llm.delimit import fenced, quoted
from srrag.systems.ideprag.hyper_relations import KEYWORD_TYPES, REST, HyperRelations
from srrag.systems.ideprag.label_rules import Span, labelled_runs

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "findings.md")
MAX_FINDINGS = 8
MAX_CHARS = 1000
Combination = tuple[str, str, str]
"""Keyword, its type, and the label."""


class UnitFindings(Answer):
    """What a unit says on one aspect of a keyword."""

    findings: Annotated[
        list[
            Annotated[
                str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_CHARS)
            ]
        ],
        Field(max_length=MAX_FINDINGS),
    ]


@dataclass(frozen=True, kw_only=True)
class ExtractFindings(LLMStep):
    """Write the findings of each unit: one call a keyword and label that `relations` allow.

    A finding that is a stretch of the unit has its span. A unit that lost every answer becomes a
    reject row.

    By rules findings are verbatim: each run of neighbouring sentences whose cue words tell the same
    label. It belongs to the keyword of that type that it names first, else to the document's first
    keyword of that type. Sentences without a cue, and units without a keyword, have the label
    `general`, which no model is asked for; so all of a text is evidence.
    """

    relations: HyperRelations = field(default_factory=HyperRelations)
    max_tokens: int = 1024

    reads: ClassVar[tuple[str, ...]] = (
        "unit_id", "doc_id", "char_start", "text", "grade", "keywords", "reject",
    )  # fmt: skip
    writes: ClassVar[pa.Schema] = KEYWORD_FINDINGS
    keeps_rows: ClassVar[bool] = False
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    def open(self, at: Place) -> Function:
        """Bind the engine; rules need no prompt."""
        if not isinstance(self.engine, Rules):
            return super().open(at)

        def run(batch: pa.Table) -> pa.Table:
            made = [
                finding(row, combination, row["text"][low:high], (low, high))
                for _, row in live(batch, self.reads)
                for combination, (low, high) in self._by_rules(row)
            ]
            return _table(made)

        return run

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a combination of a unit."""
        system = PROMPT.system(most=MAX_FINDINGS)
        return [
            Prompt(
                number,
                f"finding {place}",
                system,
                PROMPT.user(
                    keyword=quoted(name),
                    label=quoted(label),
                    passage=fenced("passage", row["text"]),
                ),
                UnitFindings,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, self.reads)
            for place, (name, _, label) in enumerate(self._combinations(row))
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The runs of each combination."""
        rows = dict(live(batch, self.reads))
        runs = {number: self._by_rules(rows[number]) for number in {p.row for p in prompts}}
        answers = []
        for prompt in prompts:
            row = rows[prompt.row]
            wanted = self._combinations(row)[_place(prompt)]
            spans = [span for combination, span in runs[prompt.row] if combination == wanted]
            texts = [row["text"][low:high][:MAX_CHARS] for low, high in spans[:MAX_FINDINGS]]
            answers.append(UnitFindings(findings=texts).model_dump_json())
        return answers

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """A row a finding; repeated findings on one aspect become one."""
        rows = dict(live(batch, self.reads))
        made: list[Row] = []
        answered: set[int] = set()
        faults: dict[int, Any] = {}
        for prompt, answer in zip(prompts, completions, strict=True):
            row = rows[prompt.row]
            if answer.fault is not None:
                faults.setdefault(prompt.row, answer.fault)
                continue
            answered.add(prompt.row)
            combination = self._combinations(row)[_place(prompt)]
            for text in dict.fromkeys(answer.value.findings):
                start = row["text"].find(text)
                span = (start, start + len(text)) if start >= 0 else None
                made.append(finding(row, combination, text, span))
        for number in sorted(faults.keys() - answered):
            lost = finding(rows[number], ("", "", ""), "", None)
            fault = faults[number]
            reject = {"stage": "findings", "reason": fault.kind, "detail": fault.detail}
            made.append({**lost, "reject": reject})
        return _table(made)

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
    """A row of KEYWORD_FINDINGS; `span` is in the unit, None for a text that is not verbatim."""
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
        "reject": None,
    }


def _table(rows: Iterator[Row] | Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=KEYWORD_FINDINGS)


def _place(prompt: Prompt) -> int:
    return int(prompt.slot.rpartition(" ")[2])
