"""Fill the grade columns: given grades, types, MeSH and rules first, then the engine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa

from srrag.core.schema import DOCUMENTS
from srrag.core.step import Function, LLMStep, OpenedLLMStep, Place
from srrag.corpus.grade import UNGRADED, Grading, abstract_text, drop_claims, grade_document
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, fenced
from srrag.llm.fields import Means, Text, most_tokens

_MAX_NOTE_CHARS = 200

# Words that the title or abstract needs before an engine's grade counts: an abstract that
# talks a model into grade A without any sign of a guideline leaves the document ungraded.
_SIGNS: Mapping[str, re.Pattern[str]] = {
    "A": re.compile(r"guideline|consensus|position (?:stand|statement|paper)|recommendation", re.I),
    "B": re.compile(r"systematic|meta-?analy|pooled|search|eligible (?:studies|trials)", re.I),
    "C": re.compile(r"random|placebo|blind|cross-?over|allocat|assigned|controlled trial", re.I),
    "D": re.compile(r"cohort|prospectiv|retrospectiv|follow|longitudinal|registry|records", re.I),
    "E": re.compile(r""),
}
_STUDIES: Mapping[str, str] = {
    "A": "a guideline or an expert consensus",
    "B": "a systematic review or a meta-analysis",
    "C": "a randomised trial",
    "D": "a cohort study",
}


_Graded = tuple[dict[str, Any], Grading | None]


class GradeAnswer(Answer):
    """The engine's judgement; "" is "cannot tell"."""

    example: ClassVar[dict[str, Any] | None] = {
        "reason": "We allocated 84 schools at random to the programme or to usual lessons",
        "grade": "C",
    }

    reason: Annotated[
        str, Text(20, "words of the abstract on its design, joined", "it says nothing of it")
    ]
    grade: Annotated[
        Literal["A", "B", "C", "D", "E", ""],
        Means(
            "what the authors did",
            {
                "A": "a clinical guideline or an expert consensus, issued by its authors",
                "B": "a systematic review or a meta-analysis",
                "C": "a randomised controlled trial",
                "D": "a cohort study, followed forward or traced back through records",
                "E": "any other work, such as a protocol of a study to come, a case report, a "
                "narrative review, a cross-sectional or case-control study, a trial without "
                "randomisation, work on animals or cells",
                "": "the abstract does not say enough to tell, as of groups that are compared "
                "without a word on how they came about",
            },
        ),
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "grade_document.md", GradeAnswer)


@dataclass(frozen=True, kw_only=True)
class GradeDocuments(LLMStep):
    """Grade DOCUMENTS, one row out for each row in (SR-RAG, section 4.1).

    Given grade, publication types, MeSH and rules come first. Only the documents that they leave
    open go to the engine, which reads title and abstract without sentences that state a grade. If
    the answer is faulty or the abstract shows no sign of the grade, the document stays ungraded
    with a note in its metadata, because a failed grading is no reason to lose a document. Ungraded
    counts as E wherever a grade is needed (`srrag.core.standing.UNGRADED`) and is shown as
    ungraded.
    """

    version: ClassVar[int] = 7
    reads: ClassVar[tuple[str, ...]] = ("title", "text", "metadata", "reject")
    writes: ClassVar[pa.Schema] = DOCUMENTS
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    def open(self, at: Place) -> Function:
        """Bind the engine; the rules grade each document once, for its prompt and its row."""
        return _OpenedGrading(self, at.client(self.engine))

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each document that no earlier source could grade."""
        return self.prompts_of(_by_rules(batch))

    def prompts_of(self, graded: Sequence[_Graded]) -> list[Prompt]:
        """Render the prompts of rows that the rules have read."""
        system = PROMPT.system()
        prompts = []
        for index, (row, known) in enumerate(graded):
            if known is None or known.grade:
                continue
            title, abstract = _shown(row)
            if abstract:
                user = PROMPT.user(
                    title=fenced("title", title), abstract=fenced("abstract", abstract)
                )
                prompts.append(
                    Prompt(
                        index,
                        "grade",
                        system,
                        user,
                        GradeAnswer,
                        max_tokens=most_tokens(GradeAnswer),
                    )
                )
        return prompts

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Answer "cannot tell", since the rules have already failed on these documents."""
        answer = GradeAnswer(grade="", reason="no rule found a study design")
        return [answer.model_dump_json() for _ in prompts]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Return the fault `no_sign` for a grade without a sign in title or abstract."""
        row = batch.select(["title", "text"]).slice(prompt.row, 1).to_pylist()[0]
        return None if _has_sign(value.grade, row) else _no_sign(value.grade)

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Fill grade, grade_source and grade_evidence."""
        return _filled(_by_rules(batch), prompts, completions)


class _OpenedGrading(OpenedLLMStep):
    """Grades a batch by rules once, for its prompts and for its rows."""

    def __call__(self, batch: pa.Table) -> pa.Table:
        assert isinstance(self.step, GradeDocuments)
        graded = _by_rules(batch)
        prompts = self.step.prompts_of(graded)
        return _filled(graded, prompts, self.answer(batch, prompts))


def _by_rules(batch: pa.Table) -> list[_Graded]:
    """Each row with its grade without an engine; None for a rejected row."""
    rows = batch.to_pylist()
    return [(row, None if row["reject"] is not None else _known(row)) for row in rows]


def _filled(
    graded: Sequence[_Graded], prompts: Sequence[Prompt], completions: Sequence[Completion]
) -> pa.Table:
    answers = {prompt.row: answer for prompt, answer in zip(prompts, completions, strict=True)}
    rows = [_row(row, known, answers.get(n)) for n, (row, known) in enumerate(graded)]
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


def _row(row: dict[str, Any], known: Grading | None, answer: Completion | None) -> dict[str, Any]:
    if known is None:
        return row
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
    """Return the grade without an engine."""
    metadata = json.loads(row["metadata"] or "{}")
    return grade_document(
        row["title"],
        row["text"],
        metadata.get("grade"),
        metadata.get("publication_types", []),
        metadata.get("mesh", []),
    )


def _judged(row: Mapping[str, Any], answer: Completion) -> Grading:
    """Return the engine's grade if the abstract shows a sign of it, else ungraded."""
    if answer.fault is not None:
        note = f"the engine gave no grade ({answer.fault.kind}): {answer.fault.detail}"
        return Grading("", "none", note=note[:_MAX_NOTE_CHARS])
    judged: GradeAnswer = answer.value
    if not judged.grade:
        return UNGRADED
    if not _has_sign(judged.grade, row):
        note = f"the engine said {judged.grade}, of which the abstract shows no sign"
        return Grading("", "none", note=note)
    return Grading(judged.grade, "engine", judged.reason)


def _shown(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return title and abstract without sentences that state a grade."""
    return drop_claims(row["title"]), abstract_text(row["text"])


def _has_sign(grade: str, row: Mapping[str, Any]) -> bool:
    return not grade or _SIGNS[grade].search("\n".join(_shown(row))) is not None


def _no_sign(grade: str) -> Fault:
    detail = (
        f"You graded the document {grade}, but no word of title or abstract points to "
        f"{_STUDIES[grade]}. Give the grade that the described methods show, or an empty one."
    )
    return Fault("no_sign", detail)
