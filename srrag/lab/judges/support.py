"""What evidence bears out: the claims that an answer makes, and the statements that it has to make.

Claims and their verdicts are RAGAS's faithfulness (statement generator and NLI prompt), passages
for each claim TREC's support assessment of citations. Three deviations: RAGAS shows all that was
retrieved, here an answer is held to what it cites; TREC shows the one passage of a sentence,
here claims see those of all sentences, and not which are whose; and what an answer says is lacking
is stated by passages that are silent on it, as the context is all that RAGAS infers from.

Passages for each vital nugget are rethinking-rag's must-have statements that evidence supports
(section 2.1.3), RAGAS's context recall with the passages named. Both see all that was retrieved,
and neither sees the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from srrag.algo.entailment import SENTENCE_THRESHOLD, THRESHOLD, entails
from srrag.lab.measure.judgements import (
    OF_RULE,
    Case,
    Verdict,
    in_order,
    incomplete,
    lines,
    must_have,
)
from srrag.lab.measure.judging_steps import Preparation
from srrag.llm.completion import Answer, Fault, PromptFile, quoted
from srrag.llm.fields import Items, Means, Text

MAX_CLAIMS = 32
Number = Annotated[int, Field(ge=1, le=999)]


class ClaimSupport(Answer):
    """A claim of the answer, and what the passages say of it."""

    sentence: Annotated[Number, Means("the number of the sentence that makes it")]
    claim: Annotated[str, Text(30, "one claim, which makes sense by itself")]
    reason: Annotated[str, Text(25, "what the passages say of it, in a few words", "it is plain")]
    states: Annotated[list[Number], Items(8, "the passages that state all of it", "none does")]
    partly: Annotated[list[Number], Items(8, "those that state a part of it", "none does")]
    denies: Annotated[list[Number], Items(4, "those that say otherwise", "none does")]
    verdict: Annotated[
        Verdict,
        Means(
            "by all passages together",
            {
                "full": "if one passage, or several together, state it or directly imply it",
                "partial": "if they state its main part, but something in it is not stated",
                "none": "if they do not state it, even where you know it to be true",
                "contradicted": "if they say what cannot be true together with it",
            },
        ),
    ]


class Supported(Answer):
    """Claims of an answer, with the passages that state them."""

    example: ClassVar[dict[str, Any] | None] = {
        "claims": [
            {
                "sentence": 1,
                "claim": "In adults with asthma, budesonide halved the attacks within a year.",
                "reason": "2 has half as many attacks, but at 6 months.",
                "states": [],
                "partly": [2],
                "denies": [],
                "verdict": "partial",
            }
        ]
    }

    claims: Annotated[
        list[ClaimSupport], Items(MAX_CLAIMS, "the claims of the answer, in order", "it makes none")
    ]


CLAIMS_PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_support.md", Supported)


@dataclass(frozen=True, kw_only=True)
class JudgeClaims(Preparation):
    """One call an answer: its sentences, and the passages that they cite.

    Where no sentence cites any of the evidence, all of it is shown. An abstention has no claims.
    Where there is no evidence no model is asked: each sentence is a claim that nothing states. By
    rules each sentence is a claim, too; a passage states it if it holds `SENTENCE_THRESHOLD` of its
    words.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "text", "answer", "missing", "abstained", "sentences", "evidence",
    )  # fmt: skip
    fills: ClassVar[tuple[str, ...]] = ("claims", "claims_fault")
    prompt_files: ClassVar[tuple[Path, ...]] = (CLAIMS_PROMPT.path,)
    file: ClassVar[PromptFile] = CLAIMS_PROMPT

    def user(self, case: Case) -> str | None:
        """Sentences and passages, if there are both."""
        if not said(case) or not case["evidence"]:
            return None
        return CLAIMS_PROMPT.user(
            question=quoted(case["text"]),
            sentences=lines({"sentence": text} for text in said(case)),
            passages=lines({"title": e["title"], "text": e["text"]} for e in shown(case)),
        )

    def rule(self, case: Case) -> Supported:
        """Compare the words of each sentence with those of each passage."""
        texts = [f"{item['title']}\n{item['text']}" for item in shown(case)]
        names = [item["evidence_id"] for item in shown(case)]
        cites = [each["evidence_ids"] for each in case["sentences"]] or [[]]
        return Supported(
            claims=[
                _rule_claim(n, text, texts, [name in own for name in names])
                for n, (text, own) in enumerate(zip(said(case), cites, strict=False), start=1)
                if text.strip()
            ]
        )

    def lacks(self, case: Case, answer: Any) -> Fault | None:
        """An answer of which nothing was taken apart."""
        if not answer.claims and len(said(case)) > 1:
            return Fault("incomplete", "There is no claim. Take the sentences apart.")
        return None

    def take(self, case: Case, answer: Any, lost: str) -> dict[str, Any]:
        """Turn numbers of passages into ids; a number that was not shown is none."""
        if said(case) and not case["evidence"]:
            answer = self.rule(case)
        claims = answer.claims if answer and said(case) else []
        return {
            "claims": [_claim(case, each) for each in claims],
            "claims_fault": lost if said(case) else "",
        }


def said(case: Case) -> list[str]:
    """The sentences of an answer that claims something, or its text if it has no sentences."""
    if case["missing"] or case["abstained"]:
        return []
    return [each["text"] for each in case["sentences"]] or [case["answer"]]


def cited(case: Case) -> list[str]:
    """What the sentences of an answer cite, each once, in their order."""
    return list(dict.fromkeys(n for each in case["sentences"] for n in each["evidence_ids"]))


