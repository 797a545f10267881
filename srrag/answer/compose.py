"""The cited answer: every sentence names the evidence that it rests on, or there is none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from srrag.answer.extract import Extract, ExtractRule, Passage
from srrag.answer.sentences import plain
from srrag.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.fence import quoted
from srrag.schema import REJECT, SENTENCES
from srrag.step import LLMStep

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "answer_question.md")

ABSTENTION = "The evidence found does not answer this question."
PARTIAL = "The evidence found answers this question only in part."
NO_EVIDENCE = "No evidence was found."
UNCITED_MARK = "[uncited]"

MAX_SENTENCE_CHARS = 800
"""A sentence of 90 words, the longest that the rules quote."""
MAX_CITES = 12
MAX_ANSWER, MAX_EVIDENCE, MAX_LIMITS = 5, 10, 5
PARAGRAPHS = ("answer", "evidence", "limits")

Number = Annotated[int, Field(ge=0, le=999)]


class CitedSentence(Answer):
    """One claim and the numbers of its evidence; what is outside the block is dropped later."""

    text: Annotated[str, Field(max_length=MAX_SENTENCE_CHARS)]
    cites: Annotated[list[Number], Field(max_length=MAX_CITES)]


class CitedAnswer(Answer):
    """Three paragraphs (SR-RAG, section 2.3): core answer, evidence by grade, limits."""

    answer: Annotated[list[CitedSentence], Field(max_length=MAX_ANSWER)]
    evidence: Annotated[list[CitedSentence], Field(max_length=MAX_EVIDENCE)]
    limits: Annotated[list[CitedSentence], Field(max_length=MAX_LIMITS)]
    insufficient: bool
    missing: Annotated[str, Field(max_length=600)]

    def sentences(self) -> list[CitedSentence]:
        """The sentences of all paragraphs."""
        return [*self.answer, *self.evidence, *self.limits]


@dataclass(frozen=True, kw_only=True)
class ComposeAnswer(LLMStep):
    """Answer `text` from `evidence`, with markers [n] that count the evidence from 1.

    Paragraphs, with a blank line between them: the answer, the evidence by grade, the limits.
    Citations outside the block are dropped and counted in `invalid_citations`. A sentence that
    is left without one is dropped, or kept and marked (`uncited`), and counted in
    `dropped_sentences` either way. Without a sentence there is an abstention, never a guess.
    The rules quote the evidence in one paragraph, see ExtractRule. An answer that is a fault
    rejects its row.
    """

    version: ClassVar[int] = 2

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
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    uncited: Literal["drop", "mark"] = "drop"
    max_sentences: int = 12
    max_tokens: int = 2048
    """Twelve sentences of 60 tokens with their citations, and as much again in reserve."""
    rule: ExtractRule = field(default_factory=ExtractRule)

    def __post_init__(self) -> None:
        """Raise ValueError for settings that no answer can keep."""
        if self.uncited not in ("drop", "mark"):
            raise ValueError(f"uncited is {self.uncited!r}: it can be 'drop' or 'mark'")
        if not 1 <= self.max_sentences <= (most := MAX_ANSWER + MAX_EVIDENCE + MAX_LIMITS):
            raise ValueError(f"max_sentences is {self.max_sentences}: 1 to {most} work")

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each question that has evidence."""
        system = PROMPT.system(max_sentences=self.max_sentences)
        return [
            Prompt(
                row,
                "answer",
                system,
                PROMPT.user(
                    question=quoted(question["text"]),
                    num_evidence=len(question["evidence"]),
                    evidence="\n".join(_lines(question["evidence"])),
                ),
                CitedAnswer,
                max_tokens=self.max_tokens,
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

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Citations outside the block, sentences without one, or no sentence at all."""
        return _fault(value, len(batch.column("evidence")[prompt.row]))

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Map numbers to evidence ids; an answer that is a fault rejects its row."""
        answers = {
            prompt.row: completion for prompt, completion in zip(prompts, completions, strict=True)
        }
        questions = dict(_live(batch))
        rows = [
            self._row(questions[row]["evidence"], answers.get(row))
            if row in questions
            else _empty("", self.engine.name)
            for row in range(batch.num_rows)
        ]
        if "reject" in batch.column_names:
            former = batch.column("reject").to_pylist()
            rows = [
                new | {"reject": old or new["reject"]}
                for new, old in zip(rows, former, strict=True)
            ]
        return _with_columns(batch, pa.Table.from_pylist(rows, schema=self.writes))

    def _row(self, evidence: list[dict[str, Any]], completion: Completion | None) -> dict[str, Any]:
        """The columns of one question."""
        if not evidence or completion is None:
            return _empty(ABSTENTION, "rules") | {"insufficient": True, "answer_note": NO_EVIDENCE}
        if fault := completion.fault:
            reject = {"stage": "answer", "reason": fault.kind, "detail": fault.detail}
            return _empty("", self.engine.name) | {"reject": reject}
        return self._cited(evidence, completion.value)

    def _cited(self, evidence: list[dict[str, Any]], cited: CitedAnswer) -> dict[str, Any]:
        """Keep what is cited, count what is not, and abstain if nothing is left."""
        paragraphs: list[str] = []
        sentences: list[dict[str, Any]] = []
        invalid = dropped = 0
        for name in PARAGRAPHS:
            shown: list[str] = []
            for sentence in getattr(cited, name):
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
            if shown:
                paragraphs.append(" ".join(shown))
        insufficient = cited.insufficient or not sentences
        note = plain(cited.missing)
        if not sentences and not cited.insufficient:
            note = "No sentence of the answer cites the evidence."
        if insufficient:
            paragraphs = [*paragraphs, PARTIAL] if paragraphs else [ABSTENTION]
        return _empty("\n\n".join(paragraphs), self.engine.name) | {
            "sentences": sentences,
            "insufficient": insufficient,
            "answer_note": note,
            "invalid_citations": invalid,
            "dropped_sentences": dropped,
        }


def _fault(cited: CitedAnswer, num_evidence: int) -> Fault | None:
    """What is wrong with the citations of an answer."""
    sentences = cited.sentences()
    outside = sorted({n for each in sentences for n in each.cites if not 1 <= n <= num_evidence})
    if outside:
        detail = (
            f"You cited evidence that was not given: {', '.join(map(str, outside[:5]))}. "
            f"Cite only numbers from 1 to {num_evidence}, those of the evidence that supports "
            f"the sentence."
        )
        return Fault("invalid_citation", detail)
    if cited.insufficient:
        return None
    if not sentences:
        detail = (
            "You gave no sentence, yet did not call the evidence insufficient. Answer from the "
            "evidence, or set insufficient to true."
        )
        return Fault("no_answer", detail)
    if uncited := sum(not each.cites for each in sentences):
        detail = (
            f"{uncited} of {len(sentences)} sentences cite no evidence. Cite for each sentence "
            f"the evidence that supports it, and leave out what nothing supports."
        )
        return Fault("uncited", detail)
    return None


def _quoted(extract: Extract) -> str:
    """An extract as the JSON that a model would give."""
    missing = ""
    if not extract.choices:
        missing = f"The best passage covers {extract.coverage:.0%} of the question."
        if extract.absent:
            missing += f" Nowhere in the evidence: {', '.join(extract.absent)}."
    quotes = [
        CitedSentence(text=choice.text[:MAX_SENTENCE_CHARS], cites=choice.cites[:MAX_CITES])
        for choice in extract.choices
    ]
    answer = CitedAnswer(
        answer=quotes[:MAX_ANSWER],
        evidence=quotes[MAX_ANSWER : MAX_ANSWER + MAX_EVIDENCE],
        limits=[],
        insufficient=not quotes,
        missing=missing[:600],
    )
    return answer.model_dump_json()


def _lines(evidence: list[dict[str, Any]]) -> Iterator[str]:
    """Evidence as JSON lines: a JSON string cannot be closed by what it holds."""
    for number, item in enumerate(evidence, 1):
        yield quoted(
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
