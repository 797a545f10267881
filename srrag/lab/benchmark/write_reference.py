"""Write exact and ideal answers from the gold windows, with cited sources (SR-RAG, section 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field

from srrag.answer.write.cited import MAX_CITES, MAX_SENTENCE_CHARS, CitedSentence, best_grade
from srrag.core.rows import Row, filled, live, rejected
from srrag.core.step import LLMStep
from srrag.lab.benchmark.relations import REFERENCE, REFERENCED
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.delimit import quoted
from srrag.reading.numbers import lost_numbers
from srrag.reading.prose import plain

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "write_reference.md")
STAGE = "reference"
MAX_EXACT, MAX_IDEAL = 4, 16


class Reference(Answer):
    """The core conclusion, and the full answer from the highest grade to the lowest."""

    exact: Annotated[list[CitedSentence], Field(max_length=MAX_EXACT)]
    ideal: Annotated[list[CitedSentence], Field(max_length=MAX_IDEAL)]


@dataclass(frozen=True, kw_only=True)
class WriteReference(LLMStep):
    """Writes the reference with one prompt a question, which sees its gold windows.

    An answer is retried if a statement cites nothing, cites an unknown window or has a number that
    its windows lack, or if the ideal answer is out of order. Faulty statements that remain are
    dropped and counted (`dropped_statements`), and the ideal answer is sorted. A row without an
    exact answer is rejected. The rules quote the seed's conclusion, then each gold window's span.
    """

    reads: ClassVar[tuple[str, ...]] = ("unit_id", "text", "conclusion", "gold")
    writes: ClassVar[pa.Schema] = REFERENCED
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    max_tokens: int = 2048
    """Twenty sentences of 50 tokens with their citations, and as much again in reserve."""

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each question."""
        system = PROMPT.system(max_exact=MAX_EXACT, max_ideal=MAX_IDEAL)
        return [
            Prompt(
                row,
                STAGE,
                system,
                PROMPT.user(
                    question=quoted(question["text"]), passages="\n".join(_lines(question["gold"]))
                ),
                Reference,
                max_tokens=self.max_tokens,
            )
            for row, question in live(batch, self.reads)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Quote the gold windows."""
        questions = dict(live(batch, self.reads))
        return [_rule(questions[prompt.row]).model_dump_json() for prompt in prompts]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Return a fault for wrong statements, citations or order."""
        return _fault(value, batch["gold"][prompt.row].as_py())

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Map citation numbers to windows; drop statements that cannot be traced."""
        questions = dict(live(batch, self.reads))
        made = {
            prompt.row: _row(completion, questions[prompt.row]["gold"])
            for prompt, completion in zip(prompts, completions, strict=True)
        }
        return filled(batch, REFERENCE, made)


def _lines(gold: Sequence[Row]) -> list[str]:
    names = ("grade", "year", "title", "text")
    return [
        quoted({"n": n, **{name: each[name] for name in names}})
        for n, each in enumerate(gold, start=1)
    ]


def _fault(value: Reference, gold: Sequence[Row]) -> Fault | None:
    if not value.exact:
        return Fault("no_answer", "`exact` is empty. State the core conclusion of the passages.")
    for sentence in (*value.exact, *value.ideal):
        if not _cited(sentence, gold) or len(_cited(sentence, gold)) < len(set(sentence.cites)):
            detail = f"Each sentence cites numbers from 1 to {len(gold)}; this one does not: "
            return Fault("invalid_citation", detail + repr(sentence.text[:200]))
        if unknown := _unknown(sentence, gold):
            detail = f"No cited passage holds {', '.join(unknown[:5])}: {sentence.text[:200]!r}"
            return Fault("invented", detail)
    order = [best_grade(each.cites, _grades(gold)) for each in value.ideal]
    if order != sorted(order):
        detail = f"`ideal` goes from the highest grade to the lowest; yours is {', '.join(order)}."
        return Fault("grade_order", detail)
    return None


def _row(completion: Completion, gold: Sequence[Row]) -> Row:
    if completion.fault is not None:
        return rejected(STAGE, completion.fault)
    value: Reference = completion.value
    exact, ideal = ([s for s in part if _stands(s, gold)] for part in (value.exact, value.ideal))
    if not exact:
        return rejected(STAGE, Fault("no_answer", "no statement of the exact answer has a source"))
    ideal.sort(key=lambda each: best_grade(_cited(each, gold), _grades(gold)))
    return {
        "exact": [_statement(each, gold) for each in exact],
        "ideal": [_statement(each, gold) for each in ideal],
        "dropped_statements": len(value.exact) + len(value.ideal) - len(exact) - len(ideal),
    }


def _stands(sentence: CitedSentence, gold: Sequence[Row]) -> bool:
    said = bool(plain(sentence.text))
    return said and bool(_cited(sentence, gold)) and not _unknown(sentence, gold)


def _cited(sentence: CitedSentence, gold: Sequence[Row]) -> list[int]:
    """Return the distinct citation numbers that name a gold window."""
    return [n for n in dict.fromkeys(sentence.cites) if 1 <= n <= len(gold)]


def _unknown(sentence: CitedSentence, gold: Sequence[Row]) -> list[str]:
    """Return the numbers of a sentence that none of its cited windows holds."""
    sources = [gold[n - 1]["text"] for n in _cited(sentence, gold)]
    return lost_numbers(sentence.text, sources)


def _grades(gold: Sequence[Row]) -> list[str]:
    return [each["grade"] for each in gold]


def _statement(sentence: CitedSentence, gold: Sequence[Row]) -> Row:
    units = [gold[n - 1]["unit_id"] for n in _cited(sentence, gold)]
    return {"text": plain(sentence.text), "unit_ids": units}


def _rule(question: Row) -> Reference:
    """Quote the seed's conclusion, then the span of each gold window, highest grade first."""
    gold = question["gold"]
    said = question["conclusion"]
    holders = [n for n, each in enumerate(gold, start=1) if said in each["text"]]
    quotes: dict[str, list[int]] = {}
    for number, each in enumerate(gold, start=1):
        quotes.setdefault(each["quote"], []).append(number)
    listed = [_cite(text, cites) for text, cites in quotes.items()][:MAX_IDEAL]
    return Reference(exact=[_cite(said, holders)] if holders else listed[:1], ideal=listed)


def _cite(text: str, cites: Sequence[int]) -> CitedSentence:
    return CitedSentence(text=plain(text)[:MAX_SENTENCE_CHARS], cites=list(cites[:MAX_CITES]))
