"""Gold windows: four-level support of each candidate for the question (SR-RAG, section 4.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import StringConstraints

from srrag.algo.entailment import VERSION, content_stems, entails
from srrag.core.rows import Row, filled, live, rejected
from srrag.core.step import LLMStep
from srrag.lab.benchmark.relations import SUPPORT, SUPPORTED
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.delimit import fenced, quoted
from srrag.reading.prose import split_sentences
from srrag.reading.quotes import find_quote

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "grade_support.md")
STAGE = "support"

RELEVANCE = {"strong": 2, "supportive": 1}
"""Support that makes a window gold, and its relevance in a ranking."""
_MAX_QUOTE_CHARS = 800


Level = Literal["strong", "supportive", "weak", "unrelated"]
_LEVELS: tuple[tuple[Level, float], ...] = (("strong", 0.6), ("supportive", 0.43), ("weak", 0.2))
"""Shares of the conclusion's words from which the rules take a passage to support it so."""


class PassageSupport(Answer, title="Support"):
    """How far a passage supports an answer, and the stretch that does."""

    reason: Annotated[str, StringConstraints(max_length=300)]
    support: Level
    quote: Annotated[str, StringConstraints(max_length=_MAX_QUOTE_CHARS)]


@dataclass(frozen=True, kw_only=True)
class GradeSupport(LLMStep):
    """Grades each candidate with one prompt, which sees only the question and that passage.

    Strongly supportive and supportive candidates become the gold windows, ordered by grade. A quote
    that is not in its passage is retried, then replaced by the whole window. `not_graded` counts
    the candidates whose answer is a fault. A question whose own seed window does not support it is
    rejected (`seed_unsupported`); if grading the seed failed, it is rejected for that fault. The
    rules compare the words of the passage with those of the seed's conclusion.
    """

    reads: ClassVar[tuple[str, ...]] = ("unit_id", "text", "conclusion", "pool")
    writes: ClassVar[pa.Schema] = SUPPORTED
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    max_tokens: int = 512
    """A quote of two sentences and a reason are some 150."""

    def identity(self) -> dict[str, Any]:
        """Identify the step by its prompt and the words that the rules compare."""
        return {**super().identity(), "entailment": VERSION}

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each candidate; its slot is the window's id."""
        return [
            Prompt(
                row,
                each["unit_id"],
                PROMPT.system(),
                PROMPT.user(
                    question=fenced("question", question["text"]),
                    title=quoted(each["title"]),
                    section=quoted(each["section"]),
                    passage=fenced("passage", each["text"]),
                ),
                PassageSupport,
                max_tokens=self.max_tokens,
            )
            for row, question in live(batch, self.reads)
            for each in question["pool"]
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Compare words with those of the seed's conclusion."""
        rows = _candidates(batch, self.reads)
        return [_rule(*rows[prompt.row, prompt.slot]).model_dump_json() for prompt in prompts]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Return a fault for a quote that is not in its passage."""
        _, passage = _candidates(batch.slice(prompt.row, 1), self.reads)[0, prompt.slot]
        if value.support in RELEVANCE and find_quote(value.quote, passage["text"]) is None:
            shown = value.quote[:200]
            return Fault("ungrounded", f"This is not in the passage: {shown!r}. Copy exactly.")
        return None

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Collect the gold windows of each question."""
        answers: dict[int, dict[str, Completion]] = {}
        for prompt, completion in zip(prompts, completions, strict=True):
            answers.setdefault(prompt.row, {})[prompt.slot] = completion
        made = {
            row: _row(question, answers.get(row, {}))
            for row, question in live(batch, [*self.reads, "track", "seed_rank"])
        }
        return filled(batch, SUPPORT, made)


def _candidates(batch: pa.Table, names: Sequence[str]) -> dict[tuple[int, str], tuple[Row, Row]]:
    """Index question and candidate by (row, window id)."""
    return {
        (row, each["unit_id"]): (question, each)
        for row, question in live(batch, names)
        for each in question["pool"]
    }


def _row(question: Row, answers: dict[str, Completion]) -> Row:
    gold: list[Row] = []
    counts: Counter[str] = Counter()
    seed = answers.get(question["unit_id"])
    if seed is None or seed.fault is not None:
        fault = (seed and seed.fault) or Fault("seed_unsupported", "the seed is no candidate")
        return rejected(STAGE, fault)
    if seed.value.support not in RELEVANCE:
        detail = f"{seed.value.support}: {seed.value.reason}"
        return rejected(STAGE, Fault("seed_unsupported", detail))
    for each in question["pool"]:
        answer = answers[each["unit_id"]]
        if answer.fault is not None:
            counts["not_graded"] += 1
        elif answer.value.support not in RELEVANCE:
            counts[answer.value.support] += 1
        else:
            span = find_quote(answer.value.quote, each["text"])
            counts["whole_windows"] += span is None
            gold.append(_gold(each, answer.value, span or (0, len(each["text"]))))
    return {
        "track": question["track"],
        "seed_rank": question["seed_rank"],
        "gold": _distinct(gold),
        **{name: counts[name] for name in ("weak", "unrelated", "not_graded", "whole_windows")},
    }


def _gold(candidate: Row, answer: PassageSupport, span: tuple[int, int]) -> Row:
    start, end = span
    names = ("unit_id", "doc_id", "source_id", "grade", "title", "year", "text")
    return {
        **{name: candidate[name] for name in names},
        "support": answer.support,
        "reason": " ".join(answer.reason.split()),
        "char_start": candidate["char_start"] + start,
        "char_end": candidate["char_start"] + end,
        "quote": candidate["text"][start:end],
    }


def _distinct(gold: Sequence[Row]) -> list[Row]:
    """Sort gold by grade, support and rank; keep a span that two windows share once."""
    ordered = sorted(gold, key=lambda each: (each["grade"], -RELEVANCE[each["support"]]))
    found: dict[tuple[Any, ...], Row] = {}
    for each in ordered:
        found.setdefault((each["doc_id"], each["char_start"], each["char_end"]), each)
    return list(found.values())


def _rule(question: Row, candidate: Row) -> PassageSupport:
    """Grade by the share of the conclusion's words; quote the sentence that has most of them."""
    found = entails(candidate["text"], question["conclusion"], question["text"])
    words = set(content_stems(question["conclusion"]))
    spans = [
        span
        for sentence, _ in split_sentences(candidate["text"], candidate["section"])
        if (span := find_quote(sentence, candidate["text"]))
        and span[1] - span[0] <= _MAX_QUOTE_CHARS
    ]
    texts = [candidate["text"][slice(*span)] for span in spans]
    best = max(texts, key=lambda text: len(words & set(content_stems(text))), default="")
    verdict: Level = "weak"
    if found.verdict != "contradicted" and best:
        verdict = next((name for name, least in _LEVELS if found.score >= least), "unrelated")
    quote = best if verdict in RELEVANCE else ""
    return PassageSupport(reason=found.reason[:300], support=verdict, quote=quote)
