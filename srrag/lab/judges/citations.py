"""Citation support: does what a sentence cites bear it out (BioGen, section 9.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from srrag.algo.entailment import SENTENCE_THRESHOLD, entails
from srrag.lab.measure.judgements import (
    REASON,
    Case,
    Judge,
    Judgement,
    Metric,
    evidence_by_id,
)
from srrag.llm.completion import Answer, Completion, PromptFile
from srrag.llm.delimit import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_citation.md")
_CITES = "an answer that cites evidence"
_SENTENCES = "an answer with sentences"

COVERAGE = Metric("citation_coverage", _SENTENCES)
SUPPORT = Metric("citation_support", _CITES)
CONTRADICTION = Metric("citation_contradiction", _CITES, "lower")
VALID = Metric("citation_valid", _SENTENCES)
OUTSIDE = Metric("citations_outside", _CITES, "lower")

_OF_RULE: dict[str, Literal["supports", "contradicts", "neutral"]] = {
    "supported": "supports",
    "contradicted": "contradicts",
    "neutral": "neutral",
}


class CitationVerdict(Answer):
    """What a cited passage says about a sentence."""

    reason: Annotated[str, REASON]
    verdict: Literal["supports", "contradicts", "neutral"]


@dataclass(frozen=True, kw_only=True)
class JudgeCitations(Judge):
    """One call for each sentence and evidence that it cites.

    Of sentences: `citation_coverage` is the mean share of a sentence's citations that support it, 0
    without one, so that citing everything does not pay; `citation_valid` is the share of sentences
    with a citation and none outside the evidence. Of citations: the shares that support, that
    contradict, and that lie outside the evidence (which has to be 0). An abstention has neither and
    is left out; an answer that failed counts 0 in every share that ought to be high.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "missing", "sentences", "evidence")
    metrics: ClassVar[tuple[Metric, ...]] = (COVERAGE, SUPPORT, CONTRADICTION, VALID, OUTSIDE)
    version: ClassVar[int] = 2
    schema: ClassVar[type[Answer]] = CitationVerdict
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """A prompt a citation."""
        system = PROMPT.system()
        return [
            (
                system,
                PROMPT.user(
                    sentence=quoted(sentence["text"]),
                    title=quoted(evidence["title"]),
                    passage=quoted(evidence["text"]),
                ),
            )
            for sentence, evidence in _citations(case)
        ]

    def rule(self, case: Case, number: int) -> CitationVerdict:
        """Compare the words of the sentence with those of the evidence."""
        sentence, evidence = _citations(case)[number]
        text = f"{evidence['title']}\n{evidence['text']}"
        found = entails(text, sentence["text"], threshold=SENTENCE_THRESHOLD)
        return CitationVerdict(reason=found.reason, verdict=_OF_RULE[found.verdict])

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """The judgements of all sentences and their citations."""
        if case["missing"]:
            for metric in (COVERAGE, SUPPORT, VALID):
                yield metric.unanswered(case, "")
        given = iter(answers)
        evidence = evidence_by_id(case)
        for sentence in case["sentences"]:
            item, cited = sentence["text"], list(dict.fromkeys(sentence["evidence_ids"]))
            inside = [name for name in cited if name in evidence]
            verdicts = []
            for name in cited:
                outside = name not in evidence
                yield OUTSIDE.settled(case, f"{name}: {item}", outside, "")
                if outside:
                    yield SUPPORT.settled(case, f"{name}: {item}", 0.0, "not in the evidence")
                else:
                    verdicts.append(next(given))
                    yield from _of_citation(case, f"{name}: {item}", verdicts[-1])
            valid = bool(cited) and len(inside) == len(cited)
            reason = f"{len(inside)} of {len(cited)} in the evidence"
            yield VALID.settled(case, item, valid, reason)
            yield _of_sentence(case, item, verdicts)


def _citations(case: Case) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each sentence with each evidence that it cites and that there is."""
    evidence = evidence_by_id(case)
    return [
        (sentence, evidence[name])
        for sentence in case["sentences"]
        for name in dict.fromkeys(sentence["evidence_ids"])
        if name in evidence
    ]


def _of_citation(case: Case, item: str, answer: Completion) -> Iterable[Judgement]:
    if fault := answer.fault:
        yield from (metric.failed(case, item, fault) for metric in (SUPPORT, CONTRADICTION))
        return
    verdict, reason = answer.value.verdict, f"{answer.value.verdict}: {answer.value.reason}"
    yield SUPPORT.judged(case, item, verdict == "supports", reason)
    yield CONTRADICTION.judged(case, item, verdict == "contradicts", reason)


def _of_sentence(case: Case, item: str, answers: Sequence[Completion]) -> Judgement:
    """The share of its citations that support it; not judged if one of them was not."""
    if lost := next((answer.fault for answer in answers if answer.fault), None):
        return COVERAGE.failed(case, item, lost)
    if not answers:
        return COVERAGE.settled(case, item, 0.0, "it cites no evidence")
    held = sum(answer.value.verdict == "supports" for answer in answers)
    said = f"{held} of {len(answers)} citations support it"
    return COVERAGE.judged(case, item, held / len(answers), said)
