"""PICOT match: is an answer about the population, intervention, … asked for (Listing S4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import StringConstraints

from srrag.algo.entailment import entails
from srrag.lab.measure.judgements import Case, Judge, Judgement, Metric, first_words
from srrag.llm.completion import Answer, Completion, PromptFile
from srrag.llm.delimit import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "match_picot.md")
FIELDS = "PICOT"
_NEEDS = "a PICOT field in the gold"

MATCH = Metric("picot_match", _NEEDS, pooled=True)
WITH_MISSING = Metric("picot_match_missing_counted", _NEEDS, pooled=True)

Found = Annotated[str, StringConstraints(max_length=300)]
Why = Annotated[str, StringConstraints(max_length=200)]

FIELD_THRESHOLD = 0.5
"""Share of its words that an answer has to hold, for the rules to match a field."""


class FieldMatch(Answer):
    """What an answer states of one field, and whether that is what was expected."""

    found: Found
    reason: Why
    match: bool


class PicotMatch(Answer):
    """The five fields."""

    P: FieldMatch
    I: FieldMatch  # noqa: E741 (the field's own name)
    C: FieldMatch
    O: FieldMatch  # noqa: E741
    T: FieldMatch


@dataclass(frozen=True, kw_only=True)
class JudgePicot(Judge):
    """One call a question. The rate is that of all fields of all questions, pooled.

    A field that the gold lacks is left out of `picot_match` (SR-RAG, section 2.4 and Listing S4),
    and counts as matched in `picot_match_missing_counted` (its section 4.6), unless there is no
    answer: then nothing is matched. By rules a field matches if the answer holds `threshold` of its
    words; synonyms beyond a small table do not.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "text", "answer", "missing", "picot")
    metrics: ClassVar[tuple[Metric, ...]] = (MATCH, WITH_MISSING)
    schema: ClassVar[type[Answer]] = PicotMatch
    max_tokens: ClassVar[int] = 768
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    words: int | None = 250
    """Only so many words of an answer are judged; null: all."""

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """One prompt with all fields."""
        if case["missing"] or not any(case["picot"].values()):
            return []
        expected = {name: case["picot"][name] or None for name in FIELDS}
        user = PROMPT.user(
            question=quoted(case["text"]),
            expected=quoted(expected),
            answer=quoted(first_words(case["answer"], self.words)),
        )
        return [(PROMPT.system(), user)]

    def rule(self, case: Case, number: int) -> PicotMatch:
        """Compare the words of each field with those of the answer."""
        return PicotMatch(**{name: self._field(case, name) for name in FIELDS})

    def _field(self, case: Case, name: str) -> FieldMatch:
        expected = case["picot"][name]
        if not expected:
            return FieldMatch(found="", reason="the gold lacks this field", match=False)
        found = entails(
            first_words(case["answer"], self.words), expected, threshold=FIELD_THRESHOLD
        )
        # A denied field is named all the same: whether the answer agrees is not asked here.
        matches = found.score >= FIELD_THRESHOLD
        return FieldMatch(
            found=expected[:300] if matches else "", reason=found.reason[:200], match=matches
        )

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """A judgement a field, once without and once with the fields that the gold lacks."""
        if not any(case["picot"].values()):
            return
        for name in FIELDS:
            if not case["picot"][name] and not case["missing"]:
                yield WITH_MISSING.settled(case, name, 1.0, "the gold lacks this field")
                continue
            for metric in self.metrics if case["picot"][name] else (WITH_MISSING,):
                if case["missing"]:
                    yield metric.unanswered(case, name)
                elif fault := answers[0].fault:
                    yield metric.failed(case, name, fault)
                else:
                    found = getattr(answers[0].value, name)
                    reason = f"{found.reason} (found: {found.found!r})"
                    # Nothing can match that was not found.
                    matches = found.match and bool(found.found.strip())
                    yield metric.judged(case, name, matches, reason)
