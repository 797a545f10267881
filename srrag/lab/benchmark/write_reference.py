"""Write exact and ideal answers from the gold windows, with cited sources (SR-RAG, section 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa

from srrag.answer.write.cited import MAX_CITES, Number, best_grade
from srrag.core.rows import Row, filled, live, rejected
from srrag.core.step import LLMStep
from srrag.lab.benchmark.sample import REFERENCE, REFERENCED
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, quoted
from srrag.llm.fields import Items, Text, most_tokens
from srrag.reading.numbers import lost_numbers
from srrag.reading.prose import plain

STAGE = "reference"
MAX_EXACT, MAX_IDEAL = 3, 16


class ReferenceSentence(Answer):
    """One claim and the numbers of the passages that state it."""

    text: Annotated[str, Text(30, "one claim, in your own words")]
    cites: Annotated[list[Number], Items(MAX_CITES, "the numbers of the passages that state it")]


class Reference(Answer):
    """The core conclusion, and the full answer from the highest grade to the lowest."""

    example: ClassVar[dict[str, Any] | None] = {
        "exact": [{"text": "Yes: inhaled budesonide prevents attacks.", "cites": [1]}],
        "ideal": [
            {"text": "A review found half as many attacks with budesonide.", "cites": [1, 2]},
            {"text": "In one cohort it did not matter how it was inhaled.", "cites": [3]},
        ],
    }

    exact: Annotated[list[ReferenceSentence], Items(MAX_EXACT, "the answer itself")]
    ideal: Annotated[
        list[ReferenceSentence],
        Items(MAX_IDEAL, "the full answer", "there is nothing to add"),
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "write_reference.md", Reference)


@dataclass(frozen=True, kw_only=True)
class WriteReference(LLMStep):
    """Writes the reference with one prompt a question, which sees its gold windows.

    Statements that cite nothing, or an unknown window, or have a number that their windows lack,
    are asked for again, then dropped and counted (`dropped_statements`). The ideal answer is sorted
    by the best grade that a statement cites. A row without an
    exact answer is rejected. The rules quote the seed's conclusion, then each gold window's span.
    """

    version: ClassVar[int] = 4
    reads: ClassVar[tuple[str, ...]] = ("unit_id", "text", "conclusion", "gold")
    writes: ClassVar[pa.Schema] = REFERENCED
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    max_tokens: int = most_tokens(Reference)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each question."""
        system = PROMPT.system()
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
        """Return a fault for statements that cannot be traced."""
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
    """The statements that cannot be traced, each by its place, and why the first cannot."""
    found: list[tuple[str, str, tuple[str, int]]] = []
    for name in ("exact", "ideal"):
        for place, sentence in enumerate(getattr(value, name)):
            known = _cited(sentence, gold)
            if not known or len(known) < len(set(sentence.cites)):
                detail = f"Each sentence cites numbers from 1 to {len(gold)}: {sentence.text!r}."
                found.append(("invalid_citation", detail, (name, place)))
            elif unknown := _unknown(sentence, gold):
                detail = f"No cited passage holds {', '.join(unknown[:5])}: {sentence.text!r}."
                found.append(("invented", detail, (name, place)))
    if not found:
        return None
    kind = found[0][0]
    return Fault(kind, " ".join(each[1] for each in found), tuple(each[2] for each in found))


def _row(completion: Completion, gold: Sequence[Row]) -> Row:
    if completion.value is None:
        return rejected(STAGE, completion.fault or Fault("no_answer", ""))
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


def _stands(sentence: ReferenceSentence, gold: Sequence[Row]) -> bool:
    said = bool(plain(sentence.text))
    return said and bool(_cited(sentence, gold)) and not _unknown(sentence, gold)


def _cited(sentence: ReferenceSentence, gold: Sequence[Row]) -> list[int]:
    """Return the distinct citation numbers that name a gold window."""
    return [n for n in dict.fromkeys(sentence.cites) if 1 <= n <= len(gold)]


def _unknown(sentence: ReferenceSentence, gold: Sequence[Row]) -> list[str]:
    """Return the numbers of a sentence that none of its cited windows holds."""
    cited = [gold[n - 1] for n in _cited(sentence, gold)]
    sources = [str(each[name]) for each in cited for name in ("text", "title", "year")]
    return lost_numbers(sentence.text, sources)


def _grades(gold: Sequence[Row]) -> list[str]:
    return [each["grade"] for each in gold]


def _statement(sentence: ReferenceSentence, gold: Sequence[Row]) -> Row:
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


def _cite(text: str, cites: Sequence[int]) -> ReferenceSentence:
    return ReferenceSentence(text=plain(text), cites=list(cites[:MAX_CITES]))
