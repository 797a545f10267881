"""Fill the grade columns: given grades, types, MeSH and rules first, then the engine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pydantic

from srrag.corpus.abstract import abstract_text, drop_claims
from srrag.corpus.grade import UNGRADED, Grading, grade_document
from srrag.schema import DOCUMENTS
from srrag.step import LLMStep, Prompt

_PROMPT = Path(__file__).parent / "prompts" / "grade_document.md"
_SLOT = "grade"
_MAX_REASON_CHARS = 300

# Words that must stand in the title or abstract before an engine's grade counts: an abstract that
# talks a model into grade A without any sign of a guideline leaves the document ungraded.
_SIGNS: Mapping[str, re.Pattern[str]] = {
    "A": re.compile(r"guideline|consensus|position (?:stand|statement|paper)|recommendation", re.I),
    "B": re.compile(r"systematic|meta-?analy|pooled|search|eligible (?:studies|trials)", re.I),
    "C": re.compile(r"random|placebo|blind|cross-?over|allocat|assigned|controlled trial", re.I),
    "D": re.compile(r"cohort|prospectiv|retrospectiv|follow|longitudinal|registry|records", re.I),
    "E": re.compile(r""),
}


class GradeAnswer(pydantic.BaseModel):
    """The engine's judgement; "" is "cannot tell"."""

    model_config = pydantic.ConfigDict(extra="forbid")

    grade: Literal["A", "B", "C", "D", "E", ""]
    reason: str


@dataclass(frozen=True, kw_only=True)
class GradeDocuments(LLMStep):
    """Grade DOCUMENTS, one row out for each row in (SR-RAG, section 4.1).

    Only documents that given grade, publication types, MeSH and rules leave open go to the engine,
    which reads title and abstract without the sentences in which a text grades itself. An answer
    that is invalid, or for which the abstract shows no sign, leaves the document ungraded with
    a note in its metadata: a grader's slip is no reason to lose a document. Ungraded counts as E
    wherever a grade is needed (`srrag.corpus.grade.effective_grade`) and is shown as ungraded.
    """

    reads: ClassVar[tuple[str, ...]] = ("title", "text", "metadata", "reject")
    writes: ClassVar[pa.Schema] = DOCUMENTS
    prompt_files: ClassVar[tuple[Path, ...]] = (_PROMPT,)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt for each document that no earlier source could grade."""
        system, user = _templates()
        prompts = []
        for index, row in enumerate(batch.to_pylist()):
            if row["reject"] is not None or _known(row).grade:
                continue
            abstract = abstract_text(row["text"])
            if abstract:
                filled = Template(user).substitute(
                    title=_fenced(drop_claims(row["title"])), abstract=_fenced(abstract)
                )
                prompts.append(Prompt(index, _SLOT, system, filled, GradeAnswer))
        return prompts

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The rules have had their say before: cannot tell."""
        answer = GradeAnswer(grade="", reason="no rule found a study design")
        return [answer.model_dump_json() for _ in prompts]

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[str]
    ) -> pa.Table:
        """Fill grade, grade_source and grade_evidence."""
        answers = {prompt.row: text for prompt, text in zip(prompts, completions, strict=True)}
        rows = batch.to_pylist()
        graded = [_graded(row, answers.get(index)) for index, row in enumerate(rows)]
        return pa.Table.from_pylist(graded, schema=DOCUMENTS)


def _graded(row: dict[str, Any], answer: str | None) -> dict[str, Any]:
    if row["reject"] is not None:
        return row
    known = _known(row)
    grading = known if answer is None else _judged(row, answer)
    notes = [note for note in (known.note, grading.note) if note]
    metadata = json.loads(row["metadata"] or "{}")
    if notes:
        metadata["grade_note"] = "; ".join(dict.fromkeys(notes))
    return {
        **row,
        "grade": grading.grade,
        "grade_source": grading.source,
        "grade_evidence": grading.evidence,
        "metadata": json.dumps(metadata, sort_keys=True, ensure_ascii=False),
    }


def _known(row: Mapping[str, Any]) -> Grading:
    """The grade without an engine."""
    metadata = json.loads(row["metadata"] or "{}")
    return grade_document(
        row["title"],
        row["text"],
        metadata.get("grade"),
        metadata.get("publication_types", []),
        metadata.get("mesh", []),
    )


def _judged(row: Mapping[str, Any], answer: str) -> Grading:
    """The engine's grade if it is valid and the abstract shows a sign of it."""
    try:
        judged = GradeAnswer.model_validate_json(answer)
    except pydantic.ValidationError as error:
        first = error.errors()[0]["msg"]
        return Grading("", "none", note=f"the engine's answer is invalid: {first}"[:200])
    if not judged.grade:
        return UNGRADED
    shown = f"{drop_claims(row['title'])}\n{abstract_text(row['text'])}"
    if not _SIGNS[judged.grade].search(shown):
        note = f"the engine said {judged.grade}, of which the abstract shows no sign"
        return Grading("", "none", note=note)
    return Grading(judged.grade, "engine", judged.reason[:_MAX_REASON_CHARS])


@cache
def _templates() -> tuple[str, str]:
    system, user = _PROMPT.read_text("utf-8").split("\n---\n")
    return system, user


def _fenced(text: str) -> str:
    """Text that cannot close the tags around it."""
    return re.sub(r"</?(?=(?:title|abstract)\b)", "", text, flags=re.IGNORECASE)