def shown(case: Case) -> list[dict[str, Any]]:
    """The evidence that the sentences cite, in its order; all of it if they cite none of it."""
    evidence: list[dict[str, Any]] = case["evidence"]
    names = set(cited(case))
    return [each for each in evidence if each["evidence_id"] in names] or evidence


def ids(items: Sequence[dict[str, Any]], numbers: Sequence[int]) -> list[str]:
    """The ids of these pieces of evidence by their numbers, from 1."""
    return [items[n - 1]["evidence_id"] for n in dict.fromkeys(numbers) if n <= len(items)]


def _claim(case: Case, given: ClaimSupport) -> dict[str, Any]:
    place, items = given.sentence - 1, shown(case)
    return {
        "text": given.claim,
        "sentence": place if place < len(said(case)) else -1,
        **{name: ids(items, getattr(given, name)) for name in ("states", "partly", "denies")},
        "verdict": given.verdict,
        "reason": given.reason,
    }


def _rule_claim(n: int, claim: str, texts: Sequence[str], own: Sequence[bool]) -> ClaimSupport:
    """What the words of passages say of a sentence; those that it cites come first."""
    found = [entails(text, claim, threshold=SENTENCE_THRESHOLD) for text in texts]
    best = max(found, key=lambda each: (each.verdict == "supported", each.score), default=None)
    order = sorted(range(len(found)), key=lambda place: not own[place])
    places = {word: [n + 1 for n in order if found[n].verdict == word] for word in OF_RULE}
    return ClaimSupport(
        sentence=n,
        claim=claim,
        reason=best.reason if best else "there is no evidence",
        states=places["supported"],
        partly=[],
        denies=places["contradicted"],
        verdict=OF_RULE[best.verdict] if best else "none",
    )


MAX_FACTS = 48


class StatementSupport(Answer):
    """The passages that bear a given statement out."""

    n: Annotated[Number, Means("the number of the statement")]
    reason: Annotated[str, Text(20, "what the passages say of it, in a few words", "it is plain")]
    passages: Annotated[
        list[Number], Items(24, "all passages that bear it out, in full or in part", "none does")
    ]


class Statements(Answer):
    """Given statements, with the passages that bear them out."""

    example: ClassVar[dict[str, Any] | None] = {
        "statements": [{"n": 1, "reason": "1 and 2 count fewer attacks.", "passages": [1, 2]}]
    }

    statements: Annotated[list[StatementSupport], Items(MAX_FACTS, "one a statement, in order")]


STATEMENTS_PROMPT = PromptFile(
    Path(__file__).parent / "prompts" / "judge_statements.md", Statements
)


@dataclass(frozen=True, kw_only=True)
class JudgeStatements(Preparation):
    """One call a question and its evidence: its vital nuggets, whatever was answered.

    Answers from the same evidence share it. Without evidence nothing bears them out, and no model
    is asked. By rules a passage bears out a nugget of which it holds `THRESHOLD` of the words.
    """

    reads: ClassVar[tuple[str, ...]] = ("text", "evidence", "nuggets")
    fills: ClassVar[tuple[str, ...]] = ("support",)
    prompt_files: ClassVar[tuple[Path, ...]] = (STATEMENTS_PROMPT.path,)
    file: ClassVar[PromptFile] = STATEMENTS_PROMPT

    def user(self, case: Case) -> str | None:
        """Nuggets and passages, if there are both."""
        if not case["evidence"] or not must_have(case):
            return None
        return STATEMENTS_PROMPT.user(
            question=quoted(case["text"]),
            statements=lines({"statement": text} for text in must_have(case)),
            passages=lines({"title": e["title"], "text": e["text"]} for e in case["evidence"]),
        )

    def rule(self, case: Case) -> Statements:
        """Compare the words of each nugget with those of each passage."""
        reason = f"passages with {THRESHOLD:.0%} of the statement's words"
        return Statements(
            statements=[
                StatementSupport(
                    n=n,
                    reason=reason,
                    passages=[
                        place
                        for place, item in enumerate(case["evidence"], start=1)
                        if entails(item["text"], statement, case["text"], THRESHOLD).verdict
                        == "supported"
                    ],
                )
                for n, statement in enumerate(must_have(case), start=1)
            ]
        )

    def lacks(self, case: Case, answer: Any) -> Fault | None:
        """Statements without a verdict."""
        return incomplete(answer.statements, min(MAX_FACTS, len(must_have(case))), "statement")

    def take(self, case: Case, answer: Any, lost: str) -> dict[str, Any]:
        """Turn numbers of passages into ids; a number that was not shown is none."""
        listed = in_order(answer.statements if answer else (), len(must_have(case)))
        fault = lost or ("incomplete" if answer else "")
        return {
            "support": [
                _found(ids(case["evidence"], each.passages), each.reason)
                if each
                else _found(fault=fault)
                for each in listed
            ]
        }


def _found(evidence_ids: Sequence[str] = (), reason: str = "", fault: str = "") -> dict[str, Any]:
    return {"evidence_ids": list(evidence_ids), "reason": reason, "fault": fault}


def relevance(case: Case) -> Mapping[str, bool | None]:
    """Whether each piece of evidence supports a vital nugget.

    None where no verdict names it while one is lost.
    """
    named = {name for each in case["support"] for name in each["evidence_ids"]}
    lost = lost_support(case) is not None
    names = (item["evidence_id"] for item in case["evidence"])
    return {name: True if name in named else None if lost else False for name in names}


def lost_support(case: Case) -> Fault | None:
    """The fault of a vital nugget whose support is not known."""
    kind = next((each["fault"] for each in case["support"] if each["fault"]), "")
    return unknown(kind) if kind else None


def unknown(kind: str) -> Fault:
    """Why it is not known what supports a statement."""
    return Fault(kind, "it is not known which evidence supports what")
