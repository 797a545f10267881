"""Gold windows: four-level support of each candidate for the question (SR-RAG, section 4.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from srrag.algo.entailment import VERSION, content_stems, entails
from srrag.answer.write.cited import UNGRADED
from srrag.core.rows import Row, filled, live, rejected
from srrag.core.step import LLMStep
from srrag.lab.benchmark.sample import SUPPORT, SUPPORTED
from srrag.lab.measure.judgements import in_order, incomplete
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, fenced, quoted
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.reading.prose import find_quote, split_sentences

STAGE = "support"

RELEVANCE = {"strong": 2, "supportive": 1}
"""Support that makes a window gold, and its relevance in a ranking."""
_MAX_QUOTE_CHARS = 800
PASSAGES = 10
"""Candidates of one call."""


Level = Literal["strong", "supportive", "weak", "unrelated"]
_LEVELS: tuple[tuple[Level, float], ...] = (("strong", 0.6), ("supportive", 0.43), ("weak", 0.2))
"""Shares of the conclusion's words from which the rules take a passage to support it so."""


class PassageSupport(Answer):
    """How far a passage supports an answer, and the stretch that does."""

    n: Annotated[int, Field(ge=1, le=999), Means("the number of the passage")]
    quote: Annotated[
        str,
        Text(
            60,
            "the stretch that supports, one or two neighbouring sentences, copied",
            "it is weak or unrelated",
        ),
    ]
    reason: Annotated[str, Text(25, "what it says of the question, in a few words", "it is plain")]
    support: Annotated[
        Level,
        Means(
            "the passage",
            {
                "strong": "answers the question as a whole, for the population and the "
                "intervention or exposure that are asked about",
                "supportive": "answers only a part, or answers it for a population, dose or "
                "comparison close to the one asked about",
                "weak": "is on the same topic and answers nothing of the question",
                "unrelated": "is about something else",
            },
        ),
    ]


class GradedPassages(Answer):
    """A verdict a passage."""

    example: ClassVar[dict[str, Any] | None] = {
        "passages": [
            {
                "n": 1,
                "quote": "Budesonide halved the number of attacks in 12 months.",
                "reason": "It gives the effect that is asked about, in adults.",
                "support": "strong",
            },
            {
                "n": 2,
                "quote": "",
                "reason": "It tells how attacks were counted.",
                "support": "weak",
            },
        ]
    }

    passages: Annotated[list[PassageSupport], Items(PASSAGES, "one a passage, in order")]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "grade_support.md", GradedPassages)


@dataclass(frozen=True, kw_only=True)
class GradeSupport(LLMStep):
    """Grades candidates, PASSAGES in a prompt, which sees only the question and them.

    Strongly supportive and supportive candidates become the gold windows, ordered by grade, those
    without one last. A quote that is not in its passage is asked for again, then replaced by the
    whole window. `not_graded` counts the candidates whose support is not known. A question whose
    own seed window does not support it is rejected (`seed_unsupported`); if grading the seed
    failed, it is rejected for that fault. The rules compare the words of the passage with those of
    the seed's conclusion.
    """

    version: ClassVar[int] = 3
    reads: ClassVar[tuple[str, ...]] = ("unit_id", "text", "conclusion", "pool")
    writes: ClassVar[pa.Schema] = SUPPORTED
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    max_tokens: int = most_tokens(GradedPassages)

    def identity(self) -> dict[str, Any]:
        """Identify the step by its prompt and the words that the rules compare."""
        return {**super().identity(), "entailment": VERSION}

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render a prompt for each part of a pool; its slot is the place where the part begins."""
        system = PROMPT.system()
        return [
            Prompt(
                row,
                str(start),
                system,
                PROMPT.user(
                    question=fenced("question", question["text"]),
                    passages="\n".join(map(_shown, count(1), _part(question, start))),
                ),
                GradedPassages,
                max_tokens=self.max_tokens,
            )
            for row, question in live(batch, self.reads)
            for start in range(0, len(question["pool"]), PASSAGES)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Compare words with those of the seed's conclusion."""
        rows = dict(live(batch, self.reads))
        return [
            GradedPassages(
                passages=[
                    _rule(n, rows[prompt.row], each)
                    for n, each in enumerate(_part(rows[prompt.row], int(prompt.slot)), start=1)
                ]
            ).model_dump_json()
            for prompt in prompts
        ]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Return a fault for passages without a grade, and for quotes that are not in theirs."""
        (_, question), *_ = live(batch.slice(prompt.row, 1), self.reads)
        part = _part(question, int(prompt.slot))
        wrong = [
            place
            for place, each in enumerate(value.passages)
            if each.support in RELEVANCE and each.n <= len(part)
            and find_quote(each.quote, part[each.n - 1]["text"]) is None
        ]  # fmt: skip
        if wrong:
            shown = value.passages[wrong[0]].quote[:200]
            detail = f"This is not in its passage: {shown!r}. Copy exactly."
            return Fault("ungrounded", detail, tuple(("passages", place) for place in wrong))
        return incomplete(value.passages, len(part), "passage")

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Collect the gold windows of each question."""
        questions = dict(live(batch, [*self.reads, "track", "seed_rank"]))
        graded: dict[int, dict[str, PassageSupport | Fault]] = {row: {} for row in questions}
        for prompt, completion in zip(prompts, completions, strict=True):
            part = _part(questions[prompt.row], int(prompt.slot))
            given = in_order(completion.value.passages if completion.value else (), len(part))
            lost = completion.fault or Fault("incomplete", "there is no grade of it")
            for each, found in zip(part, given, strict=True):
                graded[prompt.row][each["unit_id"]] = found or lost
        made = {row: _row(question, graded[row]) for row, question in questions.items()}
        return filled(batch, SUPPORT, made)


def _part(question: Row, start: int) -> list[Row]:
    """The candidates of one prompt."""
    part: list[Row] = question["pool"][start : start + PASSAGES]
    return part


def _shown(n: int, candidate: Row) -> str:
    head = {"n": n, "title": candidate["title"], "section": candidate["section"]}
    return f"{quoted(head)}\n{fenced('passage', candidate['text'])}"


def _row(question: Row, graded: Mapping[str, PassageSupport | Fault]) -> Row:
    gold: list[Row] = []
    counts: Counter[str] = Counter()
    seed = graded.get(question["unit_id"], Fault("seed_unsupported", "the seed is no candidate"))
    if isinstance(seed, Fault):
        return rejected(STAGE, seed)
    if seed.support not in RELEVANCE:
        return rejected(STAGE, Fault("seed_unsupported", f"{seed.support}: {seed.reason}"))
    for each in question["pool"]:
        answer = graded[each["unit_id"]]
        if isinstance(answer, Fault):
            counts["not_graded"] += 1
        elif answer.support not in RELEVANCE:
            counts[answer.support] += 1
        else:
            span = find_quote(answer.quote, each["text"])
            counts["whole_windows"] += span is None
            gold.append(_gold(each, answer, span or (0, len(each["text"]))))
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
    ordered = sorted(
        gold, key=lambda each: (each["grade"] or UNGRADED, -RELEVANCE[each["support"]])
    )
    found: dict[tuple[Any, ...], Row] = {}
    for each in ordered:
        found.setdefault((each["doc_id"], each["char_start"], each["char_end"]), each)
    return list(found.values())


def _rule(n: int, question: Row, candidate: Row) -> PassageSupport:
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
    return PassageSupport(n=n, quote=quote, reason=found.reason, support=verdict)
