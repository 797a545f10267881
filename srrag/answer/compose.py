"""The cited answer: every sentence names the evidence that it rests on, or there is none."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import Template
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, Field, ValidationError

from srrag.answer.extract import Extract, ExtractRule, Passage
from srrag.answer.sentences import plain
from srrag.schema import REJECT, SENTENCES
from srrag.step import LLMStep, Prompt

_PROMPT = Path(__file__).parent / "prompts" / "answer_question.md"

ABSTENTION = "The evidence found does not answer this question."
PARTIAL = "The evidence found answers this question only in part."
NO_EVIDENCE = "No evidence was found."
UNCITED_MARK = "[uncited]"


class CitedSentence(BaseModel):
    """One claim and the numbers of its evidence; what is outside the block is dropped later."""

    text: Annotated[str, Field(max_length=1500)]
    cites: Annotated[list[int], Field(max_length=24)]


class CitedAnswer(BaseModel):
    """The answer to an answering prompt."""

    sentences: Annotated[list[CitedSentence], Field(max_length=24)]
    insufficient: bool
    missing: Annotated[str, Field(max_length=1000)]


@dataclass(frozen=True, kw_only=True)
class ComposeAnswer(LLMStep):
    """Answer `text` from `evidence`, with markers [n] that count the evidence from 1.

    Citations outside the block are dropped and counted in `invalid_citations`. A sentence that
    is left without one is dropped, or kept and marked (`uncited`), and counted in
    `dropped_sentences` either way. Without a sentence there is an abstention, never a guess.
    The rules engine quotes the evidence, see ExtractRule.
    """

    reads: ClassVar[tuple[str, ...]] = ("text", "evidence")
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("answer", pa.string(), nullable=False),
            pa.field("sentences", SENTENCES, nullable=False),
            pa.field("insufficient", pa.bool_(), nullable=False),
            pa.field("answer_note", pa.string(), nullable=False),
            pa.field("model", pa.string(), nullable=False),
            pa.field("invalid_citations", pa.int32(), nullable=False),
            pa.field("dropped_sentences", pa.int32(), nullable=False),
            pa.field("reject", REJECT),
        ]
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (_PROMPT,)

    uncited: Literal["drop", "mark"] = "drop"
    max_sentences: int = 8
    rule: ExtractRule = field(default_factory=ExtractRule)

    def __post_init__(self) -> None:
        """Raise ValueError for a treatment of uncited sentences that does not exist."""
        if self.uncited not in ("drop", "mark"):
            raise ValueError(f"uncited is {self.uncited!r}: it can be 'drop' or 'mark'")

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each question that has evidence."""
        system, user = _templates()
        rendered = system.substitute(max_sentences=self.max_sentences)
        return [
            Prompt(
                row,
                "answer",
                rendered,
                user.substitute(
                    question=_json(question["text"]),
                    num_evidence=len(question["evidence"]),
                    evidence="\n".join(_lines(question["evidence"])),
                ),
                CitedAnswer,
            )
            for row, question in _live(batch)
            if question["evidence"]
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Quote the evidence, or abstain where it covers too little of the question."""
        questions = dict(_live(batch))
        answers = []
        for prompt in prompts:
            question = questions[prompt.row]
            passages = [
                Passage(item["text"], item["title"], item["section"], item["grade"])
                for item in question["evidence"]
            ]
            answers.append(_quoted(self.rule(question["text"], passages)))
        return answers

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[str]
    ) -> pa.Table:
        """Map numbers to evidence ids; an answer that does not parse rejects its row."""
        answers = {
            prompt.row: completion for prompt, completion in zip(prompts, completions, strict=True)
        }
        questions = dict(_live(batch))
        rows = [
            self._row(questions[row]["evidence"], answers.get(row))
            if row in questions
            else _empty("", self.engine)
            for row in range(batch.num_rows)
        ]
        if "reject" in batch.column_names:
            former = batch.column("reject").to_pylist()
            rows = [
                new | {"reject": old or new["reject"]}
                for new, old in zip(rows, former, strict=True)
            ]
        return _with_columns(batch, pa.Table.from_pylist(rows, schema=self.writes))

    def _row(self, evidence: list[dict[str, Any]], completion: str | None) -> dict[str, Any]:
        """The columns of one question."""
        if not evidence:
            return _empty(ABSTENTION, "rules") | {"insufficient": True, "answer_note": NO_EVIDENCE}
        try:
            cited = CitedAnswer.model_validate_json(completion or "")
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            detail = f"{where}: {first['msg']}"[:300]
            reject = {"stage": "answer", "reason": "invalid_answer", "detail": detail}
            return _empty("", self.engine) | {"reject": reject}
        return self._cited(evidence, cited)

    def _cited(self, evidence: list[dict[str, Any]], cited: CitedAnswer) -> dict[str, Any]:
        """Keep what is cited, count what is not, and abstain if nothing is left."""
        shown: list[str] = []
        sentences: list[dict[str, Any]] = []
        invalid = dropped = 0
        for sentence in cited.sentences:
            numbers = [n for n in dict.fromkeys(sentence.cites) if 1 <= n <= len(evidence)]
            invalid += sum(not 1 <= n <= len(evidence) for n in sentence.cites)
            text = plain(sentence.text)
            dropped += not numbers
            if not text or not (numbers or self.uncited == "mark"):
                continue
            marks = "".join(f"[{n}]" for n in numbers) or UNCITED_MARK
            shown.append(f"{text} {marks}")
            ids = [evidence[n - 1]["evidence_id"] for n in numbers]
            sentences.append({"text": text, "evidence_ids": ids})
        note = plain(cited.missing)
        insufficient = cited.insufficient or not sentences
        if insufficient:
            shown = [*shown, PARTIAL] if shown else [ABSTENTION]
        if not sentences and not cited.insufficient:
            note = "No sentence of the answer cites the evidence."
        return _empty(" ".join(shown), self.engine) | {
            "sentences": sentences,
            "insufficient": insufficient,
            "answer_note": note,
            "invalid_citations": invalid,
            "dropped_sentences": dropped,
        }


def _quoted(extract: Extract) -> str:
    """An extract as the JSON that a model would give."""
    missing = ""
    if not extract.choices:
        missing = f"The best passage covers {extract.coverage:.0%} of the question."
        if extract.absent:
            missing += f" Nowhere in the evidence: {', '.join(extract.absent)}."
    answer = CitedAnswer(
        sentences=[
            CitedSentence(text=choice.text[:1500], cites=choice.cites[:24])
            for choice in extract.choices
        ],
        insufficient=not extract.choices,
        missing=missing[:1000],
    )
    return answer.model_dump_json()


def _lines(evidence: list[dict[str, Any]]) -> Iterator[str]:
    """Evidence as JSON lines: a JSON string cannot be closed by what it holds."""
    for number, item in enumerate(evidence, 1):
        yield _json(
            {
                "n": number,
                "grade": item["grade"],
                "year": item["year"] or None,
                "title": item["title"],
                "section": item["section"],
                "text": item["text"],
            }
        )


def _live(batch: pa.Table) -> Iterator[tuple[int, dict[str, Any]]]:
    """Questions that no earlier stage rejected, with their number in the batch."""
    rows = batch.select(ComposeAnswer.reads).to_pylist()
    if "reject" not in batch.column_names:
        yield from enumerate(rows)
        return
    alive = pc.is_null(batch.column("reject")).to_pylist()
    yield from ((i, rows[i]) for i, keep in enumerate(alive) if keep)


def _empty(answer: str, model: str) -> dict[str, Any]:
    return {
        "answer": answer,
        "sentences": [],
        "insufficient": False,
        "answer_note": "",
        "model": model,
        "invalid_citations": 0,
        "dropped_sentences": 0,
        "reject": None,
    }


def _with_columns(batch: pa.Table, columns: pa.Table) -> pa.Table:
    """The batch with these columns, in place of those of the same name."""
    kept = [name for name in batch.column_names if name not in columns.column_names]
    fields = [batch.schema.field(name) for name in kept] + list(columns.schema)
    arrays = [batch.column(name) for name in kept] + columns.columns
    return pa.table(arrays, schema=pa.schema(fields))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@cache
def _templates() -> tuple[Template, Template]:
    system, user = _PROMPT.read_text("utf-8").split("\n---\n")
    return Template(system), Template(user)
